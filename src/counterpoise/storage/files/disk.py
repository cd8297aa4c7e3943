"""The system calls by which file ledgers access the disk, in one class that tests can replace.

Tests substitute a disk that fails, is full, does not respond, or writes fewer bytes than it is
given.
"""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

_DSYNC = getattr(os, "RWF_DSYNC", 0)
_sync = getattr(os, "fdatasync", os.fsync)
_PAGE = os.sysconf("SC_PAGE_SIZE")


class LedgerDisk:
    """Access to the operating system's files. Every method blocks and may raise `OSError`."""

    def open(self, path: str | Path, flags: int) -> int:
        """Open a file and return its descriptor; a file that it creates can be read by everyone."""
        return os.open(path, flags | os.O_CLOEXEC, 0o644)

    def close(self, descriptor: int) -> None:
        """Close a descriptor."""
        os.close(descriptor)

    def read(self, descriptor: int, size: int, offset: int) -> bytes:
        """Bytes from ``offset`` on; fewer than ``size`` only at the end of the file."""
        data = os.pread(descriptor, size, offset)
        while data and len(data) < size:
            more = os.pread(descriptor, size - len(data), offset + len(data))
            if not more:
                break
            data += more
        return data

    def first(self, path: str | Path, size: int) -> bytes:
        """The first bytes (less than a page) of a file.

        Opens the file again, which makes a network file system ask its server.
        """
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(descriptor, size)
        finally:
            os.close(descriptor)

    def write(
        self,
        descriptor: int,
        pieces: Sequence[bytes | memoryview],
        offset: int,
        *,
        synced: bool = False,
    ) -> int:
        """Write pieces one after the other; returns how many bytes were written.

        ``synced``: return only when they are on disk, where one system call can do both (see
        `syncs_writes`).
        """
        return os.pwritev(descriptor, pieces, offset, _DSYNC if synced else 0)

    @property
    def syncs_writes(self) -> bool:
        """Whether `write` supports ``synced``."""
        return bool(_DSYNC)

    def sync(self, descriptor: int) -> None:
        """Wait until everything written is on disk."""
        _sync(descriptor)

    def sync_directory(self, path: Path) -> None:
        """Make created and removed names in a directory survive a crash."""
        descriptor = self.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            self.close(descriptor)

    def size(self, descriptor: int) -> int:
        """The size of an open file in bytes."""
        return os.fstat(descriptor).st_size

    def drop_cached(self, descriptor: int, start: int, end: int) -> None:
        """Drop whole pages of a range from the page cache; ``end`` 0 means the end of the file.

        This is advice that the system may ignore.
        """
        if hasattr(os, "posix_fadvise"):
            start, end = start // _PAGE * _PAGE, end // _PAGE * _PAGE
            with contextlib.suppress(OSError):
                os.posix_fadvise(descriptor, start, max(end - start, 0), os.POSIX_FADV_DONTNEED)

    def remove(self, path: Path) -> None:
        """Remove a file if it exists."""
        path.unlink(missing_ok=True)


def read_file(disk: LedgerDisk, path: Path) -> bytes:
    """The content of a small file."""
    descriptor = disk.open(path, os.O_RDONLY)
    try:
        return disk.read(descriptor, disk.size(descriptor), 0)
    finally:
        disk.close(descriptor)


def write_all(
    disk: LedgerDisk, descriptor: int, pieces: Sequence[bytes], offset: int, *, synced: bool = False
) -> int:
    """Write all pieces from ``offset`` on, in as many calls as that takes; returns the offset after
    them.
    """
    left: Sequence[bytes | memoryview] = pieces
    while left:
        done = disk.write(descriptor, left, offset, synced=synced)
        if not done:
            raise OSError("the disk took nothing of a write")
        offset += done
        left = _without(left, done)
    return offset


def _without(pieces: Sequence[bytes | memoryview], done: int) -> list[bytes | memoryview]:
    """The pieces without their first ``done`` bytes."""
    left: list[bytes | memoryview] = []
    for piece in pieces:
        if done < len(piece):
            left.append(memoryview(piece)[done:] if done else piece)
        done = max(0, done - len(piece))
    return left
