"""Placement: which broker gets a bundle that has none."""

from __future__ import annotations

from counterpoise.decide.placement.least_resource_usage import place_by_store_usage
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.registry import PLACEMENTS
from counterpoise.decide.placement.selection import (
    Chooser,
    Selection,
    Surroundings,
    select_extensible,
    select_modular,
)
from counterpoise.decide.placement.strategy import Placement, PlacementStrategy

__all__ = [
    "PLACEMENTS",
    "Chooser",
    "Placement",
    "PlacementOptions",
    "PlacementStrategy",
    "Selection",
    "Surroundings",
    "place_by_store_usage",
    "select_extensible",
    "select_modular",
]
