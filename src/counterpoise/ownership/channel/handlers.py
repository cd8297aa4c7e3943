"""What a broker does when a record of the channel is accepted (``ServiceUnitStateChannelImpl``).

Every broker reads every record. Most concern others; one that concerns this broker makes it close
topics, cut a bundle, or write the record that follows. The answer to a record is effects; what
came of them is again records on the channel, so that a broker that starts anew, or a leader that
takes over, sees where things stand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from counterpoise.names.bundle import BundleName
from counterpoise.ownership.channel.data import State, StateData, blank, next_version, state_of


@dataclass(frozen=True, slots=True)
class Reader:
    """Who reads the channel, and how it behaves."""

    me: str
    """The broker's id."""
    multi_phase: bool = True
    """``loadBalancerMultiPhaseBundleUnload``: clients stay connected until the heir is ready."""
    disabled: bool = False
    """The broker is leaving: only what the leader forces on it counts."""


# Effects: what to do.


@dataclass(frozen=True, slots=True)
class Publish:
    """Write the record that follows."""

    bundle: BundleName
    record: StateData


@dataclass(frozen=True, slots=True)
class Bury:
    """Write a tombstone: the bundle needs no record any more."""

    bundle: BundleName


@dataclass(frozen=True, slots=True)
class CloseTopics:
    """Close the bundle's topics here; then write ``then``, or the tombstone, if there is any."""

    bundle: BundleName
    disconnect: bool
    """Whether clients are told to reconnect now; else they stay until the heir is ready."""
    destination: str | None = None
    """Where clients are sent."""
    then: StateData | None = None
    bury: bool = False


@dataclass(frozen=True, slots=True)
class Prepare:
    """This broker is to have the bundle soon: get ready what can be before it is let go."""

    bundle: BundleName


@dataclass(frozen=True, slots=True)
class Split:
    """Cut the bundle owned here; then write ``then``."""

    bundle: BundleName
    children: Mapping[str, str | None] = field(hash=False)
    then: StateData


@dataclass(frozen=True, slots=True)
class Settled:
    """Lookups that wait for the bundle can be answered: with its owner, or that nobody has it."""

    bundle: BundleName
    owner: str | None


@dataclass(frozen=True, slots=True)
class Gone:
    """Lookups that wait for the bundle fail: it was split."""

    bundle: BundleName


Effect = Publish | Bury | CloseTopics | Prepare | Split | Settled | Gone


def reactions(
    reader: Reader, bundle: BundleName, record: StateData | None, now_ms: int
) -> tuple[Effect, ...]:
    """What this broker does about an accepted record (None: a tombstone)."""
    if reader.disabled and not (record is not None and record.force):
        return (Settled(bundle, None),)
    return _HANDLERS[state_of(record)](reader, bundle, record, now_ms)


def following(
    record: StateData,
    state: State,
    now_ms: int,
    *,
    destination: str | None = None,
    source: str | None = None,
) -> StateData:
    """The next record after one."""
    return StateData(
        state,
        destination,
        source,
        timestamp_ms=now_ms,
        version=next_version(record),
    )


_Handler = Callable[[Reader, BundleName, StateData, int], tuple[Effect, ...]]


def _nobody_has_it(
    reader: Reader, bundle: BundleName, record: StateData | None, now_ms: int
) -> tuple[Effect, ...]:
    del reader, record, now_ms
    return (Settled(bundle, None),)


def _assigning(
    reader: Reader, bundle: BundleName, record: StateData, now_ms: int
) -> tuple[Effect, ...]:
    if record.destination != reader.me:
        return ()
    owned = following(
        record, State.OWNED, now_ms, destination=record.destination, source=record.source
    )
    return (Publish(bundle, owned),)


def _owned(
    reader: Reader, bundle: BundleName, record: StateData, now_ms: int
) -> tuple[Effect, ...]:
    del now_ms
    settled = Settled(bundle, record.destination)
    moved = not blank(record.destination) and record.source not in (None, record.destination)
    if record.source == reader.me and (record.force or (moved and reader.multi_phase)):
        return (settled, CloseTopics(bundle, disconnect=True, destination=record.destination))
    return (settled,)


def _releasing(
    reader: Reader, bundle: BundleName, record: StateData, now_ms: int
) -> tuple[Effect, ...]:
    transfer = not blank(record.destination)
    if record.source == reader.me:
        state = State.ASSIGNING if transfer else State.FREE
        then = following(
            record, state, now_ms, destination=record.destination, source=record.source
        )
        return (
            CloseTopics(
                bundle,
                disconnect=not (transfer and reader.multi_phase),
                destination=record.destination,
                then=then,
            ),
        )
    return (Prepare(bundle),) if record.destination == reader.me else ()


def _splitting(
    reader: Reader, bundle: BundleName, record: StateData, now_ms: int
) -> tuple[Effect, ...]:
    if record.source != reader.me:
        return ()
    deleted = following(
        record, State.DELETED, now_ms, destination=record.destination, source=record.source
    )
    return (Split(bundle, record.children, deleted),)


def _free(reader: Reader, bundle: BundleName, record: StateData, now_ms: int) -> tuple[Effect, ...]:
    del now_ms
    settled = Settled(bundle, None)
    if record.force and record.source == reader.me:
        return (settled, CloseTopics(bundle, disconnect=True, bury=True))
    return (settled,)


def _deleted(
    reader: Reader, bundle: BundleName, record: StateData, now_ms: int
) -> tuple[Effect, ...]:
    del now_ms
    gone = Gone(bundle)
    return (gone, Bury(bundle)) if record.source == reader.me else (gone,)


_HANDLERS: Final[Mapping[State, Callable[..., tuple[Effect, ...]]]] = {
    State.INIT: _nobody_has_it,
    State.FREE: _free,
    State.OWNED: _owned,
    State.ASSIGNING: _assigning,
    State.RELEASING: _releasing,
    State.SPLITTING: _splitting,
    State.DELETED: _deleted,
}
