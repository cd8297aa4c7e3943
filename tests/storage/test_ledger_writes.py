"""A write returns when all of it is on the disk, whatever the disk is like."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from counterpoise.storage.files.disk import LedgerDisk
from counterpoise.storage.files.ledger import LedgerFile
from counterpoise.storage.files.record import FILE_HEADER_SIZE
from tests.storage.ledgers import MARKER, seven


class Reluctant(LedgerDisk):
    """Takes only so many bytes at once."""

    def __init__(self, at_once: int) -> None:
        self.at_once = at_once

    def write(
        self,
        descriptor: int,
        pieces: Sequence[bytes | memoryview],
        offset: int,
        *,
        synced: bool = False,
    ) -> int:
        taken, left = [], self.at_once
        for piece in pieces:
            taken.append(piece[:left])
            left -= len(taken[-1])
        return super().write(descriptor, taken, offset, synced=synced)


@pytest.mark.parametrize("at_once", [7, 700, 100_000], ids="{} B at once".format)
def test_a_disk_that_takes_less_than_it_is_given(tmp_path: Path, at_once: int) -> None:
    """Small entries are written together and large ones by themselves; all must come out whole."""
    entries = [os.urandom(n) for n in (1, 8 * 1024 - 1, 8 * 1024, 2, 3, 9_000, 9_001, 4)]
    if at_once > 700:
        entries *= 600  # more pieces than one call may have
    file = LedgerFile(tmp_path / "x.ledger", 7, MARKER, Reluctant(at_once))
    counts = [1] * len(entries)
    assert file.write(file.encode(entries[:3], counts[:3], 0)) == FILE_HEADER_SIZE
    file.write(file.encode(entries[3:], counts[3:], 3))
    assert file.read(0, len(entries), 1 << 30).entries == entries


class Watched(LedgerDisk):
    """Knows which files have writes that were not synced."""

    def __init__(self) -> None:
        self.unsynced: set[int] = set()

    def write(
        self,
        descriptor: int,
        pieces: Sequence[bytes | memoryview],
        offset: int,
        *,
        synced: bool = False,
    ) -> int:
        if not (synced and self.syncs_writes):
            self.unsynced.add(descriptor)
        return super().write(descriptor, pieces, offset, synced=synced)

    def sync(self, descriptor: int) -> None:
        super().sync(descriptor)
        self.unsynced.discard(descriptor)


@pytest.mark.parametrize("syncs_writes", [True, False])
@pytest.mark.parametrize(
    "entries", [[b"small"], [b"x" * 300_000] * 4, [b"x" * 9_000] * 600], ids=["one", "MBs", "many"]
)
def test_a_write_returns_when_all_of_it_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: list[bytes], syncs_writes: bool
) -> None:
    monkeypatch.setattr(LedgerDisk, "syncs_writes", syncs_writes and LedgerDisk().syncs_writes)
    disk = Watched()
    file = LedgerFile(tmp_path / "x.ledger", 7, MARKER, disk)
    file.write([])
    for _ in range(2):
        disk.unsynced.clear()  # the file's head may go with the first records
        file.write(file.encode(entries, [1] * len(entries), 0))
        assert not disk.unsynced


def test_a_file_system_that_takes_no_advice_still_has_the_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, "no advice")

    monkeypatch.setattr(os, "posix_fadvise", refuse)
    file = seven(tmp_path / "x.ledger")
    flood = [os.urandom(300_000)]
    file.write(file.encode(flood, [1], 0))
    assert file.read(0, 1, 1).entries == flood


def test_a_read_goes_on_where_the_system_returned_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = os.pread
    monkeypatch.setattr(os, "pread", lambda at, size, begin: whole(at, min(size, 3), begin))
    (tmp_path / "x").write_bytes(b"0123456789")
    disk = LedgerDisk()
    descriptor = disk.open(tmp_path / "x", os.O_RDONLY)
    assert (disk.read(descriptor, 8, 1), disk.read(descriptor, 8, 4)) == (b"12345678", b"456789")
    disk.close(descriptor)


def test_a_directory_that_cannot_be_synced_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []

    def refuse(descriptor: int) -> None:
        synced.append(descriptor)
        raise OSError(errno.EIO, "no sync")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="no sync"):
        LedgerDisk().sync_directory(tmp_path)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(synced[0])
