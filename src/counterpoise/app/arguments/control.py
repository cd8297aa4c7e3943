"""Arguments of ``counterpoise control``."""

import argparse

from counterpoise.app.arguments import common

DESCRIPTION = "Order the balancer that writes a history to pause, to go on, or to end."

EPILOG = """\
examples:
  counterpoise control pause --history ./history --why "release of 22 November"
  counterpoise control resume --history ./history
  counterpoise control stop --history s3://bucket/history

The balancer reads the order before each move, on whatever machine it runs: a move that has begun is
completed, and no other begins. A pause also applies after a restart of the balancer; a stop ends
only the balancer that runs now.
Exit status: 0, or 2 for an error to correct.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``control``."""
    parser.add_argument(
        "wish",
        choices=("pause", "resume", "stop"),
        help="pause: decide, but move nothing; resume: move again; stop: end the balancer",
    )
    common.add_history(parser, "the balancer's history")
    parser.add_argument(
        "--why",
        default="",
        metavar="TEXT",
        help="the reason, which is recorded and shown with each withheld move",
    )
