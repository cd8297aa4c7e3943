"""Cursors: what each subscription has acknowledged, and its backlog."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_plus

from google.protobuf.message import DecodeError

from counterpoise.bookkeeper.bookies import Bookies
from counterpoise.bookkeeper.errors import BookKeeperError, UnreadableNode
from counterpoise.bookkeeper.ledger_metadata import LedgerMetadata, read_ledger_metadata
from counterpoise.bookkeeper.ledger_paths import ledger_path
from counterpoise.bookkeeper.ledger_reading import ledger_end, read_entry
from counterpoise.bookkeeper.managed_ledgers import ROOT, parse_node, parsed
from counterpoise.bookkeeper.proto import managed_pb2 as pb
from counterpoise.metadata.port import MetadataReader
from counterpoise.names.position import NO_POSITION, Position
from counterpoise.wire.bit_words import WORD_BITS, bits_of
from counterpoise.wire.varint import signed

NO_LEDGER: Final = -1
"""The cursor ledger of a cursor whose state is in its node."""
COMPACTION_CURSOR: Final = "__compaction"
COMPACTED_LEDGER: Final = "CompactedTopicLedger"
"""The property of the compaction cursor that names the ledger of a topic's compacted messages."""
DELAYED_BUCKET: Final = "#pulsar.internal.delayed.bucket"
"""The prefix of cursor properties that name a ledger with the index of delayed messages."""


@dataclass(frozen=True, slots=True)
class CursorPositions:
    """The entries that a subscription has acknowledged."""

    mark_delete: Position
    """The position up to and including which all entries are acknowledged."""
    ranges: tuple[tuple[Position, Position], ...] = ()
    """Acknowledged entries beyond ``mark_delete``: those after each pair's first position, up to
    and including its second."""
    bits: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """Acknowledged entries beyond ``mark_delete`` in Pulsar's other form: ledgers, each with 64-bit
    words that have a bit for each entry."""
    numbers: tuple[tuple[str, int], ...] = ()
    """The properties whose values are numbers: each producer's last sequence id (deduplication), or
    the compacted ledger."""
    batches: tuple[tuple[Position, tuple[int, ...]], ...] = ()
    """Batches acknowledged in part: the position of each, and its messages that are not
    acknowledged, as a bit set of 64-bit words."""

    @property
    def acknowledged(self) -> tuple[tuple[Position, Position], ...]:
        """The acknowledged ranges after the mark-delete position, in order, both ends included.

        Merges the two forms in which Pulsar stores them, `ranges` and `bits`.
        """
        found = [(before._replace(entry_id=before.entry_id + 1), to) for before, to in self.ranges]
        for ledger, words in self.bits:
            found += _runs(ledger, bits_of(words))
        return tuple(sorted(found))


@dataclass(frozen=True, slots=True)
class CursorNode:
    """A cursor's node in the metadata store."""

    name: str
    ledger: int
    """The ledger whose last entry is the state; `NO_LEDGER` if this node has the state."""
    positions: CursorPositions
    """The state when the node was written; older than that of the ledger, if there is one."""
    texts: tuple[tuple[str, str], ...]

    @property
    def delayed_ledgers(self) -> list[int]:
        """The ledgers of the subscription's index of delayed messages."""
        return [
            int(value)
            for name, value in self.texts
            if name.startswith(DELAYED_BUCKET) and value.isascii() and value.isdigit()
        ]


@dataclass(frozen=True, slots=True)
class CursorReading:
    """A cursor's last stored state; brokers store each change within a minute."""

    node: CursorNode
    positions: CursorPositions
    problem: str = ""
    """Why this state is older than the one in its ledger; empty if it is not."""


async def cursor_names(store: MetadataReader, managed_ledger: str) -> list[str]:
    """The names of the cursors of a managed ledger, from their nodes."""
    return await store.children(f"{ROOT}/{managed_ledger}")


async def read_cursor_node(
    store: MetadataReader, managed_ledger: str, name: str
) -> CursorNode | None:
    """A cursor's node, None if there is none; raises `UnreadableNode`."""
    path = f"{ROOT}/{managed_ledger}/{name}"
    node = await store.get(path)
    return None if node is None else parse_cursor_node(path, node.value)


