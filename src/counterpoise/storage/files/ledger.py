"""One ledger's file: written at its end by its owner, read by entry id, scanned after a crash."""

from __future__ import annotations

import contextlib
import os
import threading
from bisect import bisect_right
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path

from counterpoise.storage.files.record import (
    FILE_HEADER_SIZE,
    HEADER_SIZE,
    decode,
    file_header,
    is_file_header,
    record_size,
)
from counterpoise.storage.port import CorruptLedgerError

_MARK_EVERY = 64
_WINDOW = 1 << 20
_PIECES_MAX = os.sysconf("SC_IOV_MAX")
_SYNCED_AT_ONCE = 1 << 20
_FLOOD = 256 * 1024
"""A group this large comes from a flood, which would fill the page cache with what consumers get
from the broker's own cache; finding new pages for it was seen to cost more than writing them."""
_PAGE = os.sysconf("SC_PAGE_SIZE")
_DSYNC = getattr(os, "RWF_DSYNC", 0)
_sync = getattr(os, "fdatasync", os.fsync)


class Descriptors:
    """How many files are held open for writing, over all logs of a store."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._count = 0
        self._lock = threading.Lock()

    @property
    def crowded(self) -> bool:
        """Whether a file is better closed after each write than kept open."""
        return self._count > self._limit

    def add(self, change: int) -> None:
        """One more (+1) or one less (-1)."""
        with self._lock:
            self._count += change


class LedgerFile:
    """A ledger's path, and where in the file some of its entries begin (``_marks``)."""

    __slots__ = ("_descriptor", "_lock", "_marks", "_open", "ledger_id", "path", "written")

    def __init__(self, path: Path, ledger_id: int, descriptors: Descriptors | None = None) -> None:
        """``descriptors`` is needed for writing only."""
        self.path = path
        self.ledger_id = ledger_id
        self.written = 0
        self._open = descriptors or Descriptors(0)
        self._descriptor = -1
        self._marks = [(0, FILE_HEADER_SIZE)]
        self._lock = threading.Lock()

    # --- writing: one thread at a time --------------------------------------------------

    def write(self, pieces: Sequence[bytes]) -> int:
        """Append records, wait until they are on disk; returns the offset of the first.

        Creates the file the first time.
        """
        if self._descriptor < 0:
            self._open_for_writing()
        start = self.written
        # One call saves a thread that a busy loop keeps waiting; a large write that is to be synced
        # at once was seen to take four times as long as one that is synced after.
        size = sum(map(len, pieces))
        at_once = size <= _SYNCED_AT_ONCE and len(pieces) <= _PIECES_MAX
        flags = _DSYNC if at_once else 0
        for at in range(0, len(pieces), _PIECES_MAX):
            self._write_all(pieces[at : at + _PIECES_MAX], flags)
        if not flags:
            _sync(self._descriptor)
        if size >= _FLOOD:
            _let_go(self._descriptor, start, self.written)
        if self._open.crowded:
            self.close()
        return start

    def _write_all(self, pieces: Sequence[bytes], flags: int) -> None:
        left: Sequence[bytes | memoryview] = pieces
        while left:
            done = os.pwritev(self._descriptor, left, self.written, flags)
            self.written += done
            left = _without(left, done)

    def _open_for_writing(self) -> None:
        flags = os.O_WRONLY | os.O_CLOEXEC
        if self.written:
            self._descriptor = os.open(self.path, flags)
            self._open.add(1)
            return
        self._descriptor = os.open(self.path, flags | os.O_CREAT | os.O_EXCL, 0o644)
        self._open.add(1)
        header = file_header(self.ledger_id)
        os.pwrite(self._descriptor, header, 0)
        self.written = len(header)
        sync_directory(self.path.parent)

    def close(self) -> None:
        """Let go of the file descriptor; writing opens it again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self._open.add(-1)

    def mark(self, entry_id: int, offset: int) -> None:
        """Remember where an entry begins, if the last mark is far enough back."""
        with self._lock:
            if entry_id - self._marks[-1][0] >= _MARK_EVERY:
                self._marks.append((entry_id, offset))

    # --- reading: any thread ------------------------------------------------------------

    def scan(self) -> tuple[int, int, int]:
        """Count the sound entries from the start: (entries, their bytes, bytes cut off).

        The bytes cut off are the torn tail of a crash: never acknowledged, never to be served.
        """
        total = self.path.stat().st_size
        entries, size = 0, 0
        with self.path.open("rb") as file:
            data, at, base = file.read(_WINDOW), FILE_HEADER_SIZE, 0
            if not is_file_header(data, self.ledger_id):
                return 0, 0, total
            while True:
                for entry, _, after in decode(data, at, entries):
                    self.mark(entries, base + at)
                    entries, size, at = entries + 1, size + len(entry), after
                # The window ended inside a record, or the record is no good: with the record in
                # the window as a whole it is the latter.
                base, at = base + at, 0
                file.seek(base)
                data = file.read(_WINDOW)
                needed = record_size(data, 0)
                if needed is None or base + needed > total:
                    return entries, size, total - base
                if needed > len(data):
                    data += file.read(needed - len(data))
                if next(decode(data, 0, entries), None) is None:
                    return entries, size, total - base

    def read(self, entry_id: int, limit: int, max_bytes: int) -> tuple[list[bytes], list[int]]:
        """Entries from ``entry_id`` to below ``limit``: at least one, about ``max_bytes``."""
        entries: list[bytes] = []
        messages: list[int] = []
        left = max_bytes
        with self.path.open("rb") as file:
            at, offset = self._seek(file.fileno(), entry_id)
            while at < limit and left > 0:
                data = _window(file.fileno(), offset)
                before = at
                for entry, count, after in decode(data, 0, at):
                    entries.append(entry)
                    messages.append(count)
                    at, left, end = at + 1, left - len(entry), after
                    if at >= limit or left <= 0:
                        break
                if at == before:
                    raise CorruptLedgerError(
                        f"{self.path}: entry {at} does not match its checksum, {limit} are expected"
                    )
                offset += end
        return entries, messages

    def _seek(self, descriptor: int, entry_id: int) -> tuple[int, int]:
        """The entry's id and offset: from the nearest mark on, header by header."""
        at, offset = self._marks[bisect_right(self._marks, entry_id, key=itemgetter(0)) - 1]
        while at < entry_id:
            data, inside = os.pread(descriptor, _WINDOW, offset), 0
            while at < entry_id:
                size = record_size(data, inside)
                if size is None:
                    break
                at, inside = at + 1, inside + size
                self.mark(at, offset + inside)
            if not inside:
                raise CorruptLedgerError(f"{self.path}: ends before entry {entry_id}")
            offset += inside
        return at, offset


