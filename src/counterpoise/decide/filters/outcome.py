"""The result of a filter: which brokers stay, which are removed, and why."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from counterpoise.decide.plan import Rejection


class FilterStatus(StrEnum):
    """Whether a filter removed brokers, left all, or could not be applied."""

    APPLIED = "applied"
    """The filter checked every broker against its rule."""
    OFF = "off"
    """The filter does not apply: a setting is off, or the namespace has no such policy."""
    SET_ASIDE = "set_aside"
    """The filter's rule would have left no broker, so it was not applied."""
    FAILED = "failed"
    """The filter could not be evaluated, and gives the reason; all brokers stay."""


@dataclass(frozen=True, slots=True)
class FilterOutcome:
    """What one filter did: the brokers it leaves, in their order, and why it removed the others.

    ``filter`` is its name, ``reason`` one sentence about the filter as a whole.
    """

    filter: str
    status: FilterStatus
    kept: tuple[str, ...]
    dropped: tuple[Rejection, ...]
    reason: str


def unchanged(
    name: str, status: FilterStatus, brokers: Sequence[str], reason: str
) -> FilterOutcome:
    """An outcome that leaves every broker."""
    return FilterOutcome(name, status, tuple(brokers), (), reason)


def applied(
    name: str, brokers: Sequence[str], judge: Callable[[str], Rejection | None], reason: str
) -> FilterOutcome:
    """Apply a rule to each broker; ``judge`` returns why it is removed, or None."""
    kept: list[str] = []
    dropped: list[Rejection] = []
    for broker in brokers:
        rejection = judge(broker)
        if rejection is None:
            kept.append(broker)
        else:
            dropped.append(rejection)
    return FilterOutcome(name, FilterStatus.APPLIED, tuple(kept), tuple(dropped), reason)
