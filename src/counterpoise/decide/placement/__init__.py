"""Placement: which broker gets a bundle that has none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from counterpoise.decide.placement.least_message_rate import LeastLongTermMessageRate
from counterpoise.decide.placement.least_resource_usage import (
    LeastResourceUsageWithWeight,
    place_by_store_usage,
)
from counterpoise.decide.placement.options import PLACEMENT_PACKAGE, PlacementOptions
from counterpoise.decide.placement.planned import AvgShedderPlacement
from counterpoise.decide.placement.round_robin import RoundRobinBrokerSelector
from counterpoise.decide.placement.selection import (
    Chooser,
    Selection,
    Surroundings,
    select_extensible,
    select_modular,
)
from counterpoise.decide.placement.strategy import Placement, PlacementStrategy

PLACEMENTS: Mapping[str, PlacementStrategy[Any]] = {
    strategy.name: strategy
    for strategy in (
        LeastLongTermMessageRate(),
        LeastResourceUsageWithWeight(),
        RoundRobinBrokerSelector(),
        AvgShedderPlacement(),
    )
}
"""The strategies by short name."""


def placement_strategy(name: str) -> PlacementStrategy[Any]:
    """The strategy of this short name or Java class name; KeyError for an unknown one."""
    short = name.rpartition(".")[2]
    if short == "RoundRobinBrokerSelector" or name in (short, PLACEMENT_PACKAGE + short):
        return PLACEMENTS[short]
    raise KeyError(name)


__all__ = [
    "PLACEMENTS",
    "Chooser",
    "Placement",
    "PlacementOptions",
    "PlacementStrategy",
    "Selection",
    "Surroundings",
    "place_by_store_usage",
    "placement_strategy",
    "select_extensible",
    "select_modular",
]
