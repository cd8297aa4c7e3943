"""An attached consumer's operations, for the connection that subscribed."""

import time
from collections.abc import Iterable, Sequence

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.dispatch.recipient import Recipient
from counterpoise.broker.topic.lookback import last_batch_index
from counterpoise.broker.topic.ports import Acked, ConsumerSink, SubscribeRequest
from counterpoise.broker.topic.subscription import CUMULATIVE, Subscription
from counterpoise.storage.port import NO_POSITION, Position
from counterpoise.wire.encode_runs import Delivery
from counterpoise.wire.errors import ServerError
from counterpoise.wire.values import TransactionId


class Consumer(Recipient):
    """An attached consumer, with the operations that its client may call."""

    __slots__ = ("discards", "subscription")

    def __init__(
        self, request: SubscribeRequest, sink: ConsumerSink, subscription: Subscription
    ) -> None:
        super().__init__(
            request,
            sink,
            subscription.partition,
            subscription.clock,
            subscription.meters,
            subscription.topic_meter,
        )
        self.subscription = subscription
        self.discards = False
        """Whether its client has acknowledged a message that it could not read."""

    def send(self, deliveries: Sequence[Delivery], messages: int, size: int) -> None:
        """Send entries to the client, with ``messages`` messages of ``size`` bytes in all.

        Of a batch that is partly acknowledged, the client gets the ack set, by which it drops the
        messages that are.
        """
        acks = self.subscription.acks
        if acks.partial or acks.withheld:
            index = self.subscription.log.index
            deliveries = [(*it[:4], acks.ack_set(index((it[0], it[1])))) for it in deliveries]
        super().send(deliveries, messages, size)

    def flow(self, permits: int) -> None:
        """Add permits that the client sent, and resume delivery."""
        self.permits += permits
        self.last_flow_ms = int(time.time() * 1000)
        self.subscription.resume(self)

    def resume(self) -> None:
        """Resume delivery, since the connection is writable again."""
        self.subscription.resume(self)

    @property
    def takes_acks(self) -> bool:
        """Whether acknowledgements are accepted: also while the consumer is being closed."""
        return not self.subscription.closed

    def ack_individual(self, acks: Iterable[Acked]) -> None:
        """Acknowledge entries one by one."""
        self.subscription.ack_individual(self, acks)

    def ack_cumulative(self, ledger_id: int, entry_id: int, ack_set: Sequence[int] = ()) -> None:
        """Acknowledge everything up to an entry, or to a message in it if ``ack_set`` is given."""
        self.subscription.ack_cumulative(self, Position(ledger_id, entry_id), ack_set)

    async def ack_in_transaction(
        self, transaction: TransactionId, acked: Sequence[Acked], *, cumulative: bool
    ) -> None:
        """Acknowledge messages once the transaction commits; raises `BrokerError`."""
        if cumulative and self.subscription.type not in CUMULATIVE:
            why = f"A {self.subscription.type.name} subscription has no cumulative acknowledgement"
            raise BrokerError(ServerError.NotAllowedError, why)
        transactions = self.subscription.in_transactions()
        await transactions.acknowledge(self, transaction, acked, cumulative=cumulative)

    def redeliver(self, positions: Iterable[tuple[int, int]] | None = None) -> None:
        """Deliver these unacknowledged entries (ledger, entry) again, or all of this consumer's."""
        self.subscription.redeliver(self, positions)

    async def seek_to(self, position: Position, ack_set: Sequence[int] = ()) -> None:
        """Move the subscription to a message; its consumers have to reconnect."""
        await self.subscription.seek_to(position, ack_set, self.sink)

    async def seek_to_time(self, publish_time_ms: int) -> None:
        """Move the subscription to the first message published at or after this time."""
        await self.subscription.seek_to_time(publish_time_ms, self.sink)

    async def unsubscribe(self, *, force: bool = False) -> None:
        """Delete the subscription; refused while other consumers are attached."""
        await self.subscription.unsubscribe(self, force=force)

    async def last_batch_index(self) -> int:
        """The index of the last message in the topic's last entry; -1 if that is no batch."""
        log, last = self.subscription.log, self._last_index()
        left = self.subscription.compacted.places(last) if self._is_compacted(last) else None
        return max(left) if left else await last_batch_index(log, last)

    def last_message_id(self) -> tuple[Position, Position]:
        """The positions of the topic's last entry and of the subscription's mark-delete."""
        log, last = self.subscription.log, self._last_index()
        at = log.position(last) if last >= log.begin else NO_POSITION
        return at, log.position(self.subscription.acks.mark)

    def _is_compacted(self, index: int) -> bool:
        return self.request.read_compacted and index <= self.subscription.compacted.horizon

    def _last_index(self) -> int:
        """Index of the last entry that the consumer can get; below the log's begin if none is."""
        last = self.subscription.last_index
        if not self._is_compacted(last):
            return last
        left = self.subscription.compacted.last
        return self.subscription.log.begin - 1 if left is None else left

    def close(self) -> None:
        """Detach the consumer; its unacknowledged messages go to the other consumers."""
        if not self.closed:
            self.closed = True
            self.subscription.remove(self)
