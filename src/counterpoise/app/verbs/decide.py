"""``counterpoise decide``: ask a strategy what it would do with load data, and why."""

import argparse
from random import Random
from typing import Any

from counterpoise.app.conf import read_conf, settings_from
from counterpoise.app.decide_lines import EXTENSIBLE, place_line, shed_line, split_line
from counterpoise.app.json_lines import answer_lines
from counterpoise.app.strategies import find_placement, find_shedder
from counterpoise.decide.memory import NO_MEMORY
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.strategy import PlacementStrategy
from counterpoise.decide.splitting.options import SplitOptions
from counterpoise.names.properties import Properties


def run(args: argparse.Namespace) -> int:
    """Run ``decide``: answer each line of standard input by a line."""
    {"shed": _shed, "place": _place, "split": _split}[args.what](args)
    return 0


def _shed(args: argparse.Namespace) -> None:
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


def _place(args: argparse.Namespace) -> None:
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


def _split(args: argparse.Namespace) -> None:
    options = settings_from(SplitOptions, read_conf(args.conf, args.settings))
    name = args.algorithm or options.default_algorithm
    answer_lines(lambda value: split_line(value, name, options))
