"""Who a lookup is sent to by what the channel says now (``getOwnerAsync``)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from counterpoise.ownership.channel.data import State, StateData, blank


@dataclass(frozen=True, slots=True)
class Owner:
    """This broker has the bundle, or is just getting it and will make the client wait."""

    broker: str


@dataclass(frozen=True, slots=True)
class Wait:
    """The next record on the bundle will tell."""

    why: str


@dataclass(frozen=True, slots=True)
class Nobody:
    """It may be assigned now."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """The bundle was split: the client has to look up its part."""


Answer = Owner | Wait | Nobody | Deleted


def owner_of(record: StateData | None, me: str, active: Collection[str]) -> Answer:
    """Who owns a bundle, as broker ``me`` answers it. ``active``: the brokers that are alive."""
    if record is None or record.state in (State.INIT, State.FREE):
        return Nobody()
    if record.state is State.DELETED:
        return Deleted()
    serving = record.source if record.state is State.SPLITTING else record.destination
    if record.state in (State.OWNED, State.SPLITTING):
        if serving is not None and serving in active:
            return Owner(serving)
        return Wait(f"its owner {serving} is gone; the leader will give it to another")
    if serving == me:
        return Wait("it is being handed over to this broker")
    if blank(serving) or serving is None:
        return Wait(f"{record.source} is letting it go")
    if serving not in active:
        return Wait(f"{serving}, which was to have it, is gone; the leader will choose another")
    return Owner(serving)


def serves(record: StateData | None, me: str) -> bool:
    """Whether broker ``me`` may open topics of the bundle by this record."""
    if record is None:
        return False
    if record.state is State.OWNED:
        return record.destination == me
    return record.state is State.SPLITTING and record.source == me
