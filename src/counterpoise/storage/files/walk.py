"""Finds every undamaged record of a ledger file, skipping damaged parts."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from counterpoise.storage.files.record import Format, LedgerRecord

WINDOW = 1 << 20

NEAR = 16 << 10
"""A binary search ends when at most this many bytes remain, which are then walked header by
header."""

ReadAt = Callable[[int, int], bytes]
"""Reads bytes of the file, given (size, offset); returns fewer only at the file's end."""


class Place(NamedTuple):
    """An entry's id, and the offset of its record in a ledger's file."""

    entry_id: int
    offset: int


class Walker:
    """Iterates over the undamaged records of a ledger file; ``offset`` is where the last one ends.

    After a damaged record it searches for the next undamaged one: the entries in between are lost.
    """

    def __init__(self, read: ReadAt, kind: Format, start: Place) -> None:
        self._read = read
        self._kind = kind
        self._expected, self.offset = start

    def __iter__(self) -> Iterator[tuple[LedgerRecord, int]]:
        """Each undamaged record with its offset."""
        kind = self._kind
        while True:
            base = self.offset
            data = self._whole(base)
            begin = 0
            for record in kind.decode(data, 0, self._expected):
                at, begin = begin, record.after
                self.offset, self._expected = base + begin, record.entry_id + 1
                yield record, base + at
            if self.offset == base and not self._find_again(base + 1):
                return

    def _whole(self, offset: int) -> bytes:
        """Read at least one complete record from ``offset`` on, if the file has one there."""
        data = self._read(WINDOW, offset)
        size = self._kind.size(data, 0)
        if size is not None and size > len(data) == WINDOW:
            data += self._read(size - WINDOW, offset + WINDOW)
        return data

    def _find_again(self, offset: int) -> bool:
        """Move to the next undamaged record from ``offset`` on; returns whether there is one."""
        kind = self._kind
        while data := self._read(WINDOW, offset):
            at = 0
            while (found := kind.find(data, at, self._expected)) is not None:
                begin, entry_id = found
                whole = self._whole(offset + begin)
                if next(kind.decode(whole, 0, entry_id), None) is not None:
                    self.offset, self._expected = offset + begin, entry_id
                    return True
                at = begin + 1
            if len(data) < WINDOW:
                return False
            offset += WINDOW - kind.overlap
        return False


def nearer(read: ReadAt, kind: Format, entry_id: int, place: Place, end: int) -> Place:
    """The place of an undamaged record at or before an entry's, found by binary search.

    ``place``: that of an earlier record. ``end``: the offset of a later one, or of the file's end.
    Records are found by their marker; where none is found, because of damage or a large entry, the
    part before is searched.
    """
    while end - place.offset > NEAR:
        middle = (place.offset + end) // 2
        found = _first_sound(read, kind, middle, place.entry_id)
        if found is None or found.entry_id > entry_id or found.offset >= end:
            end = middle
        else:
            place = found
    return place


def _first_sound(read: ReadAt, kind: Format, offset: int, entry_id: int) -> Place | None:
    """The place of the first record within `NEAR` bytes after an offset; None if it is damaged."""
    data = read(NEAR, offset)
    found = kind.find(data, 0, entry_id)
    if found is None:
        return None
    at, found_id = found
    size = kind.size(data, at) or 0
    whole = data[at : at + size] if at + size <= len(data) else read(size, offset + at)
    sound = next(kind.decode(whole, 0, found_id), None) is not None
    return Place(found_id, offset + at) if sound else None
