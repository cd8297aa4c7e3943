"""Arguments of ``counterpoise control``."""

from __future__ import annotations

import argparse

from counterpoise.app.arguments import common

DESCRIPTION = "Order the balancer that writes a history to pause, to go on, or to end."

EPILOG = """\
examples:
  counterpoise control pause --history ./history --why "release of 22 November"
  counterpoise control resume --history ./history
  counterpoise control stop --history s3://bucket/history

The balancer reads this before each move, wherever it runs: a move that has begun is seen through,
the next one is not begun. A pause outlives the balancer, a stop is for the one that runs now.
Exit status: 0, or 2 for something to put right.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``control``."""
    parser.add_argument(
        "wish",
        choices=("pause", "resume", "stop"),
        help="pause: watch and decide, move nothing; resume: go on; stop: end",
    )
    common.add_history(parser, "the balancer's history")
    parser.add_argument("--why", default="", metavar="TEXT", help="kept, and said with each move")
