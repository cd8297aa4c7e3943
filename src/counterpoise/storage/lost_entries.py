"""Merges and finds ranges of lost entries of a log."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import itemgetter

from counterpoise.storage.port import Chunk, Lost

_LOST_AT_ONCE = 10_000
"""The most lost entries that one chunk stands for."""


class LostEntries(Exception):
    """The entries that should be read are lost for good."""

    def __init__(self, lost: Lost) -> None:
        super().__init__(str(lost))
        self.lost = lost


def merged(lost: Iterable[Lost]) -> tuple[Lost, ...]:
    """Ranges of lost entries, sorted and without duplicates."""
    made: list[Lost] = []
    for each in sorted(lost):
        if made and made[-1].ledger_id == each.ledger_id and each.first <= made[-1].last + 1:
            made[-1] = made[-1]._replace(last=max(made[-1].last, each.last))
        else:
            made.append(each)
    return tuple(made)


def lost_from(lost: Sequence[Lost], ledger_id: int, entry_id: int) -> int:
    """How many entries in a row, from this one on, are known to be lost (0: it is not lost).

    ``lost`` must be sorted by `merged`.
    """
    at = bisect_right(lost, (ledger_id, entry_id), key=itemgetter(0, 1))
    if not at:
        return 0
    before = lost[at - 1]
    return max(0, before.last - entry_id + 1) if before.ledger_id == ledger_id else 0


def empty_chunk(index: int, count: int) -> Chunk:
    """A chunk of empty entries in place of ``count`` lost ones, or of the first of them if many."""
    count = min(count, _LOST_AT_ONCE)
    return Chunk(index, [b""] * count, [0] * count)
