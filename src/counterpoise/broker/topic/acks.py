"""Which entries of a subscription are acknowledged: integer arithmetic, no I/O.

Everything up to ``mark`` is acknowledged (Pulsar's mark-delete position); what was acknowledged
out of order above it is kept as bits, so that a million holes cost kilobytes, not objects.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from counterpoise.broker.transactions.pending_acks import WHOLE, PendingAcks
from counterpoise.storage.grouplog import Log
from counterpoise.storage.port import CursorState
from counterpoise.wire.bit_words import bits_of, words_of

_WIDTH = 512
_FULL = (1 << _WIDTH) - 1


class AckState:
    """Which entries a subscription has acknowledged, by index in the topic's log.

    Acknowledged are all up to ``mark``, and ``above`` many single ones after it. ``partial`` has,
    by index, the messages of a batch that are not acknowledged yet, as bits.
    """

    __slots__ = ("_bits", "above", "mark", "partial", "withheld")

    def __init__(self, mark: int, acked: Iterable[tuple[int, int]] = ()) -> None:
        """``acked``: inclusive ranges, all of them after ``mark``."""
        self.mark = mark
        self.above = 0
        self.partial: dict[int, int] = {}
        self.withheld: PendingAcks | None = None
        """The acknowledgements of open transactions; None: there never were any."""
        self._bits: dict[int, int] = {}
        """By block of `_WIDTH` entries: the entries acknowledged after ``mark``, as bits."""
        for first, last in acked:
            self.ack_range(max(first, mark + 1), last)

    def reset(self, mark: int) -> None:
        """Start over: everything up to ``mark`` is acknowledged, and nothing after it."""
        self.mark = mark
        self.above = 0
        self._bits.clear()
        self.partial.clear()

    def ack(self, index: int) -> bool:
        """Acknowledge one entry; False if it already was acknowledged."""
        mark = self.mark
        if self.partial:
            self.partial.pop(index, None)
        if index == mark + 1:
            self.mark = index
            if self.above:
                self._advance()
            return True
        if index <= mark:
            return False
        block, at = divmod(index, _WIDTH)
        bits = self._bits.get(block, 0)
        bit = 1 << at
        if bits & bit:
            return False
        self._bits[block] = bits | bit
        self.above += 1
        return True

    def ack_part(self, index: int, remaining: Sequence[int]) -> int:
        """Acknowledge messages of a batch; returns how many of it are still unacknowledged.

        ``remaining``: the messages that one consumer has not acknowledged, as 64-bit words. If 0 is
        returned, the caller still has to acknowledge the entry by `ack`.
        """
        bits = bits_of(remaining)
        if not self.is_acked(index):
            bits &= self.partial.get(index, bits)
            self.partial[index] = bits
        return bits.bit_count()

    def ack_set(self, index: int) -> Sequence[int]:
        """Which messages of the batch at entry `index` are not acknowledged yet, as 64-bit words.

        A set bit is a message that is still to be acknowledged; empty when no message of the batch
        was acknowledged alone.
        """
        bits = self.deliverable(index)
        return [] if bits == WHOLE else words_of(bits)

    def ack_range(self, first: int, last: int) -> bool:
        """Acknowledge ``first`` to ``last``; returns whether that changed anything."""
        if first <= self.mark + 1:
            return self.ack_through(last) > 0
        changed = 0
        for block in range(first // _WIDTH, last // _WIDTH + 1):
            base = block * _WIDTH
            low, high = max(first - base, 0), min(last - base, _WIDTH - 1)
            mask = ((2 << high) - 1) & ~((1 << low) - 1)
            before = self._bits.get(block, 0)
            self._bits[block] = before | mask
            changed += (before | mask).bit_count() - before.bit_count()
        self.above += changed
        return changed > 0

    def ack_through(self, index: int) -> int:
        """Acknowledge everything up to ``index``; returns how many entries were not before."""
        if index <= self.mark:
            return 0
        newly = index - self.mark - self._count_through(index)
        for each in [it for it in self.partial if it <= index]:
            del self.partial[each]
        self.mark = index
        if self.above:
            self._forget_through(index)
            self._advance()
        return newly

    def is_acked(self, index: int) -> bool:
        """Whether this entry is acknowledged."""
        if index <= self.mark:
            return True
        block, at = divmod(index, _WIDTH)
        return bool(self._bits.get(block, 0) >> at & 1)

    @property
    def has_gaps(self) -> bool:
        """Whether an entry after ``mark`` is acknowledged or in a transaction (see `skips`)."""
        return bool(self.above or self.withheld)

    def skips(self, index: int) -> bool:
        """Whether this entry is skipped in delivery: acknowledged, or in an open transaction."""
        return self.is_acked(index) or (self.withheld is not None and not self.deliverable(index))

    def deliverable(self, index: int) -> int:
        """The messages of an entry's batch that are neither acknowledged nor in an open
        transaction, as bits; `WHOLE` if no message is either.
        """
        left = self.partial.get(index, WHOLE)
        if self.withheld is not None:
            pending, size = self.withheld.bits(index)
            if pending:
                left = (left if left != WHOLE else (1 << size) - 1) & ~pending
        return left

    def unacked(self, number: int) -> int:
        """The index of the ``number``-th unacknowledged entry, counted from 1."""
        index = self.mark + number
        for first, last in self.ranges():
            if first > index:
                break
            index += last - first + 1
        return index

    def backlog(self, end: int) -> int:
        """The number of unacknowledged entries below index ``end``."""
        return max(end - 1 - self.mark - self.above, 0)

    def ranges(self) -> Iterator[tuple[int, int]]:
        """The acknowledged ranges after ``mark``: inclusive, ascending, never adjacent."""
        first = last = -1
        # A copy: acknowledgements may come in while a caller iterates.
        for block, held in sorted(self._bits.items()):
            bits, base = held, block * _WIDTH
            while bits:
                low = (bits & -bits).bit_length() - 1
                run = _trailing_ones(bits >> low)
                if first >= 0 and base + low == last + 1:
                    last += run
                else:
                    if first >= 0:
                        yield first, last
                    first, last = base + low, base + low + run - 1
                bits &= _FULL << (low + run)
        if first >= 0:
            yield first, last

    def range_count(self) -> int:
        """The number of `ranges`, without iterating over them."""
        count, ended = 0, -1
        for block, bits in sorted(self._bits.items()):
            count += (bits & ~(bits << 1)).bit_count()
            if bits & 1 and ended == block:
                count -= 1
            ended = block + 1 if bits >> (_WIDTH - 1) else -1
        return count

    def _count_through(self, index: int) -> int:
        """The number of single acknowledgements at or below ``index``."""
        block, at = divmod(index, _WIDTH)
        count = 0
        for key, bits in self._bits.items():
            if key < block:
                count += bits.bit_count()
            elif key == block:
                count += (bits & ((2 << at) - 1)).bit_count()
        return count

    def _forget_through(self, index: int) -> None:
        block, at = divmod(index, _WIDTH)
        for key in [k for k in self._bits if k <= block]:
            bits = self._bits.pop(key)
            kept = bits & ~((2 << at) - 1) if key == block else 0
            self.above -= bits.bit_count() - kept.bit_count()
            if kept:
                self._bits[key] = kept

    def _advance(self) -> None:
        """Move ``mark`` over the acknowledged entries that follow it."""
        while self.above:
            block, at = divmod(self.mark + 1, _WIDTH)
            bits = self._bits.get(block, 0)
            run = _trailing_ones(bits >> at)
            if not run:
                return
            self.mark += run
            self.above -= run
            bits &= ~((1 << (at + run)) - 1)
            if bits:
                self._bits[block] = bits
            else:
                del self._bits[block]


def _trailing_ones(bits: int) -> int:
    return (bits ^ (bits + 1)).bit_length() - 1


def restored_acks(log: Log[Any], state: CursorState) -> AckState:
    """Convert a cursor's saved acknowledgements to indexes of this log."""
    ranges = [(log.index(first), log.index_after(last) - 1) for first, last in state.acked]
    acks = AckState(log.index_after(state.mark_delete) - 1, ranges)
    for position, words in state.partial:
        if (index := log.find(position)) is not None:
            acks.ack_part(index, words)
    return acks
