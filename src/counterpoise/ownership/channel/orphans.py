"""What the leader mends: bundles of brokers that are gone, changes that never ended."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from counterpoise.names.bundle import BundleName
from counterpoise.ownership.channel.data import State, StateData, blank, next_version

SYSTEM_NAMESPACE = "pulsar/system"


class Metadata(enum.Enum):
    """How far the news that a broker is gone can be trusted (``MetadataState``)."""

    STABLE = "stable"
    JITTERY = "the session was re-established a short while ago"
    UNSTABLE = "the session is lost"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long things may take, under Pulsar's options."""

    in_flight_ms: int = 30_000
    """``loadBalancerInFlightServiceUnitStateWaitingTimeInMillis``."""
    tombstone_ms: int = 3_600_000
    """``loadBalancerServiceUnitStateTombstoneDelayTimeInSeconds``."""
    jittery_ms: int = 180_000
    """How long after a session's return a broker's absence is not believed at once."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What the monitor found, each sorted by name."""

    gone: tuple[str, ...] = ()
    """Brokers that own or change bundles and are not there."""
    stuck: tuple[BundleName, ...] = ()
    """Bundles whose change takes too long though everybody is there."""
    buried: tuple[BundleName, ...] = ()
    """Bundles whose record says nothing any more."""


def examine(
    records: Mapping[BundleName, StateData],
    active: Collection[str],
    now_ms: int,
    patience: Patience,
) -> Findings:
    """Look at every bundle's record (``monitorOwnerships``); to be asked only while `STABLE`."""
    gone: set[str] = set()
    stuck, buried = [], []
    for bundle, record in sorted(records.items()):
        missing = _missing(record, active)
        if missing is not None:
            gone.add(missing)
        elif record.state.in_flight and now_ms - record.timestamp_ms > patience.in_flight_ms:
            stuck.append(bundle)
        elif not record.state.active and now_ms - record.timestamp_ms > patience.tombstone_ms:
            buried.append(bundle)
    return Findings(tuple(sorted(gone)), tuple(stuck), tuple(buried))


def _missing(record: StateData, active: Collection[str]) -> str | None:
    named: tuple[str | None, ...]
    if record.state is State.OWNED:
        named = (record.destination,)
    elif record.state.in_flight:
        named = (record.source, record.destination)
    else:
        return None
    return next((each for each in named if each and not blank(each) and each not in active), None)


def orphans_of(
    broker: str, records: Mapping[BundleName, StateData]
) -> tuple[tuple[BundleName, ...], tuple[BundleName, ...]]:
    """The bundles that a broker leaves behind: the users', then those of the system namespace."""
    found = [
        bundle
        for bundle, record in sorted(records.items())
        if (record.destination == broker and record.state.active)
        or (record.source == broker and record.state.in_flight)
    ]
    system = tuple(each for each in found if str(each.namespace) == SYSTEM_NAMESPACE)
    return tuple(each for each in found if each not in system), system


def override(
    record: StateData,
    choose: Callable[[], str | None],
    now_ms: int,
    *,
    leaving: str | None = None,
) -> StateData:
    """The record that mends an orphan, by force (``getOverrideInactiveBrokerStateData``).

    ``choose`` names the broker that shall have the bundle, None when there is none. ``leaving`` is
    the broker that hands its own bundles on before it stops: these are transferred in order.
    """
    heir = choose()
    mended = replace(record, force=True, timestamp_ms=now_ms, version=next_version(record))
    had = record.destination if record.state is State.OWNED else record.source
    if heir is None:
        return replace(mended, state=State.FREE, destination=None, source=had, children={})
    if record.state is State.SPLITTING:
        return replace(mended, source=heir)
    source = had if had != heir else None
    if record.state is State.OWNED and leaving is not None and source is not None:
        return replace(mended, state=State.RELEASING, destination=heir, source=leaving)
    return replace(mended, state=State.OWNED, destination=heir, source=source, children={})
