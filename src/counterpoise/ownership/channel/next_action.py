"""Decides what a broker does next about a bundle, by the bundle's record on the state channel.

The decision needs nothing but the record, whether topics of the bundle are open here, and the
request to this broker, if any (``ServiceUnitStateChannelImpl``'s handlers and ``publish…Async``).
So a broker that missed a notification, or failed half-way, reads the record again and continues.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeGuard

from counterpoise.ownership import events
from counterpoise.ownership.channel.data import (
    ServiceUnitState,
    ServiceUnitStateData,
    blank,
    next_version,
    state_of,
)


class OpenTopics(enum.Enum):
    """What one broker does with the topics of a bundle that are open on it."""

    NONE = "none is open"
    SERVED = "they are served"
    TAKING_OVER = "served as soon as the former owner has closed each"
    HANDING_OVER = "open until the successor, which is ready, owns the bundle"
    CLOSE_FIRST = "to be closed before the successor, which is late, owns the bundle"


@dataclass(frozen=True, slots=True)
class LocalBundle:
    """What broker ``me`` knows of a bundle besides its record: open topics, a pending request."""

    me: str
    """The broker's id."""
    topics: OpenTopics
    request: events.Request | None
    now_ms: int


@dataclass(frozen=True, slots=True)
class WriteNext:
    """Action: write this record as the bundle's next one."""

    record: ServiceUnitStateData
    keeps_topics: bool = True
    """Whether open topics still belong to this bundle afterwards.

    False at the end of a split: the parts take the topics over without closing them."""


@dataclass(frozen=True, slots=True)
class AwaitSuccessor:
    """Action: serve the bundle until the transfer's destination is ready or has taken too long."""


@dataclass(frozen=True, slots=True)
class CloseOpenTopics:
    """Action: close the bundle's topics, and redirect their clients to ``destination`` (if any)."""

    destination: str | None


@dataclass(frozen=True, slots=True)
class DeleteRecord:
    """Action: delete the bundle's record, which is no longer needed."""


@dataclass(frozen=True, slots=True)
class AwaitOthers:
    """Action: wait for another broker to act: the bundle's former owner or its successor."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Action: do nothing until the next event."""


Action: TypeAlias = WriteNext | AwaitSuccessor | CloseOpenTopics | DeleteRecord | AwaitOthers | Rest


def next_action(record: ServiceUnitStateData | None, local: LocalBundle) -> Action:
    """The next action of one broker for a bundle; ``record`` None: the bundle has no record.

    ``local.topics`` must be what `topics_by` returns for this record.
    """
    return _owed(record, local) or _requested(record, local) or _idle(record, local)


def topics_by(record: ServiceUnitStateData | None, me: str, topics: OpenTopics) -> OpenTopics:
    """What broker ``me`` does with its open topics once it has read ``record``.

    ``topics`` is what it did before. A transfer's source goes on as before, until an action ends
    that.
    """
    if not serves(record, me):
        return OpenTopics.SERVED if topics is OpenTopics.TAKING_OVER else topics
    if topics is OpenTopics.TAKING_OVER:
        return topics
    # While a bundle is split, no further topic of it is opened.
    stays_closed = topics is OpenTopics.NONE and state_of(record) is not ServiceUnitState.OWNED
    return OpenTopics.NONE if stays_closed else OpenTopics.SERVED


def _owed(record: ServiceUnitStateData | None, local: LocalBundle) -> Action | None:
    """The action that the record requires of this broker; None if it requires nothing."""
    if local.topics is not OpenTopics.NONE and not serves(record, local.me):
        return _close(record, local)
    if record is None or local.me not in (record.source, record.destination):
        return None
    return _following(record, local)


def _close(record: ServiceUnitStateData | None, local: LocalBundle) -> Action:
    """The next action of a broker that has topics open which it may no longer serve.

    If the successor is ready, ownership moves before the topics are closed.
    """
    if has_successor(record, local.me):
        if local.topics is OpenTopics.SERVED:
            return AwaitSuccessor()
        if local.topics is OpenTopics.HANDING_OVER and record is not None:
            return WriteNext(_after(record, ServiceUnitState.ASSIGNING, local.now_ms))
    if local.topics is OpenTopics.HANDING_OVER and goes_from(record, local.me):
        return AwaitOthers()
    destination = None if record is None else record.destination
    unknown = destination == local.me or blank(destination)
    return CloseOpenTopics(None if unknown else destination)


def _following(record: ServiceUnitStateData, local: LocalBundle) -> Action | None:
    is_source = record.source == local.me
    match record.state:
        case ServiceUnitState.ASSIGNING if record.destination == local.me:
            return WriteNext(_after(record, ServiceUnitState.OWNED, local.now_ms))
        case ServiceUnitState.RELEASING if is_source:
            free = blank(record.destination)
            state = ServiceUnitState.FREE if free else ServiceUnitState.ASSIGNING
            return WriteNext(_after(record, state, local.now_ms))
        case ServiceUnitState.SPLITTING if is_source and not record.children:
            # A split that names its parts ends by a request of its owner.
            return WriteNext(_after(record, ServiceUnitState.DELETED, local.now_ms))
        case ServiceUnitState.DELETED if is_source:
            return DeleteRecord()
        case ServiceUnitState.FREE if is_source and record.force:
            return DeleteRecord()
    return None


