"""The file of one ledger: its owner appends, readers read by entry id, a recovery scans it."""

import os
import threading
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

from counterpoise.storage.files.disk import LedgerDisk, write_all
from counterpoise.storage.files.record import (
    FILE_HEADER_SIZE,
    MARKER_SIZE,
    Format,
    MarkedFormat,
    OldFormat,
    format_of,
)
from counterpoise.storage.files.walk import WINDOW, Place, ReadAt, Walker, nearer

_MARK_EVERY = 64
_PIECES_MAX = os.sysconf("SC_IOV_MAX")
_SYNCED_AT_ONCE = 1 << 20
_FLOOD = 256 * 1024
"""Groups of at least this many bytes are dropped from the page cache once they are written. At such
rates they would fill it, though consumers are served from the broker's own cache, and finding free
pages was measured to cost more than the writes."""

_DISK = LedgerDisk()


class Descriptors:
    """Counts the files that are open for writing, over all logs of a store."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._count = 0
        self._lock = threading.Lock()

    @property
    def crowded(self) -> bool:
        """Whether so many files are open that each should be closed after its write."""
        return self._count > self._limit

    def add(self, change: int) -> None:
        """Change the number of open files, by 1 or -1."""
        with self._lock:
            self._count += change


@dataclass(frozen=True, slots=True)
class Scan:
    """The result of reading a ledger's file: ``entries`` in all, of which the ``lost`` ranges are
    damaged.

    ``size``: bytes of the undamaged ones. ``stored``: how many entries are known to have been on
    disk, so that they may have been acknowledged; whether later lost ones were is unknown.
    ``torn``: bytes of an unfinished group at the end, which was never acknowledged and must never
    be served.
    """

    entries: int
    size: int
    lost: tuple[tuple[int, int], ...] = ()
    stored: int = 0
    torn: int = 0


@dataclass(frozen=True, slots=True)
class Piece:
    """The result of a read: consecutive entries, or the range that is lost in their place."""

    entries: list[bytes]
    messages: list[int]
    lost: tuple[int, int] | None = None


class LedgerFile:
    """The file of one ledger. It remembers the offsets of some entries, to find others quickly."""

    __slots__ = (
        "_descriptor",
        "_disk",
        "_format",
        "_lock",
        "_marks",
        "_open",
        "_records",
        "ledger_id",
        "path",
        "written",
    )

    def __init__(
        self,
        path: Path,
        ledger_id: int,
        marker: bytes = b"",
        disk: LedgerDisk = _DISK,
        descriptors: Descriptors | None = None,
    ) -> None:
        """``marker``: the bytes that begin each record of the log; needed to write, and to read a
        file whose header is damaged.

        ``descriptors`` is needed only to write.
        """
        self.path = path
        self.ledger_id = ledger_id
        self.written = 0
        self._disk = disk
        self._open = descriptors or Descriptors(0)
        self._descriptor = -1
        self._records = MarkedFormat(ledger_id, marker)
        """The format in which this object writes, and the one in which the file is read, which is
        known once its header has been read."""
        self._format: Format | None = None
        self._marks: list[Place] = []
        self._lock = threading.Lock()

    # --- writing: one thread at a time --------------------------------------------------

    def encode(
        self, entries: Sequence[bytes], messages: Sequence[int], first_entry: int
    ) -> list[bytes]:
        """The records of one group, to pass to `write`."""
        return self._records.encode(entries, messages, first_entry)

    def write(self, pieces: Sequence[bytes]) -> int:
        """Append records and wait until they are on disk; returns the first one's offset.

        Creates the file the first time. After an error it is unknown what the file holds beyond
        what was written before: it must not be written again.
        """
        if self._descriptor < 0:
            self._open_for_writing()
        start = self.written
        # A small group is written and synced by one system call, because after each call this
        # thread waits for the interpreter while the loop is busy. A large one is synced separately:
        # one call for both was measured to take four times as long.
        size = sum(map(len, pieces))
        at_once = size <= _SYNCED_AT_ONCE and len(pieces) <= _PIECES_MAX and self._disk.syncs_writes
        for at in range(0, len(pieces), _PIECES_MAX):
            part = pieces[at : at + _PIECES_MAX]
            self.written = write_all(
                self._disk, self._descriptor, part, self.written, synced=at_once
            )
        if not at_once:
            self._disk.sync(self._descriptor)
        if size >= _FLOOD:
            self._disk.drop_cached(self._descriptor, start, self.written)
        if self._open.crowded:
            self.close()
        return start

    def _open_for_writing(self) -> None:
        if self.written:
            self._descriptor = self._disk.open(self.path, os.O_WRONLY)
            self._open.add(1)
            return
        self.create()
        self._disk.sync_directory(self.path.parent)

    def create(self) -> None:
        """Create the empty file; its name is on disk once its directory is synced."""
        self._descriptor = self._disk.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        self._open.add(1)
        self._format = self._records
        try:
            self.written = write_all(self._disk, self._descriptor, [self._records.file_header()], 0)
        except OSError:
            self.close()
            self._disk.remove(self.path)
            raise

    def close(self) -> None:
        """Close the file descriptor; writing opens it again."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            self._open.add(-1)
            self._disk.close(descriptor)

    def mark(self, entry_id: int, offset: int) -> None:
        """Remember an entry's offset in the file, unless that of a nearby entry is known."""
        marks = self._marks
        if marks and 0 <= entry_id - marks[-1].entry_id < _MARK_EVERY:
            # The usual case while the file is being written: the newest mark is near.
            return
        with self._lock:
            at = bisect_right(marks, entry_id, key=itemgetter(0))
            if at and entry_id - marks[at - 1].entry_id < _MARK_EVERY:
                return
            if at == len(marks) or marks[at].entry_id - entry_id >= _MARK_EVERY:
                marks.insert(at, Place(entry_id, offset))

    # --- reading: any thread ------------------------------------------------------------

    def scan(self, stored: int = 0, *, settle: bool = True) -> Scan:
        """Find the undamaged and the lost entries of a ledger that was not closed.

        ``stored``: how many entries are known from elsewhere to have been on disk. ``settle``: read
        from the disk and not from the page cache; after a failed write they may differ.
        """
        disk = self._disk
        descriptor = disk.open(self.path, os.O_RDONLY)
        try:
            if settle:
                disk.sync(descriptor)
                disk.drop_cached(descriptor, 0, 0)
            read = _reader(disk, descriptor)
            kind = self._format_in(read)
            walker = Walker(read, kind, Place(0, kind.file_header_size))
            lost: list[tuple[int, int]] = []
            entries = size = 0
            for record, offset in walker:
                if record.entry_id > entries:
                    lost.append((entries, record.entry_id - 1))
                self.mark(record.entry_id, offset)
                stored = max(stored, record.stored)
                entries, size = record.entry_id + 1, size + len(record.entry)
            total = disk.size(descriptor)
            end = max(stored, _damaged_end(read, kind, Place(entries, walker.offset), total))
        finally:
            disk.close(descriptor)
        if end > entries:
            lost.append((entries, end - 1))
            return Scan(end, size, tuple(lost), stored)
        return Scan(entries, size, tuple(lost), stored, max(total - walker.offset, 0))

    def read(self, entry_id: int, limit: int, max_bytes: int) -> Piece:
        """Read entries from ``entry_id`` to below ``limit``: at least one, about ``max_bytes`` in
        all.

        If the first is damaged, the result is the lost range, up to the next undamaged entry.
        """
        entries: list[bytes] = []
        messages: list[int] = []
        left = max_bytes
        descriptor = self._disk.open(self.path, os.O_RDONLY)
        try:
            read = _reader(self._disk, descriptor)
            kind = self._format_in(read)
            start = self._seek(read, kind, entry_id, self._disk.size(descriptor))
            for record, _ in Walker(read, kind, start):
                if record.entry_id < entry_id:
                    continue
                at = entry_id + len(entries)
                if record.entry_id != at:
                    if entries:
                        break
                    return Piece([], [], (at, min(record.entry_id, limit) - 1))
                entries.append(record.entry)
                messages.append(record.messages)
                left -= len(record.entry)
                if at + 1 >= limit or left <= 0:
                    break
        finally:
            self._disk.close(descriptor)
        return Piece(entries, messages, None if entries else (entry_id, limit - 1))

    def _seek(self, read: ReadAt, kind: Format, entry_id: int, size: int) -> Place:
        """Return the place of an entry's record, or of an earlier one from which to read on.

        Goes from the nearest mark on, header by header. If a header is not that of the expected
        entry, the place before it is returned. ``size``: bytes of the file.
        """
        with self._lock:
            at = bisect_right(self._marks, entry_id, key=itemgetter(0)) - 1
            place = self._marks[at] if at >= 0 else Place(0, kind.file_header_size)
            end = self._marks[at + 1].offset if at + 1 < len(self._marks) else size
        if not kind.can_hop:
            return place
        if entry_id - place.entry_id > _MARK_EVERY:
            place = nearer(read, kind, entry_id, place, end)
            self.mark(*place)
        next_id, offset = place
        data, base = b"", 0
        while True:
            if offset + kind.header_size > base + len(data):
                data, base = read(WINDOW, offset), offset
            if kind.entry_id(data, offset - base) != next_id:
                return place
            place = Place(next_id, offset)
            if next_id >= entry_id:
                self.mark(*place)
                return place
            next_id, offset = next_id + 1, offset + (kind.size(data, offset - base) or 0)

    def _format_in(self, read: ReadAt) -> Format:
        """The format of this file; raises `OSError` if it cannot be read."""
        if self._format is None:
            head = read(FILE_HEADER_SIZE + MARKER_SIZE, 0)
            self._format = format_of(head, self.ledger_id) or self._guess(read, head)
        return self._format

    def _guess(self, read: ReadAt, head: bytes) -> Format:
        """Guess the format of a file whose header is damaged."""
        # If the log's marker is unknown: that of the first record, if it is undamaged.
        marker = self._records.marker or head[FILE_HEADER_SIZE:]
        if len(marker) < MARKER_SIZE or marker not in read(WINDOW, 0):
            return OldFormat()
        return MarkedFormat(self.ledger_id, marker)


def _reader(disk: LedgerDisk, descriptor: int) -> ReadAt:
    return lambda size, offset: disk.read(descriptor, size, offset)


def _damaged_end(read: ReadAt, kind: Format, place: Place, total: int) -> int:
    """Return the entry id after the last complete record of the file, damaged or not.

    ``place``: the entry id and the offset after the last undamaged record; ``total``: bytes of the
    file. A record cut off by the end of the file was being written. One that is complete and does
    not match was damaged: its header may still say which entry it was.
    """
    end, offset = place
    while data := read(WINDOW, offset):
        at = 0
        while (found := kind.find(data, at, end)) is not None:
            at, entry_id = found
            size = kind.size(data, at) or 0
            possible = end + (offset + at - place.offset) // kind.header_size
            if offset + at + size <= total and entry_id <= possible:
                end = entry_id + 1
            at += 1
        if len(data) < WINDOW:
            break
        offset += WINDOW - kind.overlap
    return end
