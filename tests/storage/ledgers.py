"""A ledger's file as it should be, and a log whose owner died."""

import struct
from pathlib import Path

from crc32c import crc32c

from counterpoise.storage.files import committed, state
from counterpoise.storage.files.disk import LedgerDisk
from counterpoise.storage.files.ledger import LedgerFile
from counterpoise.storage.files.record import FILE_HEADER_SIZE, MarkedFormat
from counterpoise.storage.files.store import FileLedgerStore
from tests.storage.conftest import Heard, write
from tests.waiting import until

NAME = "t/n/persistent/x"

ENTRIES = [b"first", b"s" * 40, b"3", b"the last entry"]

MESSAGES = [1, 12, 1, 3]

MARKER = b"\x81marker\x82"

SEVEN = MarkedFormat(7, MARKER)


def records(
    entries: list[bytes], messages: list[int], first_entry: int, kind: MarkedFormat = SEVEN
) -> bytes:
    """One group."""
    return b"".join(kind.encode(entries, messages, first_entry))


def ledger_bytes() -> bytes:
    """Four groups of one entry each."""
    return SEVEN.file_header() + b"".join(
        records([entry], [count], n)
        for n, (entry, count) in enumerate(zip(ENTRIES, MESSAGES, strict=True))
    )


def seven(path: Path, marker: bytes = MARKER) -> LedgerFile:
    return LedgerFile(path, 7, marker)


def ends() -> list[int]:
    """Where each record ends."""
    return [
        FILE_HEADER_SIZE + len(records(ENTRIES[: n + 1], MESSAGES[: n + 1], 0))
        for n in range(len(ENTRIES))
    ]


def old_ledger(entries: list[bytes]) -> bytes:
    """As ledgers were written before records had markers."""
    made = [b"CPLEDGR1" + (7).to_bytes(8, "big")]
    for entry_id, entry in enumerate(entries):
        checksum = crc32c(entry, entry_id * 0x9E3779B1 & 0xFFFFFFFF ^ 1)
        made.append(struct.pack(">III", len(entry), checksum, 1) + entry)
    return b"".join(made)


async def crashed(root: Path, entries: list[bytes]) -> Path:
    """A log whose owner died after these entries; returns its only ledger's file."""
    store, heard = FileLedgerStore(root), Heard()
    log = await store.open(NAME, "dead", heard)
    await write(log, heard, *entries)
    await log.flush()
    await store.close()
    (ledger,) = (root / NAME).glob("*.ledger")
    return ledger


async def noted(root: Path, entries: int) -> None:
    """Wait until it is noted that so many were committed."""

    def is_noted() -> bool:
        (epoch,) = state.epochs(root / NAME)
        note = committed.noted(root / NAME, epoch, LedgerDisk())
        return note is not None and note.entries == entries

    await until(is_noted, f"{entries} entries are noted")
