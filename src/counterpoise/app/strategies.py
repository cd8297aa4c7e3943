"""From names and settings to the strategy that balances: shared by every balancer we start."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from counterpoise.app.conf import settings_from
from counterpoise.app.errors import UserError
from counterpoise.decide.balancing.options import BalanceOptions
from counterpoise.decide.balancing.round import Strategy
from counterpoise.decide.placement import PLACEMENTS, placement_strategy
from counterpoise.decide.placement.least_usage import LeastUsage
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.strategy import PlacementStrategy
from counterpoise.decide.shedding import find_shedder
from counterpoise.load.view import ClusterView
from counterpoise.names.properties import Properties

SHEDDER_SETTING = "loadBalancerLoadSheddingStrategy"
DEFAULT_SHEDDER = "ThresholdShedder"


def strategy_from(
    conf: Properties,
    *,
    shedder: str | None = None,
    placement: str = LeastUsage.name,
    decide_every_s: float | None = None,
    grace_s: float | None = None,
) -> Strategy:
    """The strategy that these settings describe; raises `UserError` or `ConfigError`."""
    chosen = find_shedder(shedder or conf.values.get(SHEDDER_SETTING) or DEFAULT_SHEDDER)
    if chosen.view is not ClusterView:
        raise UserError(
            f"{chosen.name} reads the extensible load manager's data, which the admin API does not "
            "give: choose another --strategy"
        )
    return Strategy(
        shedder=chosen,
        options=settings_from(chosen.options, conf),
        placement=_placement(placement),
        placement_options=settings_from(PlacementOptions, conf),
        balance=replace(
            settings_from(BalanceOptions, conf),
            interval_ms=_milliseconds(decide_every_s),
            grace_ms=_milliseconds(grace_s),
        ),
    )


def _placement(name: str) -> PlacementStrategy[Any]:
    if name == LeastUsage.name:
        return LeastUsage()
    try:
        return placement_strategy(name)
    except KeyError:
        known = ", ".join((LeastUsage.name, *PLACEMENTS))
        raise UserError(f"--placement {name}: there are {known}") from None


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)
