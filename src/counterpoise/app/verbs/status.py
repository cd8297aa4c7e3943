"""``counterpoise status``: what a balancer is doing, by its history."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from statistics import median
from typing import TYPE_CHECKING

from counterpoise.app.errors import UserError
from counterpoise.app.packages import needed_by

if TYPE_CHECKING:
    from counterpoise.app.main import Subparsers
    from counterpoise.pipeline.history.status import BalancerStatus

NAMED = 3

EPILOG = """\
examples:
  counterpoise status --history ./history
  counterpoise status --history s3://bucket/history --json

Everything is read from the history, so it works wherever the balancer runs, and when it does not.
Exit status: 0, or 2 for something to put right.
"""


def add_parser(subparsers: Subparsers) -> argparse.ArgumentParser:
    """Add ``status``."""
    parser = subparsers.add_parser(
        "status",
        help="what a balancer is doing",
        description="The last look, the last round, and what came of the last hour's moves.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--history", required=True, metavar="URI", help="the balancer's history")
    parser.add_argument("--json", action="store_true", help="the same as one JSON object")
    return parser


def run(args: argparse.Namespace) -> int:
    """Read it and say it."""
    with needed_by("a history"):
        from counterpoise.pipeline.clock import wall_clock_ms
        from counterpoise.pipeline.history.faults import HistoryFaultError
        from counterpoise.pipeline.history.status import read_status
        from counterpoise.pipeline.history.store import open_store
    try:
        store = open_store(args.history)
        if not store.directories(""):
            raise UserError(f"{store.address} is no history: nothing is in it")
        found = read_status(store, wall_clock_ms())
    except (HistoryFaultError, OSError, ValueError) as error:
        raise UserError(str(error)) from None
    text = json.dumps(found.to_json(), indent=2) if args.json else "\n".join(sentences(found))
    sys.stdout.write(text + "\n")
    return 0


def sentences(found: BalancerStatus) -> list[str]:
    """The status for a person, a line each."""
    lines = [f"history {found.history}"]
    if held := found.control.withholds(0):
        lines.append(held)
    poll, made = found.poll, found.round
    if poll is None:
        lines.append("no look at the cluster yet")
    else:
        lines.append(
            f"last look {_ago(found, poll.at_ms)}: {poll.brokers} brokers reported their load"
        )
        lines += [f"  the cluster did not answer: {poll.trouble}"] if poll.trouble else []
        lines += [f"  no load report from {name}: {why}" for name, why in poll.silent.items()]
    if made is None:
        lines.append("no round of decisions yet")
    else:
        state = "" if made.complete else ", under way or cut off"
        lines.append(
            f"last round {_ago(found, made.at_ms)}: {made.moves} moves by {made.strategy}, "
            f"imbalance {made.imbalance:.2f}{state}"
        )
        lines += [f"  not done: {each}" for each in made.rejections[:NAMED]]
        if len(made.rejections) > NAMED:
            lines.append(f"  and {len(made.rejections) - NAMED} more (--json)")
    ends = ", ".join(f"{count} {status}" for status, count in found.outcomes.items())
    lines.append(f"moves of the last hour: {ends or 'none'}")
    if found.seconds:
        lines.append(
            f"  each took {median(found.seconds):.1f} s in the median, "
            f"{found.seconds[-1]:.1f} s at most"
        )
    lines += [f"  withheld {count}: {rule}" for rule, count in found.withheld.items()]
    lines += [f"  failed {bundle}: {error}" for bundle, error in found.failures[:NAMED]]
    lines += [
        f"gaps of the last hour: {name}, {polls} polls, lately: {why}"
        for name, (polls, why) in found.gaps.items()
    ]
    return lines


def _ago(found: BalancerStatus, at_ms: int) -> str:
    seconds = max(0, found.now_ms - at_ms) // 1000
    when = f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    for unit, size in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit} ago ({when})"
    return f"{seconds} s ago ({when})"
