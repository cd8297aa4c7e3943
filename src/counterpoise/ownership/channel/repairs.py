"""Ownership repair: finds bundles of brokers that are gone, and changes that never ended."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from counterpoise.names.bundle import BundleName
from counterpoise.ownership.channel.data import ServiceUnitState, ServiceUnitStateData, next_version
from counterpoise.ownership.channel.sense import why_unbelievable
from counterpoise.ownership.port import OwnershipOptions, Repair

SYSTEM_NAMESPACE = "pulsar/system"


def examine(
    records: Mapping[BundleName, ServiceUnitStateData],
    active: Collection[str],
    now_ms: int,
    options: OwnershipOptions,
) -> tuple[Repair, ...]:
    """The repairs that the leader has to make (Pulsar's ``monitorOwnerships``), system bundles
    last.

    Call it only while the leader's own session is healthy: otherwise brokers that are alive may be
    missing from ``active``.
    """
    found = []
    for bundle, record in sorted(records.items()):
        name, age_ms = str(bundle), now_ms - record.timestamp_ms
        unbelievable = why_unbelievable(record, active, now_ms)
        if unbelievable is not None:
            found.append(Repair(name, unbelievable, remove=not record.state.active))
        elif record.state.in_flight and age_ms > options.in_flight_ms:
            found.append(Repair(name, f"it has been {record.state.value} for {age_ms} ms"))
        elif not record.state.active and age_ms > options.tombstone_ms:
            why = f"it has been {record.state.value} for {age_ms} ms"
            found.append(Repair(name, why, remove=True))
    return tuple(sorted(found, key=lambda each: each.bundle.startswith(f"{SYSTEM_NAMESPACE}/")))


def override(
    record: ServiceUnitStateData, successor: str | None, now_ms: int
) -> ServiceUnitStateData:
    """The record that repairs a bundle (``getOverrideInactiveBrokerStateData``) by forcing a new
    owner.

    Without a ``successor`` the bundle becomes free, and the next lookup assigns it.
    """
    repaired = replace(record, force=True, timestamp_ms=now_ms, version=next_version(record))
    had = record.destination if record.state is ServiceUnitState.OWNED else record.source
    if successor is None:
        return replace(
            repaired, state=ServiceUnitState.FREE, destination=None, source=had, children={}
        )
    if record.state is ServiceUnitState.SPLITTING:
        return replace(repaired, source=successor)
    source = had if had != successor else None
    return replace(
        repaired, state=ServiceUnitState.OWNED, destination=successor, source=source, children={}
    )
