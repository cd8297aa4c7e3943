"""Arguments of ``counterpoise replay``."""

import argparse

from counterpoise.app.arguments import common

DESCRIPTION = "Repeat what clients of a recorded cluster did, and print which responses differ."

EPILOG = """\
examples:
  counterpoise replay FILE                   on a new cluster, as fast as responses arrive
  counterpoise replay FILE --speed 1         with the recorded pauses
  counterpoise replay FILE --url pulsar://127.0.0.1:6650
  counterpoise replay FILE --fault '{"operation": "SEND", "effect": "error",
      "code": "PersistenceError", "every": 3}'

Record with 'counterpoise up --record FILE'. Exit status: 0 if every response is the same, 1 if
one is not, 2 for a file that cannot be replayed.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``replay``."""
    common.file(parser, "file", "the recording")
    parser.add_argument(
        "--url", metavar="URL", help="pulsar://host:port of a broker (default: a fresh cluster)"
    )
    common.repeated(
        parser,
        "--fault",
        "JSON",
        "a fault of the fresh cluster, as POST /admin/v2/faults takes it; may be repeated",
    )
    parser.add_argument(
        "--speed",
        type=float,
        metavar="X",
        help="1: with the recorded pauses, 2: twice as fast (default: without pauses)",
    )
    common.number(
        parser,
        "--patience",
        "SECONDS",
        float,
        5.0,
        ("how long to wait for a response that was recorded"),
    )
