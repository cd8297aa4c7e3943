"""Acknowledgements in transactions on one subscription: conflicts, saving, commit and abort."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.acks import AckState
from counterpoise.broker.topic.dispatch.dispatcher import Dispatcher
from counterpoise.broker.topic.dispatch.recipient import Recipient
from counterpoise.broker.topic.ports import Acked
from counterpoise.broker.transactions.buffer import Marker
from counterpoise.broker.transactions.pending_acks import (
    WHOLE,
    CumulativeAck,
    EntryAck,
    PendingAcks,
    PendingTransaction,
)
from counterpoise.storage.grouplog import Log
from counterpoise.storage.port import CursorState, Position, StorageError
from counterpoise.wire.bit_words import bits_of, words_for, words_of
from counterpoise.wire.errors import ServerError
from counterpoise.wire.values import TransactionId

PENDING_ACKS: Final = "__transaction_pending_ack"
"""The suffix of the cursor with a subscription's pending acknowledgements, after its name."""


class AckedInTransactions(Protocol):
    """What the acknowledgements of transactions need of their subscription."""

    name: str
    log: Log[Any]
    acks: AckState
    dispatcher: Dispatcher | None

    def check_open(self) -> None:
        """Raise `BrokerError` once it is closed."""

    async def saved(self) -> None:
        """Save the cursor, and return when it is stored; raises `StorageError`."""


