"""Reads a bundle's record, and validates it before any broker acts on it.

A client with write access to the channel can write what no broker would. `read_record` refuses a
record that is invalid by itself: it depends on the bundle's name and the bytes alone, so all
readers refuse the same. `why_unbelievable` is the leader's check, by its clock and the brokers that
are alive.
"""

import re
from collections.abc import Collection, Iterator
from typing import Final

from counterpoise.names.bundle import BundleName, BundleRange
from counterpoise.names.errors import InvalidName
from counterpoise.ownership.channel.data import ServiceUnitState, ServiceUnitStateData, blank
from counterpoise.ownership.records import InvalidRecord

VALUE_MAX: Final = 64 * 1024
"""The most bytes of a record; one that names `PARTS_MAX` parts has about 40,000."""
PARTS_MAX: Final = 1000
"""The most parts into which one record may split a bundle."""
AHEAD_MAX_MS: Final = 60_000
"""How far a record may be dated ahead of the leader's clock; brokers' clocks differ by less."""
_BROKER_ID: Final = re.compile("[!-~]{1,255}")

_S = ServiceUnitState
_NEEDS_DESTINATION: Final = frozenset({_S.ASSIGNING, _S.OWNED})
_NEEDS_SOURCE: Final = frozenset({_S.RELEASING, _S.SPLITTING, _S.DELETED})
_AS_SOURCE: Final = {
    _S.SPLITTING: "which was splitting it",
    _S.DELETED: "which was to delete its record",
}


def read_record(bundle: str, value: bytes) -> ServiceUnitStateData:
    """Parse and check the record of a bundle ``tenant/namespace/0x…_0x…``; raises
    `InvalidRecord`.
    """
    if len(value) > VALUE_MAX:
        raise InvalidRecord("ServiceUnitStateData", value)
    record = ServiceUnitStateData.from_json(value)
    if _why_senseless(bundle, record) is not None:
        raise InvalidRecord("ServiceUnitStateData", value)
    return record


def _why_senseless(bundle: str, record: ServiceUnitStateData) -> str | None:
    try:
        name = BundleName.parse(bundle)
    except InvalidName:
        return "it is of no bundle"
    if str(name) != bundle:
        return "it spells a bundle's name in another way"
    if record.state in _NEEDS_DESTINATION and blank(record.destination):
        return f"{record.state.value} names no destination"
    if record.state in _NEEDS_SOURCE and blank(record.source):
        return f"{record.state.value} names no source"
    for broker in (record.source, record.destination):
        if broker is not None and broker.strip() and not _BROKER_ID.fullmatch(broker):
            return "it names what is no broker's id"
    if record.state is _S.SPLITTING and record.children:
        return None if tiles(name.range, record.children) else "its parts are not the bundle's"
    return "it names parts, and splits nothing" if record.children else None


def tiles(parent: BundleRange, ranges: Collection[str]) -> bool:
    """Whether the ranges (``0x…_0x…``) together cover ``parent`` without gaps or overlaps."""
    if not 1 <= len(ranges) <= PARTS_MAX:
        return False
    try:
        parts = sorted((BundleRange.parse(each) for each in ranges), key=lambda part: part.lower)
    except InvalidName:
        return False
    begins = [parent.lower, *(part.upper for part in parts[:-1])]
    return parts[-1].upper == parent.upper and [part.lower for part in parts] == begins


def why_unbelievable(
    record: ServiceUnitStateData, active: Collection[str], now_ms: int
) -> str | None:
    """Why the leader must repair a valid record at once, for a person; None if it is plausible.

    The brokers that it names must be alive (in ``active``). Unless the bundle is `Owned`, the
    record's time may not be ahead of the leader's clock by more than `AHEAD_MAX_MS`.
    """
    missing = next(_missing(record, active), None)
    if missing is not None:
        return f"{missing}, {_part(record, missing)}, is no active broker"
    ahead_ms = record.timestamp_ms - now_ms
    if record.state is not _S.OWNED and ahead_ms > AHEAD_MAX_MS:
        return f"it is {record.state.value}, dated {ahead_ms} ms ahead of the clock"
    return None


def _missing(record: ServiceUnitStateData, active: Collection[str]) -> Iterator[str]:
    named: tuple[str | None, ...] = ()
    if record.state is _S.OWNED:
        named = (record.destination,)
    elif record.state.in_flight:
        named = (record.source, record.destination)
    elif record.state is _S.DELETED:
        # Its source deletes the record; without it the bundle's name stays blocked.
        named = (record.source,)
    return (each for each in named if each and not blank(each) and each not in active)


def _part(record: ServiceUnitStateData, broker: str) -> str:
    if record.state is _S.OWNED:
        return "which owns it"
    if record.source != broker:
        return "which was to own it"
    return _AS_SOURCE.get(record.state, "which was releasing it")
