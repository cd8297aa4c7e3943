"""The bytes of a ledger file: a header, then records that can be verified, and found after damage.

A record is a *marker* of eight bytes, the entry's length, its number of messages, its id, how many
records of its group come before it, a CRC-32C, and the entry. The checksum is seeded with all of
the record's header and the ledger's id, so that a record at the wrong place does not match either.

The marker is random for each log and never leaves the disk. So a record is found again after a
damaged one: neither a client's messages nor a run of zeros can look like the beginning of a record.

A group is written only when the one before it is on disk. So the number of earlier records in its
group shows which entries were durable when a record was written: all before the group's first.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from crc32c import crc32c

_HEADER = struct.Struct(">8sIIIII")
_MAGIC = b"CPLEDGR2"
_FILE_HEADER = struct.Struct(">8sQ8sI4x")
_MASK = 0xFFFFFFFF
_LARGE = 8 * 1024
_HOLD_GIL = 0
"""The argument by which `crc32c` keeps the interpreter lock even for large entries: a checksum
takes microseconds, getting the lock back from a thread that writes takes longer."""
# Odd numbers: multiplying by one of them modulo 2**32 maps different values to different ones.
_BY_ENTRY, _BY_MESSAGES, _BY_PLACE, _BY_LEDGER = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F

HEADER_SIZE = _HEADER.size
FILE_HEADER_SIZE = _FILE_HEADER.size
MARKER_SIZE = 8


class LedgerRecord(NamedTuple):
    """One undamaged record of a ledger file.

    ``stored``: how many entries of the ledger were on disk when it was written.
    """

    entry_id: int
    messages: int
    entry: bytes
    stored: int
    after: int
    """The offset after this record in the decoded bytes."""


class Format(Protocol):
    """How the records of a ledger's file are found and decoded, in one version of the format."""

    header_size: int
    """Bytes of a record before its entry."""
    file_header_size: int
    overlap: int
    """How many bytes at the end of a searched window are searched again with the next one, because
    a record may begin in them."""
    can_hop: bool
    """Whether a record can be recognised by its header alone, so that entries need not be read."""

    def size(self, data: bytes, at: int) -> int | None:
        """Bytes of the record at ``at``, by its header; None if the header is cut off."""

    def entry_id(self, data: bytes, at: int) -> int | None:
        """The id of the entry whose record starts at ``at``; None if none does."""

    def decode(self, data: bytes, at: int, entry_id: int) -> Iterator[LedgerRecord]:
        """Yield the complete, undamaged records from ``at`` on; the first must have this id.

        Ends at the first one that is cut off or does not match.
        """

    def find(self, data: bytes, at: int, entry_id: int) -> tuple[int, int] | None:
        """Find what may be the record of ``entry_id`` or a later entry; returns (offset, entry
        id).
        """


