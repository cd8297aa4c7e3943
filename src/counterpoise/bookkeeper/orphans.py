"""Finds orphan ledgers: those that are Pulsar's by their metadata, and that nothing refers to.

A broker drops a ledger from a topic's list, then deletes it. If it dies in between, the ledger
stays, and its space is never freed. So that no ledger in use is taken for an orphan, references are
read before ledgers, and those of each candidate's topic again at the end.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final

from counterpoise.bookkeeper import ledger_owners
from counterpoise.bookkeeper.errors import UnreadableNode
from counterpoise.bookkeeper.ledger_metadata import LedgerMetadata
from counterpoise.bookkeeper.ledger_paths import ledger_ids
from counterpoise.bookkeeper.ledger_reading import LedgerEnd
from counterpoise.bookkeeper.ledger_rows import AT_ONCE, LedgerCluster, date
from counterpoise.bookkeeper.managed_ledgers import check_managed_ledgers, managed_ledger_name
from counterpoise.bookkeeper.references import LedgerReferences, read_references
from counterpoise.names.errors import InvalidName
from counterpoise.names.topic import TopicName

ORPHAN: Final = "orphan"
YOUNG: Final = "young"
UNDECIDED: Final = "undecided"
_COMPACTION_GRACE_MS: Final = 24 * 3600 * 1000
"""A compaction may still be writing an open ledger of compacted messages younger than this."""


@dataclass(frozen=True, slots=True)
class OrphanRow:
    """One ledger that nothing refers to, as a row."""

    ledger: int
    verdict: str
    """`ORPHAN`; `YOUNG`: it may be on its way into a list; `UNDECIDED`: see the note."""
    topic: str
    kind: str
    cursor: str
    state: str
    entries: int
    bytes: int
    """Bytes of all payloads, one copy; -1: not known."""
    stored_bytes: int
    """Bytes of all copies; -1: not known."""
    created: str
    bookies: str
    orphan: bool
    note: str


@dataclass(slots=True)
class UnreferencedCounts:
    """How many of a cluster's ledgers were looked at, and why some of them are not judged."""

    pulsar: int = 0
    referenced: int = 0
    foreign: int = 0
    """Ledgers of other applications."""
    unnamed: int = 0
    """Ledgers whose metadata names no application."""
    unreadable: int = 0

    def __str__(self) -> str:
        return (
            f"{self.referenced} ledgers are referred to. Not judged: {self.foreign} of other "
            f"applications, {self.unnamed} that name none, {self.unreadable} whose metadata cannot "
            "be read."
        )


async def orphan_rows(
    cluster: LedgerCluster, now_ms: int, grace_ms: float, counts: UnreferencedCounts
) -> AsyncIterator[Sequence[OrphanRow]]:
    """A row for each of Pulsar's ledgers that nothing refers to; one younger than ``grace_ms`` is
    `YOUNG`.

    Raises `NotThisCluster` if the store has no topics, because every ledger would then look like an
    orphan.
    """
    await check_managed_ledgers(cluster.store)
    references = await read_references(cluster)
    async for ids in ledger_ids(cluster.store, cluster.root):
        cluster.counts.ledgers += len(ids)
        candidates = references.unreferenced(ids)
        counts.referenced += len(ids) - len(candidates)
        for begin in range(0, len(candidates), AT_ONCE):
            part = candidates[begin : begin + AT_ONCE]
            found = await asyncio.gather(*map(cluster.readable, part))
            judged = [each for each in found if each is not None and _is_pulsars(each, counts)]
            rows = await asyncio.gather(
                *(
                    _judged(cluster, each, references, now_ms, grace_ms)
                    for each in judged
                    if isinstance(each, LedgerMetadata)
                )
            )
            kept = [row for row in rows if row is not None]
            counts.pulsar += len(kept)
            yield kept


def _is_pulsars(found: LedgerMetadata | UnreadableNode, counts: UnreferencedCounts) -> bool:
    if isinstance(found, UnreadableNode):
        counts.unreadable += 1
        return False
    application = ledger_owners.ledger_owner(found.custom).application
    counts.foreign += bool(application) and application != ledger_owners.PULSAR
    counts.unnamed += not application
    return application == ledger_owners.PULSAR


async def _judged(
    cluster: LedgerCluster,
    ledger: LedgerMetadata,
    references: LedgerReferences,
    now_ms: int,
    grace_ms: float,
) -> OrphanRow | None:
    """The row of a candidate; None if something refers to it now, or it was deleted meanwhile."""
    owner = ledger_owners.ledger_owner(ledger.custom)
    again = await _references_again(cluster, owner)
    if not again.unreferenced([ledger.ledger]):
        return None
    if await cluster.readable(ledger.ledger) is None:
        return None
    unknown = {**references.unknown, **again.unknown}
    verdict, note = _verdict(ledger, owner, unknown, now_ms, grace_ms)
    end = await cluster.end_of(ledger)
    entries = size = stored = -1
    if isinstance(end, LedgerEnd):
        entries, size, stored = end.last_stored + 1, end.length, end.length * ledger.write_quorum
    else:
        note = "; ".join(each for each in (note, end) if each)
    return OrphanRow(
        ledger.ledger,
        verdict,
        owner.topic,
        owner.kind,
        owner.cursor,
        ledger.state.name.lower().replace("_", " "),
        entries,
        size,
        stored,
        date(ledger.created_ms),
        ",".join(ledger.bookies()),
        verdict == ORPHAN,
        note,
    )


async def _references_again(
    cluster: LedgerCluster, owner: ledger_owners.LedgerOwner
) -> LedgerReferences:
    """The ledgers that a candidate's topic refers to now, read once more."""
    found = LedgerReferences()
    try:
        topic = TopicName.parse(owner.topic) if owner.topic else None
    except InvalidName:
        topic = None
    names = {owner.managed_ledger, managed_ledger_name(topic) if topic else ""}
    for name in names - {""}:
        await found.read_topic(cluster, name)
        cluster.counts.topics -= 1
    if owner.kind == ledger_owners.SCHEMA and owner.topic:
        await found.read_schema(cluster, owner.topic.partition("://")[2])
    return found


def _verdict(
    ledger: LedgerMetadata,
    owner: ledger_owners.LedgerOwner,
    unknown: dict[str, str],
    now_ms: int,
    grace_ms: float,
) -> tuple[str, str]:
    if owner.topic in unknown:
        return UNDECIDED, f"its topic cannot be read: {unknown[owner.topic]}"
    if not owner.topic:
        return UNDECIDED, "its metadata does not say of which topic it is"
    if not ledger.created_ms:
        return UNDECIDED, "it is not known when it was created"
    age = now_ms - ledger.created_ms
    if age < grace_ms:
        return YOUNG, ""
    if owner.kind == ledger_owners.COMPACTED and not ledger.closed and age < _COMPACTION_GRACE_MS:
        return YOUNG, "a compaction may be writing it"
    return ORPHAN, ""
