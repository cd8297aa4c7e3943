"""Ownership repair: finds bundles of brokers that are gone, and changes that never ended."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from counterpoise.names.bundle import BundleName
from counterpoise.ownership.channel.data import (
    ServiceUnitState,
    ServiceUnitStateData,
    blank,
    next_version,
)
from counterpoise.ownership.port import OwnershipOptions, Repair

SYSTEM_NAMESPACE = "pulsar/system"


def examine(
    records: Mapping[BundleName, ServiceUnitStateData],
    active: Collection[str],
    now_ms: int,
    options: OwnershipOptions,
) -> tuple[Repair, ...]:
    """Look at every bundle's record (``monitorOwnerships``); system bundles come last.

    To be called only while the leader's own session is sound: otherwise the leader may not see
    brokers that are alive.
    """
    found = []
    for bundle, record in sorted(records.items()):
        missing = _missing(record, active)
        age_ms = now_ms - record.timestamp_ms
        name = str(bundle)
        if missing is not None:
            found.append(Repair(name, f"{missing}, {_part(record, missing)}, is gone"))
        elif record.state.in_flight and age_ms > options.in_flight_ms:
            found.append(Repair(name, f"it has been {record.state.value} for {age_ms} ms"))
        elif not record.state.active and age_ms > options.tombstone_ms:
            why = f"it has been {record.state.value} for {age_ms} ms"
            found.append(Repair(name, why, remove=True))
    return tuple(sorted(found, key=lambda each: each.bundle.startswith(f"{SYSTEM_NAMESPACE}/")))


def _missing(record: ServiceUnitStateData, active: Collection[str]) -> str | None:
    named: tuple[str | None, ...]
    if record.state is ServiceUnitState.OWNED:
        named = (record.destination,)
    elif record.state.in_flight:
        named = (record.source, record.destination)
    else:
        return None
    return next((each for each in named if each and not blank(each) and each not in active), None)


def _part(record: ServiceUnitStateData, broker: str) -> str:
    if record.state is ServiceUnitState.OWNED:
        return "which owns it"
    return "which was letting it go" if record.source == broker else "which was to have it"


def override(
    record: ServiceUnitStateData, successor: str | None, now_ms: int
) -> ServiceUnitStateData:
    """The record that repairs a bundle by force (``getOverrideInactiveBrokerStateData``).

    Without an ``successor`` the bundle is free, and the next lookup places it.
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
