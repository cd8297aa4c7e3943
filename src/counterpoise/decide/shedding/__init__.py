"""Shedding: which bundles leave which brokers. The strategies are loaded when first asked for."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from counterpoise.decide.shedding.registry import SHEDDERS
    from counterpoise.decide.shedding.strategy import Shedder

__all__ = ["SHEDDERS", "Shedder"]


def __getattr__(name: str) -> Any:
    if name == "SHEDDERS":
        from counterpoise.decide.shedding.registry import SHEDDERS

        return SHEDDERS
    if name == "Shedder":
        from counterpoise.decide.shedding.strategy import Shedder

        return Shedder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
