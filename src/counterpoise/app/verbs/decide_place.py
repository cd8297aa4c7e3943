"""``counterpoise decide place``: which broker a strategy would give a bundle."""

from __future__ import annotations

import argparse
from random import Random
from typing import Any

from counterpoise.app.conf import add_conf_arguments, read_conf, settings_from
from counterpoise.app.errors import UserError
from counterpoise.app.json_lines import answer_lines
from counterpoise.decide.placement import PlacementOptions
from counterpoise.decide.placement.line import initial_memory, known_names, place_line

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
        help=f"{', '.join(known_names())}, or Pulsar's class name; "
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
    options = settings_from(PlacementOptions, read_conf(args.conf, args.settings))
    name = args.strategy or options.strategy
    try:
        memory = initial_memory(name)
    except KeyError:
        raise UserError(
            f"no placement strategy is called {name!r}; there are {', '.join(known_names())}"
        ) from None
    rng = None if args.seed is None else Random(args.seed)

    def answer(value: object) -> dict[str, Any]:
        nonlocal memory
        answered, memory = place_line(value, name, options, memory, rng)
        return answered

    answer_lines(answer)
    return 0