def _without(pieces: Sequence[bytes | memoryview], done: int) -> list[bytes | memoryview]:
    """The pieces after their first ``done`` bytes."""
    left: list[bytes | memoryview] = []
    for piece in pieces:
        if done < len(piece):
            left.append(memoryview(piece)[done:] if done else piece)
        done = max(0, done - len(piece))
    return left


def _let_go(descriptor: int, start: int, end: int) -> None:
    """Take what was written out of the system's page cache, whole pages only.

    Advice: where it is not taken, the write is on the disk all the same.
    """
    if hasattr(os, "posix_fadvise"):
        start, end = start // _PAGE * _PAGE, end // _PAGE * _PAGE
        with contextlib.suppress(OSError):
            os.posix_fadvise(descriptor, start, end - start, os.POSIX_FADV_DONTNEED)


def _window(descriptor: int, offset: int) -> bytes:
    """Bytes from ``offset`` on that hold at least one whole record, if the file does."""
    data = os.pread(descriptor, _WINDOW, offset)
    size = record_size(data, 0) if len(data) >= HEADER_SIZE else None
    if size is not None and size > len(data):
        data = os.pread(descriptor, size, offset)
    return data


def sync_directory(path: Path) -> None:
    """Make new and renamed names in a directory survive a crash."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
