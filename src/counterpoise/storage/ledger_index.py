"""Converts between an entry's index in a log and its position (ledger id, entry id)."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from counterpoise.storage.port import LedgerInfo, Position


@dataclass(slots=True, eq=False)
class IndexedLedger:
    """One ledger: its committed entries occupy indexes ``base`` to ``base + entries - 1``."""

    ledger_id: int
    base: int
    entries: int
    size: int


class LedgerIndex:
    """The ledgers of one log, and the index of each entry, which counts over all of them."""

    __slots__ = ("_all", "_bases", "_ids", "last")

    def __init__(self, ledgers: Iterable[tuple[int, int, int]]) -> None:
        """``ledgers``: (ledger id, entries, bytes) in ascending order, at least one."""
        self._all: list[IndexedLedger] = []
        self._ids: list[int] = []
        self._bases: list[int] = []
        for ledger_id, entries, size in ledgers:
            self.start(ledger_id).entries = entries
            self.last.size = size

    def __iter__(self) -> Iterator[IndexedLedger]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    @property
    def first(self) -> IndexedLedger:
        """The oldest ledger that is not deleted."""
        return self._all[0]

    @property
    def begin(self) -> int:
        """Index of the oldest entry that is not deleted."""
        return self._bases[0]

    @property
    def end(self) -> int:
        """Index after the newest committed entry."""
        return self.last.base + self.last.entries

    @property
    def size(self) -> int:
        """Bytes of all ledgers that are not deleted."""
        return sum(span.size for span in self._all)

    def start(self, ledger_id: int) -> IndexedLedger:
        """Start a new ledger after the last one."""
        base = self.end if self._all else 0
        self.last = IndexedLedger(ledger_id, base, 0, 0)
        self._all.append(self.last)
        self._ids.append(ledger_id)
        self._bases.append(base)
        return self.last

    def holding(self, index: int) -> IndexedLedger:
        """The ledger that contains ``index``; the last one for an index that is not written yet."""
        if index >= self.last.base:
            return self.last
        # Empty ledgers share their base with the next one: the rightmost has the entries.
        return self._all[max(bisect_right(self._bases, index) - 1, 0)]

    def position(self, index: int) -> Position:
        """The position (ledger and entry id) of the entry with this index.

        ``begin - 1``, before the first entry, is entry -1 of the first ledger.
        """
        span = self.holding(index)
        return Position(span.ledger_id, index - span.base)

    def index(self, position: tuple[int, int]) -> int:
        """Index of the entry at ``position``, which need not be written yet; of the next if it is
        deleted.
        """
        ledger_id, entry_id = position
        last = self.last
        if ledger_id == last.ledger_id:
            return last.base + max(entry_id, 0)
        at = bisect_left(self._ids, ledger_id)
        if at == len(self._ids):
            return self.end
        span = self._all[at]
        if span.ledger_id != ledger_id:
            return span.base
        return span.base + min(max(entry_id, 0), span.entries)

    def trimmable(self, before: int) -> list[IndexedLedger]:
        """Closed ledgers whose entries all lie before index ``before``, oldest first."""
        return [s for s in self._all[:-1] if s.base + s.entries <= before]

    def drop(self, count: int) -> None:
        """Remove the ``count`` oldest ledgers."""
        del self._all[:count], self._ids[:count], self._bases[:count]

    def infos(self) -> tuple[LedgerInfo, ...]:
        """Id, entries and bytes of each ledger, in order."""
        return tuple(LedgerInfo(s.ledger_id, s.entries, s.size, s is self.last) for s in self._all)
