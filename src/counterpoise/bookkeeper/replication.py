"""Replication: what each bookie holds, and which ledgers have lost copies."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final

from google.protobuf import text_format

from counterpoise.bookkeeper.bookie_registry import BookieRegistry, BookieState
from counterpoise.bookkeeper.ledger_metadata import LedgerMetadata
from counterpoise.bookkeeper.ledger_owners import ledger_owner
from counterpoise.bookkeeper.ledger_reading import LedgerEnd
from counterpoise.bookkeeper.ledger_rows import UNREADABLE, LedgerCluster, date, number_of
from counterpoise.bookkeeper.proto.ledgers_pb2 import UnderreplicatedLedgerFormat
from counterpoise.metadata.port import MetadataReader

_MARKED: Final = "underreplication/ledgers"
_MARK: Final = "urL"


@dataclass(frozen=True, slots=True)
class BookieRow:
    """One bookie as a row, with sums over its ledgers."""

    bookie: str
    state: str
    address: str
    ledgers: int
    """Ledgers that have a segment on it."""
    open_ledgers: int
    """Ledgers that are not closed and whose last segment is on it."""
    stored_bytes: int
    """Bytes of all payloads, estimated as if all entries of a ledger were of equal size."""
    marked: int
    """Ledgers that the auditor has marked because this bookie misses them."""


@dataclass(frozen=True, slots=True)
class ReplicationRow:
    """One ledger with fewer copies than it should have, as a row."""

    ledger: int
    topic: str
    kind: str
    state: str
    copies: int
    """Copies of its worst replicated entries on bookies that can be reached; -1: not known."""
    wanted: int
    gone: str
    """The bookies of this ledger that are gone."""
    marked_since: str
    """When the auditor marked it under-replicated; empty where it has not."""
    missing_on: str
    """The bookies that the auditor's mark names."""
    at_risk: bool
    """Whether some of its entries are on no bookie that can be reached."""


@dataclass(slots=True)
class BookieSums:
    """How many ledgers are on one bookie, and their bytes."""

    ledgers: int = 0
    open_ledgers: int = 0
    stored: float = 0.0
    marked: int = 0


@dataclass(frozen=True, slots=True)
class UnderreplicationMark:
    """The mark by which BookKeeper's auditor lists a ledger as underreplicated."""

    since_ms: int
    missing_on: tuple[str, ...]


async def bookie_rows(cluster: LedgerCluster) -> list[BookieRow]:
    """A row for each bookie that is registered, was registered, or has a segment of a ledger."""
    registry = cluster.registry
    sums = {each: BookieSums() for each in {*registry.registered, *registry.known}}
    async for part in cluster.all_metadata():
        ledgers = [each for each in part if isinstance(each, LedgerMetadata)]
        ends = await asyncio.gather(*map(cluster.end_of, ledgers))
        for ledger, end in zip(ledgers, ends, strict=True):
            _add(sums, ledger, end)
    async for _, mark in underreplicated(cluster.store, cluster.root):
        for bookie in mark.missing_on:
            sums.setdefault(bookie, BookieSums()).marked += 1
    return [_bookie_row(registry, bookie, sums[bookie]) for bookie in sorted(sums)]


def _add(sums: dict[str, BookieSums], ledger: LedgerMetadata, end: LedgerEnd | str) -> None:
    for bookie in ledger.bookies():
        sums.setdefault(bookie, BookieSums()).ledgers += 1
    if not ledger.closed:
        for bookie in set(ledger.segments[-1].ensemble):
            sums[bookie].open_ledgers += 1
    if isinstance(end, str) or end.last_stored < 0:
        return
    each_entry = end.length / (end.last_stored + 1)
    for segment, entries in ledger.spans(end.last_stored):
        share = entries * each_entry * ledger.write_quorum / len(segment.ensemble)
        for bookie in segment.ensemble:
            sums[bookie].stored += share


def _bookie_row(registry: BookieRegistry, bookie: str, sums: BookieSums) -> BookieRow:
    found = registry.registered.get(bookie)
    address = f"{found.host}:{found.port}" if found is not None and found.port else ""
    state = registry.state_of(bookie).value
    return BookieRow(
        bookie, state, address, sums.ledgers, sums.open_ledgers, round(sums.stored), sums.marked
    )


async def replication_rows(cluster: LedgerCluster) -> AsyncIterator[Sequence[ReplicationRow]]:
    """A row for each ledger that the auditor has marked, or with a segment on a bookie that is
    gone.

    Ledgers whose metadata cannot be read have a row, too.
    """
    marks = {ledger: mark async for ledger, mark in underreplicated(cluster.store, cluster.root)}
    async for part in cluster.all_metadata():
        rows = []
        for each in part:
            if isinstance(each, LedgerMetadata):
                row = _replication_row(cluster.registry, each, marks.get(each.ledger))
            else:
                row = ReplicationRow(
                    number_of(cluster, each), "", "", UNREADABLE, -1, 0, "", "", str(each), True
                )
            rows += [row] if row is not None else []
        yield rows


def _replication_row(
    registry: BookieRegistry, ledger: LedgerMetadata, mark: UnderreplicationMark | None
) -> ReplicationRow | None:
    gone = {each for each in ledger.bookies() if registry.state_of(each) is BookieState.GONE}
    if not gone and mark is None:
        return None
    copies = copies_left(ledger, gone)
    owner = ledger_owner(ledger.custom)
    return ReplicationRow(
        ledger.ledger,
        owner.topic,
        owner.kind or owner.application,
        ledger.state.name.lower().replace("_", " "),
        copies,
        ledger.write_quorum,
        ",".join(sorted(gone)),
        date(mark.since_ms) or "yes" if mark is not None else "",
        ",".join(mark.missing_on) if mark is not None else "",
        copies == 0,
    )


def copies_left(ledger: LedgerMetadata, gone: set[str]) -> int:
    """The number of copies of the entries with the fewest, if the bookies ``gone`` are lost."""
    last = ledger.last_entry if ledger.closed else 1 << 62
    worst = ledger.write_quorum
    for segment, entries in ledger.spans(last):
        # Write sets repeat after as many entries as there are bookies in the ensemble.
        for entry in range(segment.first, segment.first + min(entries, len(segment.ensemble))):
            worst = min(worst, sum(each not in gone for each in ledger.write_set(entry)))
    return worst


async def underreplicated(
    store: MetadataReader, root: str
) -> AsyncIterator[tuple[int, UnderreplicationMark]]:
    """The ledgers that the auditor has marked (``ZkLedgerUnderreplicationManager``)."""
    async for path in _marks(store, f"{root}/{_MARKED}", 4):
        digits = path.rpartition(_MARK)[2]
        node = await store.get(path)
        if node is None or not (digits.isascii() and digits.isdigit()):
            continue
        found = UnderreplicatedLedgerFormat()
        try:
            text_format.Parse(node.value.decode(), found, allow_unknown_field=True)
        except (text_format.ParseError, UnicodeDecodeError):
            found.Clear()  # The node itself is the mark.
        yield int(digits), UnderreplicationMark(found.ctime, tuple(found.replica))


async def _marks(store: MetadataReader, path: str, depth: int) -> AsyncIterator[str]:
    for name in await store.children(path):
        if depth == 0 and name.startswith(_MARK):
            yield f"{path}/{name}"
        elif depth:
            async for each in _marks(store, f"{path}/{name}", depth - 1):
                yield each
