"""The records by which somebody asks for a change: assign, unload, transfer, split."""

from __future__ import annotations

from collections.abc import Mapping

from counterpoise.ownership.channel.data import State, StateData, next_version


class OrderRefused(ValueError):
    """What is asked for makes no sense for the bundle as it stands; the text says why."""


def assign(before: StateData | None, broker: str, now_ms: int) -> StateData:
    """``broker`` shall have a bundle that nobody has (``publishAssignEventAsync``)."""
    return StateData(State.ASSIGNING, broker, timestamp_ms=now_ms, version=next_version(before))


def inherit(broker: str, now_ms: int) -> StateData:
    """``broker`` has the bundle from its beginning: it is a part of one that it owns."""
    return StateData(State.OWNED, broker, timestamp_ms=now_ms, version=next_version(None))


def unload(
    before: StateData | None, now_ms: int, *, destination: str | None = None, force: bool = False
) -> StateData:
    """Its owner shall let a bundle go, to ``destination`` or to whom the next lookup chooses.

    Raises `OrderRefused` unless it is owned, and by another broker than the destination.
    """
    owner = _owner(before, "unloaded")
    if destination == owner:
        raise OrderRefused(f"{owner} has the bundle already")
    return StateData(
        State.RELEASING,
        destination,
        owner,
        force=force,
        timestamp_ms=now_ms,
        version=next_version(before),
    )


def split(before: StateData | None, children: Mapping[str, str | None], now_ms: int) -> StateData:
    """Its owner shall cut a bundle into these ranges; raises `OrderRefused` unless it is owned."""
    return StateData(
        State.SPLITTING,
        None,
        _owner(before, "split"),
        children,
        timestamp_ms=now_ms,
        version=next_version(before),
    )


def split_done(before: StateData, now_ms: int) -> StateData:
    """A bundle that was being split is replaced by its parts."""
    return StateData(
        State.DELETED,
        before.destination,
        before.source,
        timestamp_ms=now_ms,
        version=next_version(before),
    )


def _owner(before: StateData | None, done: str) -> str:
    if before is None or before.state is not State.OWNED or before.destination is None:
        state = "owned by nobody" if before is None else before.state.value
        raise OrderRefused(f"only an owned bundle can be {done}; it is {state}")
    return before.destination
