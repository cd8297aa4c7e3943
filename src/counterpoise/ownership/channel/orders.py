"""The records by which somebody asks for a change: assign, unload, transfer, split."""

from __future__ import annotations

from collections.abc import Mapping

from counterpoise.ownership.channel.data import ServiceUnitState, ServiceUnitStateData, next_version


class ChangeRefused(ValueError):
    """What is asked for makes no sense for the bundle as it stands; the text says why."""


def assign(before: ServiceUnitStateData | None, broker: str, now_ms: int) -> ServiceUnitStateData:
    """``broker`` shall have a bundle that nobody has (``publishAssignEventAsync``)."""
    return ServiceUnitStateData(
        ServiceUnitState.ASSIGNING, broker, timestamp_ms=now_ms, version=next_version(before)
    )


def inherit(broker: str, now_ms: int) -> ServiceUnitStateData:
    """``broker`` has the bundle from its beginning: it is a part of one that it owns."""
    return ServiceUnitStateData(
        ServiceUnitState.OWNED, broker, timestamp_ms=now_ms, version=next_version(None)
    )


def unload(
    before: ServiceUnitStateData | None,
    now_ms: int,
    *,
    destination: str | None = None,
    force: bool = False,
) -> ServiceUnitStateData:
    """Its owner shall let a bundle go, to ``destination`` or to whom the next lookup chooses.

    Raises `ChangeRefused` unless it is owned, and by another broker than the destination.
    """
    owner = _owner(before, "unloaded")
    if destination == owner:
        raise ChangeRefused(f"{owner} has the bundle already")
    return ServiceUnitStateData(
        ServiceUnitState.RELEASING,
        destination,
        owner,
        force=force,
        timestamp_ms=now_ms,
        version=next_version(before),
    )


def split(
    before: ServiceUnitStateData | None, children: Mapping[str, str | None], now_ms: int
) -> ServiceUnitStateData:
    """Its owner shall cut a bundle into these ranges; raises `ChangeRefused` unless it is owned."""
    return ServiceUnitStateData(
        ServiceUnitState.SPLITTING,
        None,
        _owner(before, "split"),
        children,
        timestamp_ms=now_ms,
        version=next_version(before),
    )


def split_done(before: ServiceUnitStateData, now_ms: int) -> ServiceUnitStateData:
    """A bundle that was being split is replaced by its parts."""
    return ServiceUnitStateData(
        ServiceUnitState.DELETED,
        before.destination,
        before.source,
        timestamp_ms=now_ms,
        version=next_version(before),
    )


def _owner(before: ServiceUnitStateData | None, done: str) -> str:
    if before is None or before.state is not ServiceUnitState.OWNED or before.destination is None:
        state = "owned by nobody" if before is None else before.state.value
        raise ChangeRefused(f"only an owned bundle can be {done}; it is {state}")
    return before.destination
