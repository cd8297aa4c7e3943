"""What a filter answers: who stays, who goes, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from counterpoise.decide.plan import Rejection


class FilterStatus(StrEnum):
    """What a filter did."""

    APPLIED = "applied"
    """It held every broker against its rule."""
    OFF = "off"
    """Nothing asks for it: a setting is off, or the namespace has no such policy."""
    SET_ASIDE = "set_aside"
    """Its rule would have left no broker, so it was not applied."""
    FAILED = "failed"
    """It could not judge, and says why; everybody stays."""


@dataclass(frozen=True, slots=True)
class FilterOutcome:
    """The brokers one filter leaves, in the order given, and a reason for each that it takes.

    ``reason`` is one sentence about the filter itself.
    """

    filter: str
    status: FilterStatus
    kept: tuple[str, ...]
    dropped: tuple[Rejection, ...]
    reason: str


def unchanged(
    name: str, status: FilterStatus, brokers: Sequence[str], reason: str
) -> FilterOutcome:
    """An outcome that leaves everybody."""
    return FilterOutcome(name, status, tuple(brokers), (), reason)


def applied(
    name: str, brokers: Sequence[str], judge: Callable[[str], Rejection | None], reason: str
) -> FilterOutcome:
    """Hold each broker against a rule; ``judge`` gives None for one that stays."""
    kept: list[str] = []
    dropped: list[Rejection] = []
    for broker in brokers:
        rejection = judge(broker)
        if rejection is None:
            kept.append(broker)
        else:
            dropped.append(rejection)
    return FilterOutcome(name, FilterStatus.APPLIED, tuple(kept), tuple(dropped), reason)
