"""One attached consumer: its permits, what it holds unacknowledged, and what it was sent."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from counterpoise.broker.topic.lookback import last_batch_index
from counterpoise.broker.topic.meter import Meter
from counterpoise.broker.topic.ports import Acked, ConsumerSink, Delivery, SubscribeRequest
from counterpoise.storage.port import Position

if TYPE_CHECKING:
    from counterpoise.broker.topic.subscription import Subscription


class Consumer:
    """What a connection holds after a successful subscribe.

    ``permits`` counts messages, so a batch can take it below zero; ``pending`` maps the index of
    each entry that was sent and is neither acknowledged nor given back to its number of messages
    (kept for Shared and Key_Shared only, the types that acknowledge entry by entry).
    """

    __slots__ = (
        "_totals",
        "blocked",
        "closed",
        "connected_since",
        "consumer_id",
        "meter",
        "msgs_acked",
        "msgs_redelivered",
        "name",
        "partition",
        "pending",
        "permits",
        "priority",
        "request",
        "sink",
        "subscription",
        "unacked",
    )

    def __init__(
        self, request: SubscribeRequest, sink: ConsumerSink, subscription: Subscription
    ) -> None:
        self.request = request
        self.consumer_id = request.consumer_id
        self.name = request.consumer_name
        self.priority = request.priority_level
        self.sink = sink
        self.subscription = subscription
        self.partition = subscription.partition
        self.permits = 0
        self.pending: dict[int, int] = {}
        self.unacked = 0
        self.blocked = False
        self.closed = False
        self.meter = Meter(time.monotonic())
        self._totals = (self.meter, subscription.meter, subscription.topic_meter)
        self.msgs_redelivered = 0
        self.msgs_acked = 0
        self.connected_since = time.time()

    def flow(self, permits: int) -> None:
        """The client has room for this many more messages."""
        self.permits += permits
        self.subscription.wake()

    def resume(self) -> None:
        """The connection can be written to again."""
        self.subscription.wake()

    def ack_individual(self, acks: Iterable[Acked]) -> None:
        """Acknowledge entries one by one."""
        self.subscription.ack_individual(self, acks)

    def ack_cumulative(self, ledger_id: int, entry_id: int, ack_set: Sequence[int] = ()) -> None:
        """Acknowledge everything up to an entry (up to inside it when ``ack_set`` is given)."""
        self.subscription.ack_cumulative(self, Position(ledger_id, entry_id), ack_set)

    def redeliver(self, positions: Iterable[tuple[int, int]] | None = None) -> None:
        """Send the given unacknowledged entries again, or all of this consumer's."""
        self.subscription.redeliver(self, positions)

    async def seek_to(self, position: Position) -> None:
        """Move the subscription to a message; its consumers are told to reconnect."""
        await self.subscription.seek_to(position)

    async def seek_to_time(self, publish_time_ms: int) -> None:
        """Move the subscription to the first message published at or after this time."""
        await self.subscription.seek_to_time(publish_time_ms)

    async def unsubscribe(self, *, force: bool = False) -> None:
        """Delete the subscription; refused while other consumers are attached."""
        await self.subscription.unsubscribe(self, force=force)

    async def last_batch_index(self) -> int:
        """Index of the last message inside the topic's last entry; -1 if that is no batch."""
        return await last_batch_index(self.subscription.log)

    def last_message_id(self) -> tuple[Position, Position]:
        """The topic's last entry, and this subscription's mark-delete position."""
        return self.subscription.last_message_id()

    def close(self) -> None:
        """Detach; what it holds unacknowledged goes to the others."""
        if not self.closed:
            self.closed = True
            self.subscription.remove(self)

    def send(self, deliveries: Sequence[Delivery], messages: int, size: int) -> None:
        """Hand a burst to the connection (for dispatchers)."""
        for total in self._totals:
            total.messages += messages
            total.bytes += size
        self.sink.deliver(self.consumer_id, self.partition, deliveries)
