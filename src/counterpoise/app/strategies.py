"""Finds strategies by name and settings, for every verb and balancer."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from counterpoise.app.conf import settings_from
from counterpoise.decide.balancing.options import BalanceOptions
from counterpoise.decide.balancing.round import BalancingStrategy
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.decide.placement.least_usage import LeastUsage
from counterpoise.decide.placement.registry import PLACEMENTS
from counterpoise.decide.placement.strategy import PlacementStrategy
from counterpoise.decide.registry import Registered, Registry
from counterpoise.decide.shedding.registry import SHEDDERS
from counterpoise.decide.shedding.strategy import Shedder
from counterpoise.decide.shedding.transfer import TransferShedder
from counterpoise.names.load_managers import is_extensible
from counterpoise.names.properties import Properties

S = TypeVar("S", bound=Registered[Any, Any])

LOAD_MANAGER_SETTING = "loadManagerClassName"
SHEDDER_SETTING = "loadBalancerLoadSheddingStrategy"
DEFAULT_SHEDDER = "ThresholdShedder"
PLACEMENT_SETTING = "loadBalancerLoadPlacementStrategy"
DEFAULT_PLACEMENT = "LeastLongTermMessageRate"


def find_shedder(name: str | None, conf: Properties) -> Shedder[Any, Any, Any]:
    """Find the shedder of this name, or for None the one that the settings name.

    Raises `ConfigError` if there is none.
    """
    if name is None:
        name = conf.values.get(SHEDDER_SETTING) or DEFAULT_SHEDDER
    return _find(SHEDDERS, name)


def as_load_manager_reads(running: Properties) -> Properties:
    """A cluster's settings, with the shedder that its load manager really uses.

    The extensible load manager uses TransferShedder if the settings name a strategy of the modular
    one (``ExtensibleLoadManagerImpl.createNamespaceUnloadStrategy``).
    """
    named = running.values.get(SHEDDER_SETTING, DEFAULT_SHEDDER).rpartition(".")[2]
    manager = running.values.get(LOAD_MANAGER_SETTING, "")
    if not is_extensible(manager) or named not in SHEDDERS:
        return running
    return running.overridden({SHEDDER_SETTING: TransferShedder.name})


def find_placement(name: str) -> PlacementStrategy[Any, Any]:
    """Find the placement strategy of this name; raises `ConfigError` if there is none."""
    return _find(PLACEMENTS, name)


def strategy_from(
    conf: Properties,
    *,
    shedder: str | None = None,
    placement: str = LeastUsage.name,
    decide_every_s: float | None = None,
    grace_s: float | None = None,
    thrash_span_s: float = 0.0,
    costly_span_s: float = 0.0,
) -> BalancingStrategy:
    """Make the strategy that settings and options describe; raises `UserError` or `ConfigError`.

    ``loadBalancerSheddingEnabled`` is ignored: it is false where brokers leave shedding to a
    balancer.
    """
    chosen, placer = find_shedder(shedder, conf), find_placement(placement)
    return BalancingStrategy(
        shedder=chosen,
        options=settings_from(chosen.options, conf),
        placement=placer,
        placement_options=settings_from(placer.options, conf),
        balance=replace(
            settings_from(BalanceOptions, conf),
            shedding_enabled=True,
            interval_ms=_milliseconds(decide_every_s),
            grace_ms=_milliseconds(grace_s),
            thrash_span_ms=round(thrash_span_s * 1000),
            costly_span_ms=round(costly_span_s * 1000),
        ),
    )


def as_pulsar(
    conf: Properties,
    *,
    shedder: str | None = None,
    placement: str | None = None,
    thrash_span_s: float = 0.0,
) -> BalancingStrategy:
    """Make the strategy that Pulsar's own leader uses with these settings, for a backtest."""
    by_stores = is_extensible(conf.values.get(LOAD_MANAGER_SETTING, ""))
    configured = LeastUsage.name if by_stores else conf.values.get(PLACEMENT_SETTING)
    chosen = placement or configured or DEFAULT_PLACEMENT
    made = strategy_from(conf, shedder=shedder, placement=chosen, thrash_span_s=thrash_span_s)
    is_enabled = settings_from(BalanceOptions, conf).shedding_enabled
    balance = replace(made.balance, shedding_enabled=is_enabled)
    filters = settings_from(FilterOptions, conf)
    if by_stores:  # the extensible load manager does not even out the number of bundles
        filters = replace(filters, distribute_evenly=False)
    return replace(made, balance=balance, as_leader=filters)


def _find(registry: Registry[S], name: str) -> S:
    if ":" in name and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # where an operator's own strategy probably is
    return registry.find(name)


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)