class SubscriptionTransactions:
    """A subscription's acknowledgements in open transactions, each saved before it is answered."""

    def __init__(self, subscription: AckedInTransactions) -> None:
        self._subscription = subscription
        self.pending = PendingAcks()
        subscription.acks.withheld = self.pending
        self.watermarks: dict[int, int] = {}
        """By coordinator id, the number up to which all of its transactions have ended."""
        self.ended_by: Counter[Marker] = Counter()
        """How many transactions with acknowledgements here have ended, by how."""
        self._unsaved = False
        """Whether the end of a transaction has not been saved yet."""

    async def acknowledge(
        self,
        recipient: Recipient,
        transaction: TransactionId,
        acked: Sequence[Acked],
        *,
        cumulative: bool,
    ) -> None:
        """Record acknowledgements that take effect when the transaction commits.

        Raises `BrokerError` TransactionConflict if one of them is acknowledged already, permanently
        or in a transaction; then none of them is.
        """
        acks = [await self._read(transaction, each, cumulative=cumulative) for each in acked]
        self._check(transaction)
        if cumulative:
            self._acknowledge_through(transaction, acks[0])
        else:
            self._acknowledge_each(recipient, transaction, acks)
        await self._save()

    def _check(self, transaction: TransactionId) -> None:
        self._subscription.check_open()
        if transaction.number <= self.watermarks.get(transaction.coordinator, -1):
            raise BrokerError(
                ServerError.NotAllowedError,
                f"Transaction {transaction} has ended: acknowledge in a new one",
            )

    async def _read(
        self, transaction: TransactionId, acked: Acked, *, cumulative: bool
    ) -> EntryAck:
        """Convert an acknowledgement to bits; reads its entry for the size of the batch."""
        ledger_id, entry_id, words = acked
        log = self._subscription.log
        index = log.index((ledger_id, entry_id))
        if index < log.end and log.position(index) > (ledger_id, entry_id):
            # The entry is deleted or never existed, and the next one is not meant.
            if not cumulative:
                raise self._conflict(transaction, (ledger_id, entry_id))
            return EntryAck(index - 1)
        if not words or not log.begin <= index < log.end:
            return EntryAck(index)
        try:
            chunk = log.cached(index) or await log.read(index, 1)
        except StorageError as error:
            raise BrokerError(ServerError.PersistenceError, str(error)) from error
        if not chunk.messages:
            return EntryAck(index)
        size = chunk.messages[index - chunk.first]
        left = bits_of(words[: words_for(size)])
        bits = (1 << size) - 1 & ~left
        return EntryAck(index, bits, size) if bits.bit_count() < size else EntryAck(index)

    def _acknowledge_each(
        self, recipient: Recipient, transaction: TransactionId, acks: Sequence[EntryAck]
    ) -> None:
        for ack in acks:
            if self._is_acked(ack) or self.pending.conflicts(ack):
                raise self._conflict(transaction, self._subscription.log.position(ack.at))
        dispatcher = self._subscription.dispatcher
        for ack in acks:
            self.pending.add(transaction, ack)
            if dispatcher is None:
                continue
            left = self._subscription.acks.deliverable(ack.at)
            if left:
                dispatcher.acked_part(recipient, ack.at, left.bit_count())
            else:
                recipient.acknowledged(dispatcher.withhold(recipient, ack.at))
        if dispatcher is not None:
            dispatcher.dispatch()

    def _is_acked(self, ack: EntryAck) -> bool:
        acks, log = self._subscription.acks, self._subscription.log
        if ack.at >= log.end or acks.is_acked(ack.at):
            return True
        left = acks.partial.get(ack.at)
        return left is not None and ack.bits != WHOLE and bool(ack.bits & ~left)

    def _acknowledge_through(self, transaction: TransactionId, last: EntryAck) -> None:
        whole = last.bits == WHOLE
        ack = CumulativeAck(transaction, last.at if whole else last.at - 1, None if whole else last)
        if self._is_acked(last) or self.pending.refuses_cumulative(ack):
            raise self._conflict(transaction, self._subscription.log.position(last.at))
        self.pending.cumulative = ack
        if self._subscription.dispatcher is not None:
            self._subscription.dispatcher.acked_through(ack.through)

    def _conflict(self, transaction: TransactionId, at: tuple[int, int]) -> BrokerError:
        sub = self._subscription
        return BrokerError(
            ServerError.TransactionConflict,
            f"[{sub.log.name}][{sub.name}] Transaction:{transaction} try to ack message:"
            f"{at[0]}:{at[1]} in pending ack status or acknowledged already",
        )

    async def end(self, transaction: TransactionId, *, commit: bool, low_watermark: int) -> None:
        """Apply (commit) or drop a transaction's acknowledgements, if it has any. Raises
        `BrokerError`.

        Acknowledgements of the coordinator's other transactions up to ``low_watermark``, which have
        all ended, are dropped: they arrived after the end.
        """
        coordinator = transaction.coordinator
        mark = max(low_watermark, self.watermarks.get(coordinator, -1))
        self.watermarks[coordinator] = mark
        late = [
            each
            for each in self.pending.transactions
            if each.coordinator == coordinator and each.number <= mark and each != transaction
        ]
        known = transaction in self.pending
        if known and commit:
            self._commit(self.pending.of(transaction))
            # The cursor is saved before the pending acknowledgements are removed: a crash may come
            # in between.
            await self._saved(self._subscription.saved())
        for each in late:
            self._abort(each)
        if known:
            self.ended_by[Marker.COMMIT if commit else Marker.ABORT] += 1
        if known and commit:
            self.pending.end(transaction)
        elif known:
            self._abort(transaction)
        # If the end could not be saved, the coordinator ends the transaction again, when nothing of
        # it is pending here any more.
        if known or late or self._unsaved:
            await self._save()

    def clear(self) -> None:
        """Drop all pending acknowledgements, because the cursor was moved."""
        self.pending.clear()
        self._subscription.log.save_cursor(self.state())

    def _commit(self, pending: PendingTransaction) -> None:
        acks = self._subscription.acks
        cumulative = pending.cumulative
        if cumulative is not None:
            acks.ack_through(cumulative.through)
        parts = () if cumulative is None or cumulative.part is None else (cumulative.part,)
        for ack in (*pending.entries, *parts):
            left = (1 << ack.size) - 1 & ~ack.bits
            if ack.bits == WHOLE or not acks.ack_part(ack.at, words_of(left)):
                acks.ack(ack.at)
                if self._subscription.dispatcher is not None:
                    self._subscription.dispatcher.forget(ack.at)

    def _abort(self, transaction: TransactionId) -> None:
        ended = self.pending.end(transaction)
        again = [ack.at for ack in ended.entries]
        if ended.cumulative is not None:
            again.append(self._subscription.acks.mark + 1)
        if again and self._subscription.dispatcher is not None:
            self._subscription.dispatcher.deliver_again(sorted(again))

    # How pending acknowledgements are stored: as the properties of a cursor.

    def state(self) -> CursorState:
        """The pending acknowledgements as a cursor, to be saved for the topic's next owner."""
        sub = self._subscription
        properties = {
            f"{transaction.coordinator}:{transaction.number}": self._written(pending)
            for transaction, pending in self.pending.items()
        }
        return CursorState(sub.name + PENDING_ACKS, sub.log.position(sub.acks.mark), (), properties)

    def _written(self, pending: PendingTransaction) -> str:
        parts = [self._text(each) for each in pending.entries]
        held = pending.cumulative
        if held is not None:
            parts.append("<" + self._text(held.part or EntryAck(held.through)))
        return ",".join(parts)

    def _text(self, ack: EntryAck) -> str:
        at = self._subscription.log.position(ack.at)
        part = "" if ack.bits == WHOLE else f":{ack.bits:x}:{ack.size}"
        return f"{at}{part}"

    def restore(self, properties: Mapping[str, str]) -> None:
        """Restore the pending acknowledgements from the properties of a saved `state`."""
        self.pending.restore(dict(self._transactions(properties.items())))

    def _transactions(
        self, saved: Iterable[tuple[str, str]]
    ) -> Iterable[tuple[TransactionId, PendingTransaction]]:
        for key, text in saved:
            coordinator, _, number = key.partition(":")
            transaction = TransactionId(int(coordinator), int(number))
            entries: list[EntryAck] = []
            cumulative = None
            for part in text.split(","):
                ack = self._parsed(part.removeprefix("<"))
                if ack is None:
                    continue
                if not part.startswith("<"):
                    entries.append(ack)
                elif ack.bits == WHOLE:
                    cumulative = CumulativeAck(transaction, ack.at)
                else:
                    cumulative = CumulativeAck(transaction, ack.at - 1, ack)
            yield transaction, PendingTransaction(tuple(entries), cumulative)

    def _parsed(self, text: str) -> EntryAck | None:
        """Parse what `_text` returned; None if the entry has been deleted."""
        ledger_id, entry_id, *part = text.split(":")
        at, log = Position(int(ledger_id), int(entry_id)), self._subscription.log
        index = log.find(at)
        if index is None:
            return None
        return EntryAck(index, int(part[0], 16), int(part[1])) if part else EntryAck(index)

    async def _save(self) -> None:
        self._unsaved = True
        self._subscription.check_open()
        log = self._subscription.log
        log.save_cursor(self.state())
        await self._saved(log.cursors_saved())
        self._unsaved = False

    async def _saved(self, saving: Any) -> None:
        try:
            await saving
        except (StorageError, asyncio.InvalidStateError) as error:
            raise BrokerError(ServerError.ServiceNotReady, str(error)) from error