class MarkedFormat:
    """The format that is written now: each record begins with the log's marker, by which a reader
    finds the next record after a damaged one.
    """

    __slots__ = ("_seed", "ledger_id", "marker")

    header_size = HEADER_SIZE
    file_header_size = FILE_HEADER_SIZE
    overlap = HEADER_SIZE
    can_hop = True

    def __init__(self, ledger_id: int, marker: bytes) -> None:
        self.ledger_id = ledger_id
        self.marker = marker
        self._seed = ledger_id * _BY_LEDGER & _MASK

    def file_header(self) -> bytes:
        """The first bytes of the ledger's file."""
        head = _FILE_HEADER.pack(_MAGIC, self.ledger_id, self.marker, 0)
        return _FILE_HEADER.pack(_MAGIC, self.ledger_id, self.marker, crc32c(head))

    def encode(
        self, entries: Sequence[bytes], messages: Sequence[int], first_entry: int
    ) -> list[bytes]:
        """Records of one group, in pieces to be written one after the other.

        Small entries are copied together, since a piece costs more than the copy; large ones are
        not.
        """
        pack, marker, checksum_of = _HEADER.pack, self.marker, crc32c
        pieces: list[bytes] = []
        run: list[bytes] = []
        add = run.append
        # Id and place grow by one with each entry, so their share of the checksum's seed grows by a
        # fixed step. The share of the number of messages is computed only where that number
        # changes.
        many, step = len(entries), _BY_ENTRY + _BY_PLACE
        start = (first_entry * _BY_ENTRY + self._seed) & _MASK
        ids = range(first_entry, first_entry + many)
        mixes = range(start, start + many * step, step)
        former, by_messages = 0, 0
        for entry, count, entry_id, place, mixed in zip(
            entries, messages, ids, range(many), mixes, strict=True
        ):
            if count != former:
                former, by_messages = count, count * _BY_MESSAGES
            size = len(entry)
            checksum = checksum_of(entry, (mixed ^ by_messages) & _MASK, _HOLD_GIL)
            add(pack(marker, size, count, entry_id, place, checksum))
            if size < _LARGE:
                add(entry)
            else:
                pieces += (b"".join(run), entry)
                run.clear()
        if run:
            pieces.append(b"".join(run))
        return pieces

    def size(self, data: bytes, at: int) -> int | None:
        """Bytes of the record at ``at``, by its header; None if that is cut off or not there."""
        if self.entry_id(data, at) is None:
            return None
        return HEADER_SIZE + int.from_bytes(data[at + 8 : at + 12], "big")

    def entry_id(self, data: bytes, at: int) -> int | None:
        """The id of the entry whose record starts at ``at``; None if none does."""
        if data[at : at + MARKER_SIZE] != self.marker or len(data) - at < HEADER_SIZE:
            return None
        return int.from_bytes(data[at + 16 : at + 20], "big")

    def decode(self, data: bytes, at: int, entry_id: int) -> Iterator[LedgerRecord]:
        """Yield the complete, undamaged records from ``at`` on; the first must have this id."""
        unpack, end, marker, seed = _HEADER.unpack_from, len(data), self.marker, self._seed
        while at + HEADER_SIZE <= end:
            found, size, count, stored_id, place, checksum = unpack(data, at)
            start = at + HEADER_SIZE
            at = start + size
            if found != marker or stored_id != entry_id or not size or at > end:
                return
            entry = data[start:at]
            mixed = entry_id * _BY_ENTRY + place * _BY_PLACE + seed
            if crc32c(entry, (mixed ^ count * _BY_MESSAGES) & _MASK) != checksum:
                return
            yield LedgerRecord(entry_id, count, entry, entry_id - place, at)
            entry_id += 1

    def find(self, data: bytes, at: int, entry_id: int) -> tuple[int, int] | None:
        """Find what may be the record of ``entry_id`` or a later entry; returns (offset, entry
        id).
        """
        while (at := data.find(self.marker, at)) >= 0:
            found = self.entry_id(data, at)
            if found is not None and found >= entry_id:
                return at, found
            at += 1
        return None


def format_of(header: bytes, ledger_id: int) -> Format | None:
    """The format that a file's first bytes name; None if they are damaged."""
    if header[:8] == _MAGIC and len(header) >= FILE_HEADER_SIZE:
        made = MarkedFormat(ledger_id, header[16:24])
        return made if header[:FILE_HEADER_SIZE] == made.file_header() else None
    if OldFormat.owns(header, ledger_id):
        return OldFormat()
    return None


class OldFormat:
    """The format of ledgers from before there were markers; only read.

    A record is length, checksum, number of messages and entry. After a damaged record the next one
    is searched for by trial.
    """

    header_size = 12
    file_header_size = 16
    overlap = 1 << 19
    can_hop = False
    _header = struct.Struct(">III")
    _lost_at_most = 64

    @staticmethod
    def owns(header: bytes, ledger_id: int) -> bool:
        """Whether a file begins with the header of this ledger."""
        return header[:16] == struct.pack(">8sQ", b"CPLEDGR1", ledger_id)

    def size(self, data: bytes, at: int) -> int | None:
        """Bytes of the record at ``at``, by its header; None if the header is cut off."""
        if len(data) - at < self.header_size:
            return None
        return self.header_size + int.from_bytes(data[at : at + 4], "big")

    def entry_id(self, data: bytes, at: int) -> int | None:
        """The id of the entry whose record starts at ``at``; None if none does."""
        return None

    def decode(self, data: bytes, at: int, entry_id: int) -> Iterator[LedgerRecord]:
        """Yield the complete, undamaged records from ``at`` on; the first must have this id."""
        while at + self.header_size <= len(data):
            size, checksum, messages = self._header.unpack_from(data, at)
            start = at + self.header_size
            at = start + size
            if not size or at > len(data):
                return
            entry = data[start:at]
            if crc32c(entry, (entry_id * _BY_ENTRY ^ messages) & _MASK) != checksum:
                return
            # Nothing says which entries shared a group: each counts as one of its own.
            yield LedgerRecord(entry_id, messages, entry, entry_id, at)
            entry_id += 1

    def find(self, data: bytes, at: int, entry_id: int) -> tuple[int, int] | None:
        """Find what may be the record of ``entry_id`` or a later entry; returns (offset, entry
        id).
        """
        for start in range(at, len(data) - self.header_size):
            size, checksum, messages = self._header.unpack_from(data, start)
            end = start + self.header_size + size
            if not size or end > len(data):
                continue
            entry = data[start + self.header_size : end]
            for found in range(entry_id, entry_id + self._lost_at_most):
                if crc32c(entry, (found * _BY_ENTRY ^ messages) & _MASK) == checksum:
                    return start, found
        return None
