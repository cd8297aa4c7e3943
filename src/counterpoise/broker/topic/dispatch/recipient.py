"""An attached consumer, as delivery uses it: its permits, unacknowledged entries and sink."""

from __future__ import annotations

import time
from collections.abc import Sequence

from counterpoise.broker.topic.meter import DeliveryMeters, Meter, RateClock
from counterpoise.broker.topic.ports import ConsumerSink, SubscribeRequest
from counterpoise.wire.encode_runs import Delivery


class Recipient:
    """An attached consumer, as dispatchers use it.

    ``permits`` counts messages, so a batch can take it below zero. ``pending`` maps the index of
    each entry that was sent, and is neither acknowledged nor returned, to its number of messages;
    ``unacked`` is their sum (only for Shared and Key_Shared, which acknowledge entry by entry).
    """

    __slots__ = (
        "_subscription",
        "_topic_out",
        "blocked",
        "closed",
        "connected_since",
        "consumer_id",
        "entries_out",
        "is_end_notified",
        "last_acked_ms",
        "last_flow_ms",
        "last_sent_ms",
        "meters",
        "name",
        "partition",
        "pending",
        "permits",
        "priority",
        "request",
        "sink",
        "unacked",
    )

    def __init__(
        self,
        request: SubscribeRequest,
        sink: ConsumerSink,
        partition: int,
        clock: RateClock,
        subscription: DeliveryMeters,
        topic_out: Meter,
    ) -> None:
        """Deliveries and acknowledgements are also counted for the subscription and the topic."""
        self.request = request
        self.consumer_id = request.consumer_id
        self.name = request.consumer_name
        self.priority = request.priority_level
        self.sink = sink
        self.partition = partition
        self.permits = 0
        self.pending: dict[int, int] = {}
        self.unacked = 0
        self.blocked = False
        self.closed = False
        self.is_end_notified = False
        self.meters = DeliveryMeters(clock)
        self.entries_out = 0
        #: Moments in milliseconds since the epoch, 0 for never.
        self.last_sent_ms = self.last_acked_ms = self.last_flow_ms = 0
        self._subscription = subscription
        self._topic_out = topic_out
        self.connected_since = time.time()

    @property
    def ready(self) -> bool:
        """Whether messages can be sent to the consumer."""
        return self.permits > 0 and not self.blocked and not self.closed and self.sink.writable

    def send(self, deliveries: Sequence[Delivery], messages: int, size: int) -> None:
        """Pass ``messages`` messages of ``size`` bytes in all to the connection."""
        self.meters.out.count(messages, size)
        self._subscription.out.count(messages, size)
        self._topic_out.count(messages, size)
        self.entries_out += len(deliveries)
        self.last_sent_ms = int(time.time() * 1000)
        self.sink.deliver(self.consumer_id, self.partition, deliveries)

    def sent_again(self, messages: int, size: int) -> None:
        """Count the redelivered messages among those being sent."""
        self.meters.redelivered.count(messages, size)
        self._subscription.redelivered.count(messages, size)

    def acknowledged(self, messages: int) -> None:
        """Count what the consumer acknowledged."""
        self.meters.acked.count(messages, 0)
        self._subscription.acked.count(messages, 0)
        self.last_acked_ms = int(time.time() * 1000)
