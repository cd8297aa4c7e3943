"""Cursors of a topic as rows, with their backlog."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass

from counterpoise.bookkeeper import cursors
from counterpoise.bookkeeper.errors import UnreadableNode
from counterpoise.bookkeeper.ledger_metadata import LedgerMetadata
from counterpoise.bookkeeper.ledger_reading import LedgerEnd
from counterpoise.bookkeeper.ledger_rows import LedgerCluster
from counterpoise.bookkeeper.managed_ledgers import ListedLedger, ManagedLedger


@dataclass(frozen=True, slots=True)
class CursorRow:
    """One subscription as a row of ``counterpoise storage``, as it was last stored."""

    cursor: str
    mark_delete: str
    """Ledger and entry up to which all is acknowledged."""
    backlog: int
    """Entries that are not acknowledged; -1: not known."""
    acknowledged_beyond: int
    """Entries beyond ``mark_delete`` that are acknowledged one by one."""
    ranges: int
    state_ledger: int
    """The ledger that has this state; -1: the cursor's node has it."""
    properties: str
    note: str


async def entry_count(cluster: LedgerCluster, listed: Sequence[ListedLedger]) -> cursors.EntryCount:
    """Count the entries of each ledger that a topic lists, including the one being written."""
    counts = [(each.ledger, each.entries) for each in listed]
    open_at = [at for at, each in enumerate(listed) if not each.closed_ms]
    for at in open_at:
        ledger = await cluster.readable(listed[at].ledger)
        end = await cluster.end_of(ledger) if isinstance(ledger, LedgerMetadata) else None
        if isinstance(end, LedgerEnd):
            counts[at] = (listed[at].ledger, end.last_stored + 1)
    return cursors.EntryCount(counts)


async def cursor_rows(cluster: LedgerCluster, topic: ManagedLedger) -> list[CursorRow]:
    """A row for each cursor of a topic."""
    count = await entry_count(cluster, topic.ledgers)
    names = await cursors.cursor_names(cluster.store, topic.name)
    rows = await asyncio.gather(*(_row(cluster, topic, name, count) for name in names))
    return [row for row in rows if row is not None]


async def _row(
    cluster: LedgerCluster, topic: ManagedLedger, name: str, count: cursors.EntryCount
) -> CursorRow | None:
    try:
        node = await cursors.read_cursor_node(cluster.store, topic.name, name)
    except UnreadableNode as error:
        return CursorRow(name, "", -1, 0, 0, cursors.NO_LEDGER, "", str(error))
    if node is None:
        return None
    reading = await cursors.read_cursor(cluster.store, cluster.root, cluster.bookies, node)
    positions = reading.positions
    known = not reading.problem
    return CursorRow(
        node.name,
        str(positions.mark_delete),
        count.backlog(positions) if known else -1,
        count.acknowledged(positions),
        len(positions.ranges) + len(positions.bits),
        node.ledger,
        _properties(node, positions.numbers),
        f"as of an older state: {reading.problem}" if reading.problem else "",
    )


def _properties(node: cursors.CursorNode, numbers: Sequence[tuple[str, int]]) -> str:
    found = {**dict(node.texts), **dict(numbers)}
    return json.dumps(found, ensure_ascii=False) if found else ""
