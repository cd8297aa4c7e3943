"""The transactions of one topic: the entries they published, and the markers that end them."""

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.acks import AckState
from counterpoise.broker.topic.dispatch.dispatcher import NO_TRANSACTION
from counterpoise.broker.topic.producer import Producer
from counterpoise.broker.topic.receipts import InternalPublisher, Published
from counterpoise.broker.topic.subscription import Subscription
from counterpoise.broker.transactions import buffer
from counterpoise.names.callbacks import MillisecondClock
from counterpoise.names.topic import TopicName
from counterpoise.storage.grouplog import Log
from counterpoise.storage.log_parts import parts_from
from counterpoise.storage.port import CursorState, EntryGroup, StorageError
from counterpoise.wire.errors import ServerError
from counterpoise.wire.events import Send
from counterpoise.wire.values import TransactionId

BUFFER_CURSOR: Final = "__transaction_buffer"
"""The name of a cursor that only marks a log with transactions, which is then read when loaded."""
_RETRY_S: Final = 1.0
_BEFORE_ALL: Final = -2
"""The mark of ``hidden``: no entry follows it directly, so all hidden entries are ranges above."""


class LoggedTopic(Protocol):
    """What transactions need of their topic."""

    name: TopicName
    log: Log[Any]
    closing: bool

    @property
    def subscriptions(self) -> Mapping[str, Subscription]:
        """The subscriptions by name."""

    def accept(self, producer: Producer, sends: Sequence[Send]) -> None:
        """Store a producer's entries."""

    def refused(self, error: StorageError, contexts: Sequence[Published]) -> None:
        """Make the producers of entries that could not be stored reconnect."""


class TopicTransactions:
    """The transactions that publish to a topic: their markers, and what may be delivered."""

    def __init__(self, topic: LoggedTopic, clock_ms: MillisecondClock) -> None:
        self._topic = topic
        self.hidden = AckState(_BEFORE_ALL)
        self.buffer = buffer.TransactionBuffer(self.hidden)
        self._clock_ms = clock_ms
        self._background = BackgroundTasks()
        self._kept: list[tuple[Producer, Sequence[Send]]] | None = None
        """Entries that were published before `_note` has marked the log; None once it has."""
        self._numbers = itertools.count()
        self._markers: set[_MarkerWriter] = set()

    def start(self) -> None:
        """Begin to mark the log as one with transactions, so that its next owner reads them."""
        self._kept = []
        self._background.start(f"noting transactions of {self._topic.name}", self._note())

    def keeps(self, producer: Producer, sends: Sequence[Send]) -> bool:
        """Queue entries while the log is being marked (`start`); returns False once it is."""
        if self._kept is None:
            return False
        self._kept.append((producer, sends))
        return True

    async def _note(self) -> None:
        """Mark the log, then store the queued entries; if that fails, refuse them and retry."""
        topic, log = self._topic, self._topic.log
        while True:
            try:
                log.save_cursor(CursorState(BUFFER_CURSOR, log.position(log.end - 1)))
                await log.cursors_saved()
            except StorageError as failure:
                self._show_all()
                kept, self._kept = self._kept or [], []
                for producer, sends in kept:
                    topic.refused(failure, [(producer, send[1], send[2]) for send in sends])
                await asyncio.sleep(_RETRY_S)
                continue
            self._show_all()
            kept, self._kept = self._kept or [], None
            for producer, sends in kept:
                if not topic.closing:
                    topic.accept(producer, sends)
            return

    async def recover(self) -> None:
        """Restore the transactions from the log, read from its beginning; raises `StorageError`."""
        log = self._topic.log
        async for first, entries in parts_from(log, log.begin):
            for index, entry in enumerate(entries, first):
                self._stored(index, entry)
        self._show_all()

    def _show_all(self) -> None:
        for subscription in self._topic.subscriptions.values():
            self.show(subscription)

    def show(self, subscription: Subscription) -> None:
        """Set which entries a subscription never delivers, and up to which it may deliver now."""
        subscription.hidden = self.hidden
        subscription.hide(self.hidden.ranges())
        subscription.set_stable_end(self.stable_end)

    @property
    def stable_end(self) -> int:
        """The index of an open transaction's first message; only entries before it are sent."""
        return self.buffer.stable_end(NO_TRANSACTION)

    def committed(self, group: EntryGroup[Any]) -> None:
        """Process entries that were stored; some may be messages of transactions, or markers."""
        hidden: list[tuple[int, int]] = []
        for index, entry in enumerate(group.entries, group.first):
            hidden += self._stored(index, entry)
        for subscription in self._topic.subscriptions.values():
            if hidden:
                subscription.hide(hidden)
            subscription.set_stable_end(self.stable_end)

    def _stored(self, index: int, entry: bytes) -> Sequence[tuple[int, int]]:
        found = buffer.entry_of_transaction(entry)
        return () if found is None else self.buffer.stored(index, found)

    async def end(self, transaction: TransactionId, *, commit: bool, low_watermark: int) -> None:
        """Write the marker that commits or aborts a transaction, unless it is stored already;
        raises `BrokerError`.

        All transactions of the coordinator up to ``low_watermark`` have ended. Those that are open
        here are aborted: their messages came too late.
        """
        late = self.buffer.raise_watermark(transaction.coordinator, low_watermark)
        for each in late:
            if each != transaction:
                await self._write(buffer.Marker.ABORT, each)
        if not self.buffer.has_marker(transaction):
            await self._write(buffer.Marker.COMMIT if commit else buffer.Marker.ABORT, transaction)

    async def _write(self, marker: buffer.Marker, transaction: TransactionId) -> None:
        if self._kept is not None:
            # The next owner would take the marker for a message.
            why = f"{self._topic.name} has not saved yet that it has transactions"
            raise BrokerError(ServerError.ServiceNotReady, why)
        number = next(self._numbers)
        writer = _MarkerWriter()
        self._markers.add(writer)
        self.buffer.ending(transaction)
        try:
            entry = buffer.marker_entry(marker, transaction, number, self._clock_ms())
            self._topic.log.append(entry, 1, (writer, number, number))
            await writer.written
        except (StorageError, BrokerError) as error:
            why = error.message if isinstance(error, BrokerError) else str(error)
            raise BrokerError(ServerError.ServiceNotReady, why) from error
        finally:
            self._markers.discard(writer)
            self.buffer.ended(transaction)

    def close(self) -> None:
        """Stop writing markers; the topic's next owner writes those that are missing."""
        self._background.cancel()
        gone = BrokerError(ServerError.ServiceNotReady, f"Topic {self._topic.name} is unloaded")
        for writer in self._markers:
            writer.refused(0, gone)


class _MarkerWriter(InternalPublisher):
    """Publishes one marker; the future ``written`` is done when the marker is stored."""

    def __init__(self) -> None:
        super().__init__(buffer.PRODUCER)
        self.written: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def stored(
        self,
        ledger_id: int,
        first_entry_id: int,
        published: Sequence[tuple[object, int, int]],
        messages: int,
        size: int,
    ) -> None:
        """Called when the marker is stored: complete the future that is awaited."""
        if not self.written.done():
            self.written.set_result(None)

    def refused(self, sequence_id: int, error: BrokerError) -> None:
        """Called when the marker was refused: fail the future that is awaited."""
        if not self.written.done():
            self.written.set_exception(error)
            self.written.exception()
