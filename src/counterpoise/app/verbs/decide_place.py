"""``counterpoise decide place``: which broker a strategy would give a bundle."""

from __future__ import annotations

import argparse
from random import Random
from typing import Any

from counterpoise.app.conf import add_conf_arguments, read_conf, settings_from
from counterpoise.app.json_lines import answer_lines
from counterpoise.app.strategies import find_placement
from counterpoise.decide.memory import NO_MEMORY
from counterpoise.decide.placement import PLACEMENTS, PlacementOptions, PlacementStrategy
from counterpoise.decide.placement.line import EXTENSIBLE, place_line
from counterpoise.names.properties import Properties

EPILOG = """\
one line of standard input:
  {"bundle": "tenant/ns/0x00000000_0x80000000", "candidates": ["b1:8080", "b2:8080"],
   "loadData": {"now": 0, "brokerData": {...}, "bundleData": {...}}}
and its answer:
  {"broker": "b1:8080", "admissible": ["b1:8080"], "reason": "least_rate", "sentence": "..."}

"admissible" holds every broker the strategy finds equally good. Lines are seen in order by one
strategy, which remembers what Pulsar's would.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``decide place``."""
    parser = subparsers.add_parser(
        "place",
        help="which broker a bundle would go to",
        description="Answers each line of load data with the broker a strategy chooses.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
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
    add_conf_arguments(parser)
    parser.set_defaults(decide=run)


def run(args: argparse.Namespace) -> int:
    """Answer standard input line by line."""

    def named(properties: Properties) -> PlacementStrategy[Any, Any] | None:
        name = args.strategy
        if name is None:
            name = settings_from(PlacementOptions, properties).strategy
        return None if name == EXTENSIBLE else find_placement(name)

    def own(properties: Properties) -> list[type]:
        strategy = named(properties)
        return [] if strategy is None else [strategy.options]

    properties = read_conf(args.conf, args.settings, own)
    strategy = named(properties)
    options = settings_from(strategy.options if strategy else PlacementOptions, properties)
    memory = strategy.initial_memory() if strategy else NO_MEMORY
    rng = None if args.seed is None else Random(args.seed)

    def answer(value: object) -> dict[str, Any]:
        nonlocal memory
        answered, memory = place_line(value, strategy, options, memory, rng)
        return answered

    answer_lines(answer)
    return 0
