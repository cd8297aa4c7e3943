"""Arguments of ``counterpoise decide``, and of ``shed``, ``place`` and ``split`` under it."""

import argparse

from counterpoise.app.arguments import common
from counterpoise.app.strategies import DEFAULT_SHEDDER, SHEDDER_SETTING
from counterpoise.decide.placement.registry import PLACEMENTS
from counterpoise.decide.shedding.registry import SHEDDERS
from counterpoise.decide.splitting.algorithms import ALGORITHMS

DESCRIPTION = "Asks one of Pulsar's strategies, or your own, what it would do."
EPILOG = """\
examples:
  counterpoise decide shed --strategy ThresholdShedder --conf broker.conf < loaddata.jsonl
  counterpoise decide place --strategy LeastLongTermMessageRate < requests.jsonl
  counterpoise decide split --algorithm flow_or_qps_equally_divide < bundles.jsonl

Each reads one JSON object a line and answers one a line; `counterpoise decide shed --help` and so
on show them. An invalid line is reported with its line and field, with exit status 2.
"""

_SHED = """\
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

_PLACE = """\
one line of standard input:
  {"bundle": "tenant/ns/0x00000000_0x80000000", "candidates": ["b1:8080", "b2:8080"],
   "loadData": {"now": 0, "brokerData": {...}, "bundleData": {...}}}
and its answer:
  {"broker": "b1:8080", "admissible": ["b1:8080"], "reason": "least_rate", "sentence": "..."}

"admissible" holds every broker the strategy finds equally good. One strategy reads the lines in
order, and remembers what Pulsar's would.
"""

_SPLIT = """\
one line of standard input:
  {"bundle": "tenant/ns/0x00000000_0x80000000", "topics": {"persistent://tenant/ns/a":
   {"msgRateIn": 10, "msgRateOut": 10, "msgThroughputIn": 1e6, "msgThroughputOut": 1e6}},
   "boundaries": ["0x40000000"]}
and its answer:
  {"boundaries": ["0x40000000"], "reason": "specified", "sentence": "..."}

"topics" may be left out for range_equally_divide; only specified_positions_divide reads
"boundaries".
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands ``shed``, ``place`` and ``split`` of ``decide``."""
    inner = parser.add_subparsers(
        dest="what", metavar="WHAT", required=True, title="what to decide"
    )
    for name, add, text, description, epilog in (
        (
            "shed",
            _add_shed,
            "which bundles would be unloaded, and why not others",
            "Answers each line of load data with the bundles a strategy would move.",
            _SHED,
        ),
        (
            "place",
            _add_place,
            "which broker a bundle would go to",
            "Answers each line of load data with the broker a strategy chooses.",
            _PLACE,
        ),
        (
            "split",
            _add_split,
            "where a bundle would be split",
            "Answers each line of load data with the boundaries an algorithm chooses.",
            _SPLIT,
        ),
    ):
        verb = inner.add_parser(
            name,
            help=text,
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        add(verb)
        common.add_conf(verb)


def _add_shed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--strategy",
        metavar="NAME",
        help=f"{', '.join(sorted(SHEDDERS))}, Pulsar's class name, or module:Class of your own; "
        f"without it, {SHEDDER_SETTING}, else {DEFAULT_SHEDDER}",
    )


def _add_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--strategy",
        metavar="NAME",
        help=f"{', '.join(PLACEMENTS)}, Pulsar's class name, or module:Class of "
        "your own; "
        "without it, loadBalancerLoadPlacementStrategy",
    )
    parser.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="choose at random among equally good brokers, from this seed; "
        "without it they are settled by value, then name",
    )


def _add_split(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--algorithm",
        choices=list(ALGORITHMS),
        metavar="NAME",
        help=f"{', '.join(ALGORITHMS)}; without it, defaultNamespaceBundleSplitAlgorithm",
    )
