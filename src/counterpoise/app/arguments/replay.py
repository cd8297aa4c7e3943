"""Arguments of ``counterpoise replay``."""

from __future__ import annotations

import argparse

from counterpoise.app.arguments import common

DESCRIPTION = "Do again what clients of a recorded cluster did, and say what is otherwise now."

EPILOG = """\
examples:
  counterpoise replay FILE                   against a fresh cluster, as fast as answers come
  counterpoise replay FILE --speed 1         with the pauses that there were
  counterpoise replay FILE --url pulsar://127.0.0.1:6650
  counterpoise replay FILE --fault '{"operation": "SEND", "effect": "error",
      "code": "PersistenceError", "every": 3}'

Record with 'counterpoise up --record FILE'. Exit status: 0 when every answer is the same, 1 when
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
        help="1: with the pauses that there were, 2: twice as fast (default: without pauses)",
    )
    common.number(
        parser, "--patience", "SECONDS", float, 5.0, "how long to wait for an answer that came then"
    )
