"""``counterpoise backtest --strategies --grid``: every strategy with every set of settings."""

import argparse
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from counterpoise.app import strategies
from counterpoise.app.arguments.backtest import EVERY
from counterpoise.app.conf import changing_nothing, read_conf
from counterpoise.app.errors import UserError
from counterpoise.decide.balancing.options import BalanceOptions
from counterpoise.decide.balancing.round import BalancingStrategy
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.decide.placement.least_usage import LeastUsage
from counterpoise.names.options import all_options
from counterpoise.names.properties import Properties
from counterpoise.pipeline.backtest.simulate import BacktestCandidate

NO_MOVES = "no moves"


def candidates_of(args: argparse.Namespace) -> list[BacktestCandidate]:
    """Return the baseline without moves, and each strategy with each combination of settings.

    Raises `UserError`, also for a setting that none of the strategies reads.
    """
    named = _named(args)
    if not named:
        raise UserError(f"--strategies {args.strategies!r} names none; such as {EVERY}")
    own = partial(_own_options, named)
    conf = read_conf(args.conf, args.settings, own)
    found = {NO_MOVES: BacktestCandidate(NO_MOVES, None)}
    unread = {text.partition("=")[0].strip() for text in args.grid}
    for name, overrides in itertools.product(named, grid(args.grid, own)):
        shedder, _, placement = name.partition("/")
        by = _strategy(args, conf.overridden(overrides), shedder, placement)
        read = {key: value for key, value in overrides.items() if key in _read_by(by, placement)}
        unread -= read.keys()
        label = " ".join([name, *(f"{key}={value}" for key, value in read.items())])
        found.setdefault(label, BacktestCandidate(label, by))
    if unread:
        tried = ", ".join(named)
        raise UserError(f"--grid {min(unread)}: {tried} read no such setting, so nothing changes")
    return list(found.values())


def unplayed(args: argparse.Namespace) -> list[str]:
    """Return a sentence for each ``--set`` that has no effect on a backtest."""
    filters = [FilterOptions] if args.as_pulsar else []
    return changing_nothing(args.settings, [*_own_options(_named(args), Properties()), *filters])


def grid(
    texts: Iterable[str], own: Callable[[Properties], Iterable[type]] = lambda _: ()
) -> list[Mapping[str, str]]:
    """Return all combinations of the values in texts ``NAME=V1,V2``; without texts, an empty one.

    ``own`` returns the option classes of an operator's own strategies. Raises `UserError`.
    """
    choices: dict[str, list[str]] = {}
    for text in texts:
        name, equals, values = (part.strip() for part in text.partition("="))
        each = list(dict.fromkeys(map(str.strip, values.split(","))))
        if not equals or not name or not all(each):
            raise UserError(f"--grid {text}: expected NAME=V1,V2")
        if name in choices:
            raise UserError(f"--grid {name} is given twice: write {name}=V1,V2")
        choices[name] = each
    read_conf(None, [f"{name}={values[0]}" for name, values in choices.items()], own)
    return [dict(zip(choices, each, strict=True)) for each in itertools.product(*choices.values())]


def _named(args: argparse.Namespace) -> list[str]:
    """Return the names in ``--strategies``, each once."""
    names = EVERY if args.strategies is None else str(args.strategies)
    return list(dict.fromkeys(filter(None, map(str.strip, names.split(",")))))


def _own_options(named: Sequence[str], conf: Properties) -> list[type]:
    """Return the options classes of the strategies in ``named``, built in or an operator's own."""
    found: list[type] = []
    for name in named:
        shedder, _, placement = name.partition("/")
        found.append(strategies.find_shedder(shedder, conf).options)
        if placement:
            found.append(strategies.find_placement(placement).options)
    return found


def _strategy(
    args: argparse.Namespace, conf: Properties, shedder: str, placement: str
) -> BalancingStrategy:
    if args.as_pulsar:
        return strategies.as_pulsar(
            conf, shedder=shedder, placement=placement or None, thrash_span_s=args.thrash_span
        )
    chosen = placement or conf.values.get(strategies.PLACEMENT_SETTING) or LeastUsage.name
    return strategies.strategy_from(
        conf, shedder=shedder, placement=chosen, thrash_span_s=args.thrash_span
    )


def _read_by(strategy: BalancingStrategy, placement: str) -> frozenset[str]:
    """Return the names of the settings that change what a strategy does in a replay."""
    leads = strategy.as_leader is not None
    sections: list[type] = [type(strategy.options), type(strategy.placement_options)]
    sections += [BalanceOptions, FilterOptions] if leads else [BalanceOptions]
    names = {each.conf for section in sections for each in all_options(section)}
    # A balancer's replay ignores whether the brokers shed. A placement given as SHEDDER/PLACEMENT
    # overrides the setting.
    names -= set() if leads else {"loadBalancerSheddingEnabled"}
    return frozenset(names if placement else {*names, strategies.PLACEMENT_SETTING})
