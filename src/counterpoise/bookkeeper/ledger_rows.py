"""Ledgers as rows, for ``counterpoise storage``: those of one topic, or of the whole cluster."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from counterpoise.bookkeeper.bookie_registry import BookieRegistry
from counterpoise.bookkeeper.bookies import Bookies
from counterpoise.bookkeeper.errors import BookKeeperError, UnreadableNode
from counterpoise.bookkeeper.ledger_metadata import LedgerMetadata, read_ledger_metadata
from counterpoise.bookkeeper.ledger_owners import MESSAGES, ledger_owner
from counterpoise.bookkeeper.ledger_paths import ledger_at, ledger_ids, ledger_path
from counterpoise.bookkeeper.ledger_reading import LedgerEnd, ledger_end
from counterpoise.bookkeeper.managed_ledgers import ListedLedger
from counterpoise.metadata.port import MetadataReader

AT_ONCE = 256
"""How many nodes of the metadata store are read at the same time."""
UNREADABLE = "unreadable"
GONE = "gone"


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """A ledger as one row of what ``counterpoise storage ledgers`` prints."""

    ledger: int
    kind: str
    topic: str
    cursor: str
    state: str
    entries: int
    """The number of entries; -1: not known."""
    unconfirmed: int
    """Entries at the end whose acknowledgement no later entry confirms."""
    bytes: int
    """Bytes of all payloads, one copy; -1: not known."""
    stored_bytes: int
    """Bytes of all copies; -1: not known."""
    quorums: str
    """The numbers of bookies as text: ensemble/write quorum/ack quorum."""
    segments: int
    created: str
    bookies: str
    note: str


@dataclass(slots=True)
class ReadCounts:
    """The progress of reading a cluster's ledgers; its text is shown meanwhile."""

    topics: int = 0
    ledgers: int = 0
    entries: int = 0

    def __str__(self) -> str:
        counts = ((self.topics, "topics"), (self.ledgers, "ledgers"), (self.entries, "entries"))
        read = ", ".join(f"{count:,} {what}" for count, what in counts if count)
        return f"reading BookKeeper: {read or 'nothing yet'}"


@dataclass(slots=True)
class LedgerCluster:
    """What reading ledgers needs: the cluster's metadata store, its bookies, the ledgers' root."""

    store: MetadataReader
    bookies: Bookies
    registry: BookieRegistry
    root: str
    ask_bookies: bool = True
    """Whether bookies are asked for the size of open ledgers, which metadata does not have."""
    counts: ReadCounts = field(default_factory=ReadCounts)

    async def metadata(self, ledger: int) -> LedgerMetadata | None:
        """A ledger's metadata, None if there is no such ledger; raises `UnreadableNode`."""
        path = ledger_path(self.root, ledger)
        node = await self.store.get(path)
        if node is None:
            return None
        return read_ledger_metadata(ledger, path, node.value, node.created_ms)

    async def readable(self, ledger: int) -> LedgerMetadata | UnreadableNode | None:
        """A ledger's metadata, an `UnreadableNode` (returned, not raised), or None if there is no
        such ledger.
        """
        try:
            return await self.metadata(ledger)
        except UnreadableNode as error:
            return error

    async def end_of(self, ledger: LedgerMetadata) -> LedgerEnd | str:
        """The end of a ledger; or why it is unknown, or ``open`` if bookies are not to be asked."""
        if not (ledger.closed or self.ask_bookies):
            return "open"
        try:
            return await ledger_end(self.bookies, ledger)
        except BookKeeperError as error:
            return str(error)

    async def all_metadata(self) -> AsyncIterator[list[LedgerMetadata | UnreadableNode]]:
        """The metadata of every ledger in ascending order, up to `AT_ONCE` at a time."""
        async for ids in ledger_ids(self.store, self.root):
            for begin in range(0, len(ids), AT_ONCE):
                part = ids[begin : begin + AT_ONCE]
                found = await asyncio.gather(*(self.readable(each) for each in part))
                self.counts.ledgers += len(part)
                # Those that were deleted since they were listed are None.
                yield [each for each in found if each is not None]


def date(ms: int) -> str:
    """A time in UTC, in ISO 8601 with milliseconds; empty for 0."""
    if ms <= 0:
        return ""
    try:
        moment = datetime.fromtimestamp(ms / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return f"{ms} ms"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def cluster_ledgers(cluster: LedgerCluster) -> AsyncIterator[list[LedgerRow]]:
    """A row for each ledger of the cluster."""
    async for part in cluster.all_metadata():
        yield list(await asyncio.gather(*(_row(cluster, each) for each in part)))


async def _row(cluster: LedgerCluster, found: LedgerMetadata | UnreadableNode) -> LedgerRow:
    if isinstance(found, UnreadableNode):
        return _without_metadata(number_of(cluster, found), UNREADABLE, str(found))
    return ledger_row(found, await cluster.end_of(found))


def number_of(cluster: LedgerCluster, damaged: UnreadableNode) -> int:
    """The id of the ledger whose node cannot be parsed; -1 if the node is no ledger's."""
    found = ledger_at(cluster.root, damaged.path)
    return -1 if found is None else found


def ledger_row(ledger: LedgerMetadata, end: LedgerEnd | str, note: str = "") -> LedgerRow:
    """The row of a ledger with readable metadata; ``end`` is its end, or why that is unknown."""
    owner = ledger_owner(ledger.custom)
    entries = size = stored = -1
    unconfirmed = 0
    if isinstance(end, LedgerEnd):
        entries, unconfirmed = end.last_stored + 1, end.last_stored - end.last_confirmed
        size, stored = end.length, end.length * ledger.write_quorum
    return LedgerRow(
        ledger.ledger,
        owner.kind or owner.application or "unknown",
        owner.topic,
        owner.cursor,
        ledger.state.name.lower().replace("_", " "),
        entries,
        unconfirmed,
        size,
        stored,
        f"{ledger.ensemble_size}/{ledger.write_quorum}/{ledger.ack_quorum}",
        len(ledger.segments),
        date(ledger.created_ms),
        ",".join(ledger.bookies()),
        "; ".join(each for each in (note, end if isinstance(end, str) else "") if each),
    )


def _without_metadata(ledger: int, state: str, note: str) -> LedgerRow:
    return LedgerRow(ledger, "", "", "", state, -1, 0, -1, -1, "", 0, "", "", note)


async def listed_ledgers(
    cluster: LedgerCluster, topic: str, listed: Sequence[ListedLedger]
) -> AsyncIterator[list[LedgerRow]]:
    """A row for each ledger in a topic's list, in its order."""
    for begin in range(0, len(listed), AT_ONCE):
        part = listed[begin : begin + AT_ONCE]
        yield list(await asyncio.gather(*(_listed(cluster, topic, each) for each in part)))


async def _listed(cluster: LedgerCluster, topic: str, listed: ListedLedger) -> LedgerRow:
    note = "offloaded" if listed.offloaded else ""
    found = await cluster.readable(listed.ledger)
    if isinstance(found, LedgerMetadata):
        return ledger_row(found, await cluster.end_of(found), note=note)
    if found is not None:
        note = "; ".join(each for each in (note, str(found)) if each)
    elif not listed.deleted:
        note = "its topic lists it, and BookKeeper has no such ledger"
    state = GONE if found is None else UNREADABLE
    return LedgerRow(
        listed.ledger,
        MESSAGES,
        topic,
        "",
        state,
        listed.entries,
        0,
        listed.size,
        0 if found is None else -1,
        "",
        0,
        "",
        "",
        note,
    )