def parse_cursor_node(path: str, value: bytes) -> CursorNode:
    """Parse the value of a cursor's node; raises `UnreadableNode`."""
    found = parse_node(pb.ManagedCursorInfo, path, value)
    mark_delete = NO_POSITION
    if found.HasField("markDeleteLedgerId"):
        mark_delete = Position(found.markDeleteLedgerId, found.markDeleteEntryId)
    return CursorNode(
        unquote_plus(path.rpartition("/")[2]),
        found.cursorsLedgerId,
        CursorPositions(
            mark_delete,
            _ranges(found.individualDeletedMessages),
            (),
            tuple((each.name, each.value) for each in found.properties),
            _batches(found.batchedEntryDeletionIndexInfo),
        ),
        tuple((each.name, each.value) for each in found.cursorProperties),
    )


def parse_positions(where: str, payload: bytes) -> CursorPositions:
    """Parse an entry of a cursor's ledger; ``where`` names it in the `UnreadableNode` raised."""
    try:
        found = parsed(pb.PositionInfo, payload)
    except (ValueError, DecodeError) as error:
        raise UnreadableNode(where, f"no state of a cursor: {error}") from None
    return CursorPositions(
        Position(found.ledgerId, found.entryId),
        _ranges(found.individualDeletedMessages),
        tuple((each.key, _unsigned(each.values)) for each in found.individualDeletedMessageRanges),
        tuple((each.name, each.value) for each in found.properties),
        _batches(found.batchedEntryDeletionIndexInfo),
    )


def write_positions(positions: CursorPositions) -> bytes:
    """Encode a cursor's state as an entry of its ledger."""
    mark = positions.mark_delete
    made = pb.PositionInfo(ledgerId=mark.ledger_id, entryId=mark.entry_id)
    _write_into(made, positions)
    for ledger, words in positions.bits:
        made.individualDeletedMessageRanges.add(key=ledger, values=_signed(words))
    return made.SerializeToString()


def write_cursor_node(path: str, value: bytes, node: CursorNode, active_ms: int) -> bytes:
    """Encode the node of a cursor (``ManagedCursorInfo``).

    ``value`` is what the node holds now, b"" if it is new: fields that are not known here are kept.
    The individually acknowledged entries of a cursor with a ledger are in that ledger, and not in
    the node. ``active_ms``: when the cursor was used last. Raises `UnreadableNode`.
    """
    made = parse_node(pb.ManagedCursorInfo, path, value) if value else pb.ManagedCursorInfo()
    positions = node.positions
    made.cursorsLedgerId = node.ledger
    made.markDeleteLedgerId, made.markDeleteEntryId = positions.mark_delete
    made.lastActive = active_ms
    if node.ledger != NO_LEDGER:
        positions = CursorPositions(positions.mark_delete, numbers=positions.numbers)
    for name in ("individualDeletedMessages", "batchedEntryDeletionIndexInfo", "properties"):
        made.ClearField(name)
    _write_into(made, positions)
    del made.cursorProperties[:]
    for name, text in node.texts:
        made.cursorProperties.add(name=name, value=text)
    return made.SerializeToString()


def _write_into(made: pb.PositionInfo | pb.ManagedCursorInfo, positions: CursorPositions) -> None:
    for before, last in positions.ranges:
        made.individualDeletedMessages.add(lowerEndpoint=_place(before), upperEndpoint=_place(last))
    for position, words in positions.batches:
        made.batchedEntryDeletionIndexInfo.add(position=_place(position), deleteSet=_signed(words))
    for name, number in positions.numbers:
        made.properties.add(name=name, value=number)


def _place(position: Position) -> pb.NestedPositionInfo:
    return pb.NestedPositionInfo(ledgerId=position.ledger_id, entryId=position.entry_id)


def _unsigned(words: Iterable[int]) -> tuple[int, ...]:
    return tuple(word & (1 << WORD_BITS) - 1 for word in words)


