"""What a bundle's record obliges one broker to do (``ServiceUnitStateChannelImpl``'s handlers).

It follows from the record alone, and from whether topics of the bundle may be open here. So a
broker that missed something, or failed half-way, reads the record again and knows what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeGuard

from counterpoise.ownership.channel.data import (
    ServiceUnitState,
    ServiceUnitStateData,
    blank,
    next_version,
)


@dataclass(frozen=True, slots=True)
class Write:
    """The record that follows has to be written."""

    record: ServiceUnitStateData


@dataclass(frozen=True, slots=True)
class Close:
    """Topics that are still open have to be closed, their clients sent on if that is known."""

    destination: str | None


@dataclass(frozen=True, slots=True)
class Bury:
    """The record says nothing any more: it has to be deleted."""


Duty: TypeAlias = Write | Close | Bury


def serves(record: ServiceUnitStateData | None, me: str) -> bool:
    """Whether broker ``me`` may open topics of the bundle by this record."""
    if record is None:
        return False
    if record.state is ServiceUnitState.OWNED:
        return record.destination == me
    return record.state is ServiceUnitState.SPLITTING and record.source == me


def comes_to(record: ServiceUnitStateData | None, me: str) -> bool:
    """Whether the bundle is on its way to broker ``me``."""
    return (
        record is not None
        and record.state in (ServiceUnitState.ASSIGNING, ServiceUnitState.RELEASING)
        and record.destination == me
    )


def has_successor(record: ServiceUnitStateData | None, me: str) -> bool:
    """Whether broker ``me`` is to let the bundle go to another, which gets ready meanwhile."""
    return (
        _left(record, me, ServiceUnitState.RELEASING)
        and not blank(record.destination)
        and not record.force
    )


def goes_from(record: ServiceUnitStateData | None, me: str) -> bool:
    """Whether broker ``me`` has let the bundle go, and its heir does not have it yet."""
    return _left(record, me, ServiceUnitState.ASSIGNING)


def gave(record: ServiceUnitStateData | None, me: str) -> bool:
    """Whether another broker owns the bundle, and has it from broker ``me``."""
    return _left(record, me, ServiceUnitState.OWNED)


def _left(
    record: ServiceUnitStateData | None, me: str, state: ServiceUnitState
) -> TypeGuard[ServiceUnitStateData]:
    return (
        record is not None
        and record.state is state
        and record.source == me
        and record.destination != me
    )


def duty(
    record: ServiceUnitStateData | None, me: str, now_ms: int, *, is_open: bool
) -> Duty | None:
    """What broker ``me`` has to do next. ``is_open``: topics of the bundle may be open here."""
    if is_open and not serves(record, me):
        successor = record.destination if record is not None else None
        return Close(None if successor == me or blank(successor) else successor)
    if record is None or me not in (record.source, record.destination):
        return None
    following = _FOLLOWING.get(record.state)
    return following(record, me, now_ms) if following is not None else None


def _after(record: ServiceUnitStateData, state: ServiceUnitState, now_ms: int) -> Write:
    return Write(
        ServiceUnitStateData(
            state,
            record.destination,
            record.source,
            timestamp_ms=now_ms,
            version=next_version(record),
        )
    )


def _assigned(record: ServiceUnitStateData, me: str, now_ms: int) -> Duty | None:
    return _after(record, ServiceUnitState.OWNED, now_ms) if record.destination == me else None


def _released(record: ServiceUnitStateData, me: str, now_ms: int) -> Duty | None:
    if record.source != me:
        return None
    nobody = blank(record.destination)
    return _after(record, ServiceUnitState.FREE if nobody else ServiceUnitState.ASSIGNING, now_ms)


def _split(record: ServiceUnitStateData, me: str, now_ms: int) -> Duty | None:
    # Of a split that was announced its owner says when it is over.
    done = record.source == me and not record.children
    return _after(record, ServiceUnitState.DELETED, now_ms) if done else None


def _deleted(record: ServiceUnitStateData, me: str, now_ms: int) -> Duty | None:
    del now_ms
    return Bury() if record.source == me else None


def _freed(record: ServiceUnitStateData, me: str, now_ms: int) -> Duty | None:
    del now_ms
    return Bury() if record.force and record.source == me else None


_FOLLOWING: Final[
    Mapping[ServiceUnitState, Callable[[ServiceUnitStateData, str, int], Duty | None]]
] = {
    ServiceUnitState.ASSIGNING: _assigned,
    ServiceUnitState.RELEASING: _released,
    ServiceUnitState.SPLITTING: _split,
    ServiceUnitState.DELETED: _deleted,
    ServiceUnitState.FREE: _freed,
}
