"""``counterpoise decide shed``: which bundles a strategy would take from which brokers."""

from __future__ import annotations

import argparse
from typing import Any

from counterpoise.app.conf import add_conf_arguments, read_conf, settings_from
from counterpoise.app.json_lines import answer_lines
from counterpoise.app.strategies import DEFAULT_SHEDDER, SHEDDER_SETTING, find_shedder
from counterpoise.decide.shedding import SHEDDERS
from counterpoise.decide.shedding.line import shed_line

EPILOG = """\
one line of standard input, Pulsar's own LoadData as JSON:
  {"now": MS, "brokerData": {"b1:8080": {"localData": LocalBrokerData,
     "timeAverageData": TimeAverageBrokerData, "preallocatedBundleData": {}}},
   "bundleData": {"tenant/ns/0x00000000_0x80000000": BundleData}, "recentlyUnloadedBundles": {}}
for TransferShedder:
  {"now": MS, "brokers": {"b1:8080": {"brokerLoadData": BrokerLoadData,
     "topBundlesLoadData": TopBundlesLoadData}},
   "recentlyUnloadedBundles": {}, "recentlyUnloadedBrokers": {}}
and its answer:
  {"decisions": [{"broker": "b1:8080", "bundle": "...", "destination": null, "reason": "...",
     "sentence": "...", ...}], "rejections": [{"subject": "b2:8080", "setting": "...", ...}]}

Lines are seen in order by one strategy, which remembers what Pulsar's would.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``decide shed``."""
    parser = subparsers.add_parser(
        "shed",
        help="which bundles would be unloaded, and why not others",
        description="Answers each line of load data with the bundles a strategy would move.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = sorted(SHEDDERS)
    parser.add_argument(
        "--strategy",
        metavar="NAME",
        help=f"{', '.join(names)}, Pulsar's class name, or module:Class of your own; without it, "
        f"{SHEDDER_SETTING}, else {DEFAULT_SHEDDER}",
    )
    add_conf_arguments(parser)
    parser.set_defaults(decide=run)


def run(args: argparse.Namespace) -> int:
    """Answer standard input line by line."""
    properties = read_conf(
        args.conf, args.settings, lambda given: [find_shedder(args.strategy, given).options]
    )
    shedder = find_shedder(args.strategy, properties)
    options = settings_from(shedder.options, properties)
    memory = shedder.initial_memory()

    def answer(value: object) -> dict[str, Any]:
        nonlocal memory
        answered, memory = shed_line(value, shedder, options, memory)
        return answered

    answer_lines(answer)
    return 0
