"""``counterpoise demo``: watch an uneven cluster become even."""

import argparse
import signal
import sys
from types import FrameType

from counterpoise.app.clusters.java import find_java
from counterpoise.app.demo.admin import AdminError
from counterpoise.app.demo.plan import DemoOptions
from counterpoise.app.demo.run import DemoResult, run_demo
from counterpoise.app.demo.screen import open_screen
from counterpoise.app.errors import UserError

EXIT_PROBLEM = 1


def run(args: argparse.Namespace) -> int:
    """Run ``demo`` and print its result; the exit status says whether it succeeded."""
    if args.brokers < 2:
        raise UserError(f"--brokers {args.brokers}: to move anything takes at least two.")
    find_java()

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
        sys.stdout.write(f"failed:  {problem}\n")
    sys.stdout.flush()
