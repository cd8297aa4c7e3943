"""``counterpoise decide``: ask a strategy what it would do with load data, and why."""

from __future__ import annotations

import argparse

from counterpoise.app.verbs import decide_place, decide_shed, decide_split

EPILOG = """\
examples:
  counterpoise decide shed --strategy ThresholdShedder --conf broker.conf < loaddata.jsonl
  counterpoise decide place --strategy LeastLongTermMessageRate < requests.jsonl
  counterpoise decide split --algorithm flow_or_qps_equally_divide < bundles.jsonl

Each reads one JSON object a line and answers one a line; `counterpoise decide shed --help` and so
on show them. What is wrong in a line is named by line and field, with exit status 2.
"""


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser],
) -> argparse.ArgumentParser:
    """Add ``decide`` with ``shed``, ``place`` and ``split`` under it."""
    parser = subparsers.add_parser(
        "decide",
        help="ask a strategy what it would do, and why",
        description="Asks one of Pulsar's strategies, or your own, what it would do.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    inner = parser.add_subparsers(metavar="WHAT", required=True, title="what to decide")
    for verb in (decide_shed, decide_place, decide_split):
        verb.add_parser(inner)
    return parser


def run(args: argparse.Namespace) -> int:
    """Run the chosen sub-verb."""
    status: int = args.decide(args)
    return status
