"""A small file beside a ledger that is being written: up to which entry it was committed.

No write waits for it and nothing is lost without it. With it a recovery notices that stored entries
are missing at the end of a ledger; without it they would look like a group that was never finished.
It is not synced: it survives a killed process, and after a power failure it may be old, so that
fewer missing entries are noticed.
"""

import os
import struct
from pathlib import Path
from typing import NamedTuple

from crc32c import crc32c

from counterpoise.storage.files.disk import LedgerDisk, read_file, write_all

_NOTE = struct.Struct(">8sQQI")
_MAGIC = b"CPCOMMIT"
_PREFIX = "committed-"


class Committed(NamedTuple):
    """The content of that file: the first ``entries`` entries of the ledger were on disk."""

    ledger_id: int
    entries: int


def note(directory: Path, epoch: int, committed: Committed, disk: LedgerDisk) -> None:
    """Overwrite the file for the owner of ``epoch``; raises `OSError`."""
    descriptor = disk.open(_path(directory, epoch), os.O_WRONLY | os.O_CREAT)
    try:
        write_all(disk, descriptor, [_packed(committed)], 0)
    finally:
        disk.close(descriptor)


def noted(directory: Path, epoch: int, disk: LedgerDisk) -> Committed | None:
    """Read the file of the owner of ``epoch``; None if there is none or it is damaged."""
    try:
        content = read_file(disk, _path(directory, epoch))
        _, ledger_id, entries, _ = _NOTE.unpack(content)
    except (FileNotFoundError, struct.error):
        return None
    found = Committed(ledger_id, entries)
    return found if _packed(found) == content else None


def remove_before(directory: Path, epoch: int, disk: LedgerDisk) -> None:
    """Delete the files of former owners, those of epochs before this one."""
    for path in list(directory.glob(_PREFIX + "*")):
        if path.name < f"{_PREFIX}{epoch:016x}":
            disk.remove(path)


def _path(directory: Path, epoch: int) -> Path:
    return directory / f"{_PREFIX}{epoch:016x}"


def _packed(committed: Committed) -> bytes:
    head = _NOTE.pack(_MAGIC, *committed, 0)
    return _NOTE.pack(_MAGIC, *committed, crc32c(head))
