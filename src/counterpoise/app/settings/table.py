"""The table of broker.conf's names: which package reads each, and what it means."""

import ast
import difflib
import inspect
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from types import MappingProxyType

from counterpoise.app.settings.pulsar import pulsar_settings
from counterpoise.app.settings.unread import UnreadOptions
from counterpoise.broker.config import BrokerConfig
from counterpoise.decide.balancing.options import BalanceOptions
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.decide.placement.registry import PLACEMENTS
from counterpoise.decide.shedding.registry import SHEDDERS
from counterpoise.decide.splitting.options import SplitOptions
from counterpoise.names.options import ConfigError, Option, all_options, options_of, sections_of
from counterpoise.security.options import ClientOptions


@cache
def explanations(settings: type) -> Mapping[str, str]:
    """Return the explanation of each option of a settings class, by broker.conf name."""
    strings = _strings_below_fields(settings)
    found = {each.conf: each.why or strings.get(name, "") for name, each in options_of(settings)}
    for _, section in sections_of(settings):
        found |= explanations(section)
    return MappingProxyType(found)


def _strings_below_fields(settings: type) -> dict[str, str]:
    """Return the docstrings below a class's fields, by field; empty without the source code."""
    try:
        module = ast.parse(inspect.getsource(sys.modules[settings.__module__]))
    except OSError:
        return {}
    found = {}
    for node in ast.walk(module):
        if isinstance(node, ast.ClassDef) and node.name == settings.__name__:
            for field, string in pairwise(node.body):
                match field, string:
                    case (ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(text)))):
                        found[name] = inspect.cleandoc(text).replace("\n", " ")
    return found


ROOMS: tuple[tuple[str, type], ...] = (
    *(("decide.shedding", options) for options in SHEDDERS.options),
    *(("decide.placement", options) for options in PLACEMENTS.options),
    ("decide.filters", FilterOptions),
    ("decide.splitting", SplitOptions),
    ("pipeline", BalanceOptions),
    ("broker", BrokerConfig),
)
"""Every settings dataclass that is read from a broker.conf, with the package that reads it."""


BALANCER_ROOMS = frozenset({"decide.shedding", "decide.placement", "pipeline"})


@dataclass(frozen=True, slots=True)
class Entry:
    """A setting's option, and the packages that read it; without any, it has no effect."""

    option: Option
    rooms: tuple[str, ...]
    declared_by: type

    @property
    def why(self) -> str:
        """What the setting does, or why it has no effect."""
        return explanations(self.declared_by)[self.option.conf]


@cache
def table() -> Mapping[str, Entry]:
    """Return every setting for load balancing or rate limits, by its broker.conf name."""
    entries: dict[str, Entry] = {}
    for room, settings in ROOMS:
        for option in all_options(settings):
            entry = entries.setdefault(option.conf, Entry(option, (), settings))
            rooms = dict.fromkeys((*entry.rooms, room))
            entries[option.conf] = replace(entry, rooms=tuple(rooms))
    for option in all_options(UnreadOptions):
        entries.setdefault(option.conf, Entry(option, (), UnreadOptions))
    return entries


def read_by_balancer(name: str) -> bool:
    """Whether the balancer (``counterpoise balance``, outside the brokers) reads a setting."""
    found = table().get(name)
    return name == "loadBalancerLoadSheddingStrategy" or (
        found is not None and not BALANCER_ROOMS.isdisjoint(found.rooms)
    )


def of_brokers_alone(settings: Sequence[str], own: Iterable[type] = ()) -> list[str]:
    """Return a sentence for each of these ``NAME=VALUE`` that has no effect on a balancer.

    ``own`` are the options classes of an operator's own strategies, whose options have an effect.
    """
    mine = {each.conf for cls in (ClientOptions, *own) for each in all_options(cls)}
    names = dict.fromkeys(text.partition("=")[0].strip() for text in settings)
    return [
        f"--set {name} changes nothing here: brokers read it, and the balancer does not"
        for name in names
        if name not in mine and not read_by_balancer(name)
    ]


@cache
def broker_conf_names() -> frozenset[str]:
    """Return every name that Pulsar 4.0.7 reads from broker.conf."""
    return frozenset(pulsar_settings())


@cache
def known_names() -> frozenset[str]:
    """Return every name that this product or Pulsar reads from broker.conf."""
    return frozenset({entry.option.conf for entry in table().values()} | broker_conf_names())


def check_settings(settings: Mapping[str, str], own: Iterable[type] = ()) -> None:
    """Raise `ConfigError` for an unknown name or an invalid value.

    Known are this product's names, those of the options classes ``own`` and those of broker.conf.
    For settings on a command line; a whole broker.conf may hold names of other programs.
    """
    own = list(own)
    check_names(settings, own)
    options = [entry.option for entry in table().values()]
    options += [option for cls in own for option in all_options(cls)]
    for option in options:
        if option.conf in settings:
            option.parse(settings[option.conf])


def check_names(names: Iterable[str], own: Iterable[type] = ()) -> None:
    """Raise `ConfigError` for a name that neither this product, Pulsar nor ``own`` has as option.

    For settings on a command line; a whole broker.conf may hold names of other programs.
    """
    known = _known_with(own)
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, sorted(known), n=1)
            advice = f"did you mean {near[0]}?" if near else "broker.conf's names are expected"
            raise ConfigError(name, f"no such setting; {advice}")


def unknown(names: Iterable[str], own: Iterable[type] = ()) -> list[str]:
    """Return, sorted, the names that neither this product, Pulsar nor ``own`` has as option."""
    return sorted(set(names) - _known_with(own))


def _known_with(own: Iterable[type]) -> frozenset[str]:
    return known_names() | {option.conf for settings in own for option in all_options(settings)}
