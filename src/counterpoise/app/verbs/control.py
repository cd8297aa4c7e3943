"""``counterpoise control``: pause, resume or stop the balancer that writes a history."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from counterpoise.app.errors import UserError
from counterpoise.app.packages import needed_by

if TYPE_CHECKING:
    from counterpoise.app.main import Subparsers

EPILOG = """\
examples:
  counterpoise control pause --history ./history --why "release of 22 November"
  counterpoise control resume --history ./history
  counterpoise control stop --history s3://bucket/history

The balancer reads this before each move, wherever it runs: a move that has begun is seen through,
the next one is not begun. A pause outlives the balancer, a stop is for the one that runs now.
Exit status: 0, or 2 for something to put right.
"""


def add_parser(subparsers: Subparsers) -> argparse.ArgumentParser:
    """Add ``control``."""
    parser = subparsers.add_parser(
        "control",
        help="pause, resume or stop a running balancer",
        description="Order the balancer that writes a history to pause, to go on, or to end.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "wish",
        choices=("pause", "resume", "stop"),
        help="pause: watch and decide, move nothing; resume: go on; stop: end",
    )
    parser.add_argument("--history", required=True, metavar="URI", help="the balancer's history")
    parser.add_argument("--why", default="", metavar="TEXT", help="kept, and said with each move")
    return parser


def run(args: argparse.Namespace) -> int:
    """Write it down for the balancer."""
    with needed_by("a history"):
        from counterpoise.pipeline.clock import wall_clock_ms
        from counterpoise.pipeline.history.control import Control, Wish, write_control
        from counterpoise.pipeline.history.faults import HistoryFaultError
        from counterpoise.pipeline.history.store import open_store
    wish = Wish.GO if args.wish == "resume" else Wish(args.wish)
    try:
        store = open_store(args.history)
        if not store.directories(""):
            raise UserError(f"{store.address} is no history: nothing is in it")
        write_control(store, Control(wish, wall_clock_ms(), args.why))
    except (HistoryFaultError, OSError, ValueError) as error:
        raise UserError(str(error)) from None
    said = {Wish.PAUSE: "no further move begins", Wish.GO: "moves go on", Wish.STOP: "it ends"}
    sys.stdout.write(f"{store.address}: {said[wish]}\n")
    return 0
