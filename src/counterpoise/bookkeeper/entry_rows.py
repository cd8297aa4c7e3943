"""Messages of a topic or a ledger as rows, in order, for ``counterpoise storage``."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from counterpoise.bookkeeper.cursors import parse_positions
from counterpoise.bookkeeper.errors import BookKeeperError, UnreadableNode
from counterpoise.bookkeeper.ledger_metadata import LedgerMetadata
from counterpoise.bookkeeper.ledger_owners import CURSOR, ledger_owner
from counterpoise.bookkeeper.ledger_reading import read_entry
from counterpoise.bookkeeper.ledger_rows import LedgerCluster, date
from counterpoise.bookkeeper.messages import DecodedMessage, decode_entry
from counterpoise.bookkeeper.stored_entry import StoredEntry
from counterpoise.names.position import NO_POSITION, Position
from counterpoise.wire.entry import BadEntry

AHEAD = 16
"""How many entries are read at the same time; one may have five megabytes."""


@dataclass(frozen=True, slots=True)
class EntryRow:
    """One message as a row, or one entry whose messages cannot be shown."""

    ledger: int
    entry: int
    batch_index: int
    """The message's place in its batch; -1 if the entry is not a batch."""
    batch_size: int
    published: str
    event_time: str
    producer: str
    sequence_id: int
    key: str
    properties: str
    """The properties as a JSON object; empty if there are none."""
    bytes: int
    compression: str
    unconfirmed: bool
    """Whether no later entry shows that it was acknowledged: its writer may still wait for
    bookies."""
    unreadable: bool
    note: str
    payload: str
    """The payload in base64, if it was asked for."""


@dataclass(frozen=True, slots=True)
class EntryChoice:
    """Where to begin to show entries, and whether with their payload."""

    begin: Position = NO_POSITION
    with_payload: bool = False


async def entry_rows(
    cluster: LedgerCluster, ledgers: Sequence[int], choice: EntryChoice
) -> AsyncIterator[list[EntryRow]]:
    """The messages of some ledgers in order, from a position on; `AHEAD` entries are read
    concurrently.

    A ledger or an entry that cannot be read has a row of its own that says why.
    """
    for number in ledgers:
        if number < choice.begin.ledger_id:
            continue
        ledger = await cluster.readable(number)
        if not isinstance(ledger, LedgerMetadata):
            why = "BookKeeper has no such ledger" if ledger is None else str(ledger)
            yield [_unreadable(number, -1, why)]
            continue
        async for rows in _rows_of(cluster, ledger, choice):
            yield rows


async def _rows_of(
    cluster: LedgerCluster, ledger: LedgerMetadata, choice: EntryChoice
) -> AsyncIterator[list[EntryRow]]:
    end = await cluster.end_of(ledger)
    if isinstance(end, str):
        yield [_unreadable(ledger.ledger, -1, end)]
        return
    first = choice.begin.entry_id if choice.begin.ledger_id == ledger.ledger else 0
    for begin in range(max(first, 0), end.last_stored + 1, AHEAD):
        entries = range(begin, min(begin + AHEAD, end.last_stored + 1))
        cluster.counts.entries += len(entries)
        found = await asyncio.gather(*(_read(cluster, ledger, entry) for entry in entries))
        yield [
            row
            for each, entry in zip(found, entries, strict=True)
            for row in _rows(ledger, entry, each, entry > end.last_confirmed, choice)
        ]


async def _read(cluster: LedgerCluster, ledger: LedgerMetadata, entry: int) -> StoredEntry | str:
    try:
        return await read_entry(cluster.bookies, ledger, entry)
    except BookKeeperError as error:
        return str(error)


def _rows(
    ledger: LedgerMetadata,
    entry: int,
    found: StoredEntry | str,
    unconfirmed: bool,
    choice: EntryChoice,
) -> list[EntryRow]:
    if isinstance(found, str):
        return [_unreadable(ledger.ledger, entry, found)]
    owner = ledger_owner(ledger.custom)
    try:
        if owner.kind == CURSOR:
            return [_other(found, unconfirmed, _cursor_state(found), choice)]
        messages = decode_entry(found.payload)
    except (BadEntry, UnreadableNode) as error:
        note = owner.kind or str(error)
        return [_other(found, unconfirmed, f"no message: {note}", choice)]
    return [_message(found, each, unconfirmed, choice) for each in messages]


def _message(
    found: StoredEntry, message: DecodedMessage, unconfirmed: bool, choice: EntryChoice
) -> EntryRow:
    properties = dict(message.properties)
    return EntryRow(
        found.ledger,
        found.entry,
        message.batch_index,
        message.batch_size,
        date(message.publish_ms),
        date(message.event_ms),
        message.producer,
        message.sequence_id,
        message.key,
        json.dumps(properties, ensure_ascii=False) if properties else "",
        message.size,
        message.compression,
        unconfirmed,
        False,
        message.note,
        base64.b64encode(message.payload).decode() if choice.with_payload else "",
    )


def _other(found: StoredEntry, unconfirmed: bool, note: str, choice: EntryChoice) -> EntryRow:
    """The row of an entry that is no message: a cursor's state, or bytes that cannot be decoded."""
    return EntryRow(
        found.ledger,
        found.entry,
        -1,
        0,
        "",
        "",
        "",
        -1,
        "",
        "",
        len(found.payload),
        "",
        unconfirmed,
        False,
        note,
        base64.b64encode(found.payload).decode() if choice.with_payload else "",
    )


def _unreadable(ledger: int, entry: int, why: str) -> EntryRow:
    return EntryRow(ledger, entry, -1, 0, "", "", "", -1, "", "", -1, "", False, True, why, "")


def _cursor_state(found: StoredEntry) -> str:
    state = parse_positions(f"entry {found.ledger}:{found.entry}", found.payload)
    more = len(state.ranges) + len(state.bits)
    beyond = f", {more} ranges beyond it" if more else ""
    return f"acknowledged up to {state.mark_delete}{beyond}"