def _signed(words: Iterable[int]) -> list[int]:
    return [signed(word) for word in words]


def _batches(
    found: Iterable[pb.BatchedEntryDeletionIndexInfo],
) -> tuple[tuple[Position, tuple[int, ...]], ...]:
    return tuple(
        (Position(each.position.ledgerId, each.position.entryId), _unsigned(each.deleteSet))
        for each in found
    )


def _runs(ledger: int, bits: int) -> list[tuple[Position, Position]]:
    """The runs of ones in ``bits``, each as the positions of its first and last entry."""
    found, at = [], 0
    while bits:
        zeros = (bits & -bits).bit_length() - 1
        bits >>= zeros
        ones = (~bits & bits + 1).bit_length() - 1
        found.append((Position(ledger, at + zeros), Position(ledger, at + zeros + ones - 1)))
        bits >>= ones
        at += zeros + ones
    return found


def _ranges(found: Iterable[pb.MessageRange]) -> tuple[tuple[Position, Position], ...]:
    return tuple(
        (
            Position(each.lowerEndpoint.ledgerId, each.lowerEndpoint.entryId),
            Position(each.upperEndpoint.ledgerId, each.upperEndpoint.entryId),
        )
        for each in found
    )


async def read_cursor(
    store: MetadataReader, root: str, bookies: Bookies, node: CursorNode
) -> CursorReading:
    """A cursor's latest state: the last entry of its ledger, or what its node has."""
    if node.ledger == NO_LEDGER:
        return CursorReading(node, node.positions)
    path = ledger_path(root, node.ledger) if node.ledger >= 0 else ""
    try:
        value = await store.get(path) if path else None
        if value is None:
            return CursorReading(node, node.positions, f"its ledger {node.ledger} is not there")
        ledger = read_ledger_metadata(node.ledger, path, value.value)
        positions = await _last_state(bookies, ledger)
    except BookKeeperError as error:
        return CursorReading(node, node.positions, str(error))
    return CursorReading(node, positions or node.positions)


async def _last_state(bookies: Bookies, ledger: LedgerMetadata) -> CursorPositions | None:
    end = await ledger_end(bookies, ledger)
    if end.last_stored < 0:
        return None
    entry = await read_entry(bookies, ledger, end.last_stored)
    return parse_positions(f"entry {ledger.ledger}:{end.last_stored}", entry.payload)


class EntryCount:
    """Counts the entries of a topic, given its ledgers as (id, entries) in order."""

    def __init__(self, ledgers: Sequence[tuple[int, int]]) -> None:
        self._ledgers = [ledger for ledger, _ in ledgers]
        self._counts: Mapping[int, int] = dict(ledgers)
        self._before = [0]
        for _, entries in ledgers:
            self._before.append(self._before[-1] + entries)

    @property
    def total(self) -> int:
        """The number of entries."""
        return self._before[-1]

    def up_to(self, position: Position) -> int:
        """The number of entries up to and including a position, which may be in a deleted
        ledger.
        """
        at = bisect_left(self._ledgers, position.ledger_id)
        if at == len(self._ledgers) or self._ledgers[at] != position.ledger_id:
            return self._before[at]
        entries = self._counts[position.ledger_id]
        return self._before[at] + min(max(position.entry_id + 1, 0), entries)

    def acknowledged(self, positions: CursorPositions) -> int:
        """The number of entries after the mark-delete position that are acknowledged."""
        marked = self.up_to(positions.mark_delete)
        found = sum(
            max(0, self.up_to(last) - max(self.up_to(before), marked))
            for before, last in positions.ranges
        )
        for ledger, words in positions.bits:
            bits = bits_of(words)
            first = max(0, marked - self.up_to(Position(ledger, -1)))
            bits &= (1 << self._counts.get(ledger, 0)) - 1
            found += (bits >> first).bit_count()
        return found

    def backlog(self, positions: CursorPositions) -> int:
        """The number of entries that a cursor has not acknowledged."""
        after = self.total - self.up_to(positions.mark_delete)
        return max(0, after - self.acknowledged(positions))
