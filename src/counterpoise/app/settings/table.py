"""The one table that maps broker.conf names onto the rooms that read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from counterpoise.app.settings.unread import BALANCING, RATES
from counterpoise.broker.config import BrokerConfig
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.shedding.options import (
    AvgOptions,
    OverloadOptions,
    ThresholdOptions,
    UniformOptions,
)
from counterpoise.decide.shedding.transfer_options import TransferOptions
from counterpoise.decide.splitting.options import SplitOptions
from counterpoise.names.options import Option, all_options
from counterpoise.pipeline.options import BalanceOptions

ROOMS: tuple[tuple[str, type], ...] = (
    ("decide.shedding", OverloadOptions),
    ("decide.shedding", ThresholdOptions),
    ("decide.shedding", UniformOptions),
    ("decide.shedding", AvgOptions),
    ("decide.shedding", TransferOptions),
    ("decide.placement", PlacementOptions),
    ("decide.filters", FilterOptions),
    ("decide.splitting", SplitOptions),
    ("pipeline", BalanceOptions),
    ("broker", BrokerConfig),
)
"""Every settings dataclass that is read from a broker.conf."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One name: what it is, and the rooms that read it (none for what is only known)."""

    option: Option
    rooms: tuple[str, ...]


@cache
def table() -> Mapping[str, Entry]:
    """Every balancing and rate setting by its broker.conf name."""
    entries: dict[str, Entry] = {}
    for room, option in _declared():
        known = entries.get(option.conf)
        rooms = dict.fromkeys((*(known.rooms if known else ()), *([room] if room else [])))
        entries[option.conf] = Entry(known.option if known else option, tuple(rooms))
    return entries


def _declared() -> Iterator[tuple[str, Option]]:
    for room, settings in ROOMS:
        for option in all_options(settings):
            yield room, option
    for option in (*BALANCING, *RATES):
        yield "", option


@cache
def broker_conf_names() -> frozenset[str]:
    """Every name that Pulsar 4.0.7 reads from broker.conf."""
    text = files("counterpoise.app.settings").joinpath("broker_conf_names.txt").read_text("utf-8")
    return frozenset(text.split())
