"""``counterpoise demo``: watch an uneven cluster become even."""

from __future__ import annotations

import argparse
import importlib.util
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from counterpoise.app.errors import UserError

if TYPE_CHECKING:
    from counterpoise.app.demo.run import DemoResult
    from counterpoise.app.main import Subparsers

EXIT_PROBLEM = 1

EPILOG = """\
Three brokers and ZooKeeper start as processes of their own; the official client publishes to many
topics, most of the load to one broker; the leader's balancer, a Spark application, sees it and
moves bundles. At the end every message is accounted for.

Exit status: 0 when the imbalance has fallen by half and no message was lost, else 1; 2 for
something to put right first.
"""


def add_parser(subparsers: Subparsers) -> argparse.ArgumentParser:
    """Add ``demo`` and its options."""
    parser = subparsers.add_parser(
        "demo",
        help="watch an uneven cluster become even",
        description="Start a cluster, load it unevenly, and watch its balancer even it out.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--brokers", type=int, default=3, metavar="N", help="how many (3)")
    parser.add_argument(
        "--limit",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="longest time from the balancer's first round on (default 120)",
    )
    parser.add_argument(
        "--picture",
        type=Path,
        default=Path("counterpoise-demo.png"),
        metavar="FILE",
        help="where the picture of the load goes (default counterpoise-demo.png)",
    )
    return parser


def run(args: argparse.Namespace) -> int:
    """Run it, say what it came to, and exit accordingly."""
    from counterpoise.app.java import find_java

    if args.brokers < 2:
        raise UserError(f"--brokers {args.brokers}: to move anything takes at least two.")
    missing = [
        name
        for name in ("pulsar", "pyspark", "pyarrow", "pandas", "matplotlib", "rich")
        if importlib.util.find_spec(name) is None
    ]
    if missing:
        raise UserError(
            f"the demonstration needs {', '.join(missing)}: pip install 'counterpoise[demo]'"
        )
    find_java()
    from counterpoise.app.demo.admin import AdminError
    from counterpoise.app.demo.plan import DemoOptions
    from counterpoise.app.demo.run import run_demo
    from counterpoise.app.demo.screen import open_screen

    signal.signal(signal.SIGTERM, _interrupt)
    options = DemoOptions(brokers=args.brokers, limit_s=args.limit, picture=args.picture)
    try:
        with open_screen() as screen:
            result = run_demo(options, screen)
    except AdminError as error:
        sys.stderr.write(f"counterpoise: {error}\n")
        return EXIT_PROBLEM
    _print(result)
    return EXIT_PROBLEM if result.problems else 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _print(result: DemoResult) -> None:
    tally = result.tally
    failed = f"  failed        {tally.failed:>12,}\n" if tally.failed else ""
    sys.stdout.write(
        "\n"
        f"  sent          {tally.sent:>12,}\n"
        f"{failed}"
        f"  acknowledged  {tally.acknowledged:>12,}\n"
        f"  received      {tally.received:>12,}\n"
        f"  lost          {tally.lost:>12,}\n"
        f"  duplicated    {tally.duplicated:>12,}\n"
        f"  moves         {result.moves:>12,}\n"
        f"  imbalance     {result.before:>12.2f} before (largest ÷ mean - 1)\n"
        f"                {result.after:>12.2f} after\n"
        f"  picture       {result.picture}\n\n"
    )
    for problem in result.problems:
        sys.stdout.write(f"not as it should be: {problem}\n")
    sys.stdout.flush()