def _requested(record: ServiceUnitStateData | None, local: LocalBundle) -> Action | None:
    """The action for a request to this broker; None if it is not possible in this state."""
    me, now_ms, state = local.me, local.now_ms, state_of(record)
    owned = record if state is ServiceUnitState.OWNED and serves(record, me) else None
    match local.request:
        case events.Acquire(as_split_part=True) if record is None:
            return WriteNext(_first(ServiceUnitState.OWNED, me, now_ms))
        case events.Acquire() if state in (ServiceUnitState.INIT, ServiceUnitState.FREE):
            return WriteNext(assigning(record, me, now_ms))
        case events.Assign(broker) if state in (ServiceUnitState.INIT, ServiceUnitState.FREE):
            return WriteNext(assigning(record, broker, now_ms))
        case events.ReleaseFrom(owner, destination) if record is not None and owner != destination:
            if state is ServiceUnitState.OWNED and serves(record, owner):
                return WriteNext(releasing(record, destination, now_ms))
        case events.Release(destination) if owned and destination == me:
            return CloseOpenTopics(destination)
        case events.Release(destination) if owned:
            return WriteNext(releasing(owned, destination, now_ms))
        case events.Split(ranges) if owned:
            return WriteNext(splitting(owned, dict.fromkeys(ranges), now_ms))
        case events.SplitCompleted() if record is not None and splits(record, me):
            done = _after(record, ServiceUnitState.DELETED, now_ms)
            return WriteNext(done, keeps_topics=False)
        case events.SplitCompleted() if owned:
            return WriteNext(splitting(owned, {}, now_ms), keeps_topics=False)
    return None


def _idle(record: ServiceUnitStateData | None, local: LocalBundle) -> Action:
    awaited = comes_to(record, local.me) or goes_from(record, local.me)
    return AwaitOthers() if awaited or local.topics is OpenTopics.TAKING_OVER else Rest()


# What a record says about one broker.


def serves(record: ServiceUnitStateData | None, me: str) -> bool:
    """Whether the record allows broker ``me`` to open topics of the bundle."""
    if record is None:
        return False
    if record.state is ServiceUnitState.OWNED:
        return record.destination == me
    return record.state is ServiceUnitState.SPLITTING and record.source == me


def splits(record: ServiceUnitStateData | None, me: str) -> bool:
    """Whether broker ``me`` is splitting the bundle into the ranges that the record names."""
    return (
        record is not None
        and record.state is ServiceUnitState.SPLITTING
        and record.source == me
        and bool(record.children)
    )


def comes_to(record: ServiceUnitStateData | None, me: str) -> bool:
    """Whether the bundle is being transferred or assigned to broker ``me``."""
    return (
        record is not None
        and record.state in (ServiceUnitState.ASSIGNING, ServiceUnitState.RELEASING)
        and record.destination == me
    )


def has_successor(record: ServiceUnitStateData | None, me: str) -> bool:
    """Whether broker ``me`` is releasing the bundle to a successor, which is preparing."""
    return (
        _left(record, me, ServiceUnitState.RELEASING)
        and not blank(record.destination)
        and not record.force
    )


def goes_from(record: ServiceUnitStateData | None, me: str) -> bool:
    """Whether broker ``me`` released the bundle to a successor that does not own it yet."""
    return _left(record, me, ServiceUnitState.ASSIGNING)


def gave(record: ServiceUnitStateData | None, me: str) -> bool:
    """Whether another broker owns the bundle, and its record names ``me`` as the former owner."""
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


# The records that a broker may write next.


def assigning(
    before: ServiceUnitStateData | None, broker: str, now_ms: int
) -> ServiceUnitStateData:
    """The record that assigns a bundle without an owner (``publishAssignEventAsync``)."""
    return ServiceUnitStateData(
        ServiceUnitState.ASSIGNING, broker, timestamp_ms=now_ms, version=next_version(before)
    )


def releasing(
    owned: ServiceUnitStateData, destination: str | None, now_ms: int
) -> ServiceUnitStateData:
    """The record by which the owner releases a bundle, to ``destination`` if one is named."""
    return ServiceUnitStateData(
        ServiceUnitState.RELEASING,
        destination,
        owned.destination,
        timestamp_ms=now_ms,
        version=next_version(owned),
    )


def splitting(
    owned: ServiceUnitStateData, children: Mapping[str, str | None], now_ms: int
) -> ServiceUnitStateData:
    """The record by which the owner splits a bundle into these ranges."""
    return ServiceUnitStateData(
        ServiceUnitState.SPLITTING,
        None,
        owned.destination,
        children,
        timestamp_ms=now_ms,
        version=next_version(owned),
    )


def _first(state: ServiceUnitState, broker: str, now_ms: int) -> ServiceUnitStateData:
    return ServiceUnitStateData(state, broker, timestamp_ms=now_ms, version=next_version(None))


def _after(
    record: ServiceUnitStateData, state: ServiceUnitState, now_ms: int
) -> ServiceUnitStateData:
    return ServiceUnitStateData(
        state, record.destination, record.source, timestamp_ms=now_ms, version=next_version(record)
    )
