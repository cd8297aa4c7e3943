"""What a bundle's record obliges one broker to do (``ServiceUnitStateChannelImpl``'s handlers).

It follows from the record alone, and from whether topics of the bundle may be open here. So a
broker that missed something, or failed half-way, reads the record again and knows what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeGuard

from counterpoise.ownership.channel.data import State, StateData, blank, next_version


@dataclass(frozen=True, slots=True)
class Write:
    """The record that follows has to be written."""

    record: StateData


@dataclass(frozen=True, slots=True)
class Close:
    """Topics that are still open have to be closed, their clients sent on if that is known."""

    destination: str | None


@dataclass(frozen=True, slots=True)
class Bury:
    """The record says nothing any more: it has to be deleted."""


Duty: TypeAlias = Write | Close | Bury


def serves(record: StateData | None, me: str) -> bool:
    """Whether broker ``me`` may open topics of the bundle by this record."""
    if record is None:
        return False
    if record.state is State.OWNED:
        return record.destination == me
    return record.state is State.SPLITTING and record.source == me


def comes_to(record: StateData | None, me: str) -> bool:
    """Whether the bundle is on its way to broker ``me``."""
    return (
        record is not None
        and record.state in (State.ASSIGNING, State.RELEASING)
        and record.destination == me
    )


def has_heir(record: StateData | None, me: str) -> bool:
    """Whether broker ``me`` is to let the bundle go to another, which gets ready meanwhile."""
    return _left(record, me, State.RELEASING) and not blank(record.destination) and not record.force


def goes_from(record: StateData | None, me: str) -> bool:
    """Whether broker ``me`` has let the bundle go, and its heir does not have it yet."""
    return _left(record, me, State.ASSIGNING)


def gave(record: StateData | None, me: str) -> bool:
    """Whether another broker owns the bundle, and has it from broker ``me``."""
    return _left(record, me, State.OWNED)


def _left(record: StateData | None, me: str, state: State) -> TypeGuard[StateData]:
    return (
        record is not None
        and record.state is state
        and record.source == me
        and record.destination != me
    )


def duty(record: StateData | None, me: str, now_ms: int, *, is_open: bool) -> Duty | None:
    """What broker ``me`` has to do next. ``is_open``: topics of the bundle may be open here."""
    if is_open and not serves(record, me):
        heir = record.destination if record is not None else None
        return Close(None if heir == me or blank(heir) else heir)
    if record is None or me not in (record.source, record.destination):
        return None
    following = _FOLLOWING.get(record.state)
    return following(record, me, now_ms) if following is not None else None


def _after(record: StateData, state: State, now_ms: int) -> Write:
    return Write(
        StateData(
            state,
            record.destination,
            record.source,
            timestamp_ms=now_ms,
            version=next_version(record),
        )
    )


def _assigned(record: StateData, me: str, now_ms: int) -> Duty | None:
    return _after(record, State.OWNED, now_ms) if record.destination == me else None


def _released(record: StateData, me: str, now_ms: int) -> Duty | None:
    if record.source != me:
        return None
    nobody = blank(record.destination)
    return _after(record, State.FREE if nobody else State.ASSIGNING, now_ms)


def _split(record: StateData, me: str, now_ms: int) -> Duty | None:
    # Of a split that was announced its owner says when it is over.
    done = record.source == me and not record.children
    return _after(record, State.DELETED, now_ms) if done else None


def _deleted(record: StateData, me: str, now_ms: int) -> Duty | None:
    del now_ms
    return Bury() if record.source == me else None


def _freed(record: StateData, me: str, now_ms: int) -> Duty | None:
    del now_ms
    return Bury() if record.force and record.source == me else None


_FOLLOWING: Final[Mapping[State, Callable[[StateData, str, int], Duty | None]]] = {
    State.ASSIGNING: _assigned,
    State.RELEASING: _released,
    State.SPLITTING: _split,
    State.DELETED: _deleted,
    State.FREE: _freed,
}
