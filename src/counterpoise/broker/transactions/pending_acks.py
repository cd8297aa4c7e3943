"""The acknowledgements of open transactions on one subscription: arithmetic without I/O."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from counterpoise.wire.values import TransactionId

WHOLE: Final = -1
"""Stands for all messages of an entry, where a batch has a bit for each message."""


class EntryAck(NamedTuple):
    """The acknowledgement of the entry at index ``at``, or of ``bits`` of its batch of ``size``."""

    at: int
    bits: int = WHOLE
    size: int = 0


class CumulativeAck(NamedTuple):
    """The acknowledgement of all entries up to ``through``, and of ``part`` of the next batch."""

    transaction: TransactionId
    through: int
    part: EntryAck | None = None


class PendingTransaction(NamedTuple):
    """Everything that one transaction acknowledges on a subscription."""

    entries: tuple[EntryAck, ...] = ()
    cumulative: CumulativeAck | None = None


class PendingAcks:
    """The acknowledgements of open transactions on a subscription; their entries are not delivered.

    An entry (or message of a batch) is acknowledged by at most one transaction, and only one
    transaction acknowledges cumulatively.
    """

    def __init__(self) -> None:
        self._of: dict[TransactionId, dict[int, EntryAck]] = {}
        self._pending: dict[int, tuple[int, int]] = {}
        """By index of an entry: its pending messages as bits, and the size of its batch."""
        self.cumulative: CumulativeAck | None = None

    def __bool__(self) -> bool:
        return bool(self._of) or self.cumulative is not None

    def __contains__(self, transaction: TransactionId) -> bool:
        return transaction in self._of or self._is_cumulative(transaction)

    def _is_cumulative(self, transaction: TransactionId) -> bool:
        return self.cumulative is not None and self.cumulative.transaction == transaction

    @property
    def transactions(self) -> set[TransactionId]:
        """The transactions that acknowledge something on this subscription."""
        cumulative = self.cumulative
        return {*self._of, *(() if cumulative is None else (cumulative.transaction,))}

    def conflicts(self, ack: EntryAck) -> bool:
        """Whether a transaction has already acknowledged a message of ``ack``."""
        bits, _ = self._pending.get(ack.at, (0, 0))
        if bits & ack.bits:
            return True
        held = self.cumulative
        return held is not None and (
            ack.at <= held.through
            or (
                (held.part is not None and held.part.at == ack.at)
                and bool(held.part.bits & ack.bits)
            )
        )

    def add(self, transaction: TransactionId, ack: EntryAck) -> None:
        """Record an acknowledgement that takes effect when the transaction commits."""
        if not ack.bits:
            return
        mine = self._of.setdefault(transaction, {})
        former = mine.get(ack.at)
        if former is not None:
            ack = ack._replace(bits=former.bits | ack.bits)
        mine[ack.at] = ack
        bits, _ = self._pending.get(ack.at, (0, 0))
        self._pending[ack.at] = bits | ack.bits, ack.size

    def refuses_cumulative(self, ack: CumulativeAck) -> bool:
        """Whether another transaction acknowledges cumulatively, or this one already as far."""
        held = self.cumulative
        if held is None:
            return False
        return held.transaction != ack.transaction or _reach(held) >= _reach(ack)

    def end(self, transaction: TransactionId) -> PendingTransaction:
        """Remove a transaction; returns everything that it acknowledged here."""
        entries = self._of.pop(transaction, {})
        for ack in entries.values():
            bits, size = self._pending.pop(ack.at)
            left = bits & ~ack.bits
            if left:
                self._pending[ack.at] = left, size
        cumulative = None
        if self._is_cumulative(transaction):
            cumulative, self.cumulative = self.cumulative, None
        return PendingTransaction(tuple(entries.values()), cumulative)

    def clear(self) -> None:
        """Drop all acknowledgements, because the subscription's cursor was moved."""
        self._of.clear()
        self._pending.clear()
        self.cumulative = None

    def bits(self, index: int) -> tuple[int, int]:
        """An entry's pending messages as bits, `WHOLE` if all are, and the size of its batch."""
        bits, size = self._pending.get(index, (0, 0))
        held = self.cumulative
        if held is not None:
            if index <= held.through:
                return WHOLE, 0
            if held.part is not None and held.part.at == index:
                bits, size = bits | held.part.bits, held.part.size
        if size and bits != WHOLE and bits.bit_count() >= size:
            return WHOLE, size
        return bits, size

    def of(self, transaction: TransactionId) -> PendingTransaction:
        """The acknowledgements of a transaction on this subscription."""
        cumulative = self.cumulative if self._is_cumulative(transaction) else None
        return PendingTransaction(tuple(self._of.get(transaction, {}).values()), cumulative)

    def items(self) -> Iterator[tuple[TransactionId, PendingTransaction]]:
        """All pending acknowledgements, by transaction."""
        for transaction in sorted(self.transactions):
            yield transaction, self.of(transaction)

    def restore(self, saved: Mapping[TransactionId, PendingTransaction]) -> None:
        """Restore saved acknowledgements."""
        for transaction, pending in saved.items():
            for ack in pending.entries:
                self.add(transaction, ack)
            if pending.cumulative is not None:
                self.cumulative = pending.cumulative


def _reach(ack: CumulativeAck) -> tuple[int, int]:
    return ack.through, ack.part.bits.bit_count() if ack.part is not None else 0
