"""The bytes of a ledger file: a header, then records that prove themselves.

A record is its entry's length, a CRC-32C, the number of messages, and the entry. The checksum is
seeded with the entry id and the number of messages, so a record at the wrong place or with a
damaged header does not match either. Entries are never empty, so a stretch of zeros is no record.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from crc32c import crc32c

_HEADER = struct.Struct(">III")
_MAGIC = b"CPLEDGR1"
_FILE_HEADER = struct.Struct(">8sQ")
_MASK = 0xFFFFFFFF
_SPREAD = 0x9E3779B1
_LARGE = 8 * 1024

HEADER_SIZE = _HEADER.size
FILE_HEADER_SIZE = _FILE_HEADER.size


def file_header(ledger_id: int) -> bytes:
    """The first bytes of a ledger's file."""
    return _FILE_HEADER.pack(_MAGIC, ledger_id)


def is_file_header(data: bytes, ledger_id: int) -> bool:
    """Whether the file begins as this ledger's must."""
    return data[:FILE_HEADER_SIZE] == file_header(ledger_id)


def encode(entries: Sequence[bytes], messages: Sequence[int], first_entry: int) -> list[bytes]:
    """Records of consecutive entries, in pieces to be written one after the other.

    Small entries are copied together, since a piece costs more than the copy; large ones are not.
    """
    pack = _HEADER.pack
    pieces: list[bytes] = []
    run: list[bytes] = []
    for entry_id, (entry, count) in enumerate(zip(entries, messages, strict=True), first_entry):
        seed = (entry_id * _SPREAD ^ count) & _MASK
        run.append(pack(len(entry), crc32c(entry, seed), count))
        if len(entry) < _LARGE:
            run.append(entry)
        else:
            pieces += (b"".join(run), entry)
            run.clear()
    if run:
        pieces.append(b"".join(run))
    return pieces


def record_size(data: bytes, at: int) -> int | None:
    """Bytes of the record that begins at ``at``, by its header; None if the header is cut."""
    if len(data) - at < HEADER_SIZE:
        return None
    return HEADER_SIZE + int.from_bytes(data[at : at + 4], "big")


def decode(data: bytes, at: int, entry_id: int) -> Iterator[tuple[bytes, int, int]]:
    """Whole and sound records from ``at`` on: (entry, messages, offset after it).

    Ends at the first record that is cut off or does not match; the caller knows which of the two
    it may be.
    """
    unpack, end = _HEADER.unpack_from, len(data)
    while at + HEADER_SIZE <= end:
        size, checksum, messages = unpack(data, at)
        start = at + HEADER_SIZE
        at = start + size
        if not size or at > end:
            return
        entry = data[start:at]
        if crc32c(entry, (entry_id * _SPREAD ^ messages) & _MASK) != checksum:
            return
        yield entry, messages, at
        entry_id += 1
