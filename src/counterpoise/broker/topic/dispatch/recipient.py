"""An attached consumer as dispatchers see it: its permits and unacknowledged entries."""

import time
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field

from counterpoise.broker.topic.meter import DeliveryMeters, Meter, RateClock
from counterpoise.broker.topic.ports import ConsumerSink, SubscribeRequest
from counterpoise.wire.encode_runs import Delivery


@dataclass(slots=True, eq=False)
class Recipient:
    """An attached consumer: its request, what it may be sent, and what it has not acknowledged.

    ``permits`` counts messages, so a batch can take it below zero. Messages go to ``sink``, its
    client's connection. ``unacked`` and ``pending`` are filled for Shared and Key_Shared only,
    which acknowledge entry by entry.
    """

    request: SubscribeRequest
    sink: ConsumerSink
    partition: int
    clock: InitVar[RateClock]
    of_subscription: DeliveryMeters
    of_topic: Meter
    meters: DeliveryMeters = field(init=False)
    consumer_id: int = field(init=False)
    name: str = field(init=False)
    priority: int = field(init=False)
    permits: int = field(default=0, init=False)
    """Messages that it may be sent; below zero after a batch that was larger than the permits."""
    pending: dict[int, int] = field(default_factory=dict, init=False)
    """By index, each entry that was sent and is neither acknowledged nor to be redelivered: its
    number of messages."""
    unacked: int = field(default=0, init=False)
    """The number of unacknowledged messages, those in ``pending``."""
    blocked: bool = field(default=False, init=False)
    closed: bool = field(default=False, init=False)
    is_end_notified: bool = field(default=False, init=False)
    entries_out: int = field(default=0, init=False)
    last_sent_ms: int = field(default=0, init=False)
    """When messages were last sent to it, in milliseconds since 1970; 0 for never."""
    last_acked_ms: int = field(default=0, init=False)
    """When it last acknowledged, in milliseconds since 1970; 0 for never."""
    last_flow_ms: int = field(default=0, init=False)
    """When it last sent permits, in milliseconds since 1970; 0 for never."""
    connected_since: float = field(init=False)

    def __post_init__(self, clock: RateClock) -> None:
        """Set the consumer id, name and priority from the request, and the time of connecting."""
        self.meters = DeliveryMeters(clock)
        self.consumer_id = self.request.consumer_id
        self.name = self.request.consumer_name
        self.priority = self.request.priority_level
        self.connected_since = time.time()

    @property
    def ready(self) -> bool:
        """Whether messages can be sent now: the consumer has permits and its client reads."""
        return self.permits > 0 and not self.blocked and not self.closed and self.sink.writable

    def send(self, deliveries: Sequence[Delivery], messages: int, size: int) -> None:
        """Pass ``messages`` messages of ``size`` bytes in all to the connection."""
        self.meters.out.count(messages, size)
        self.of_subscription.out.count(messages, size)
        self.of_topic.count(messages, size)
        self.entries_out += len(deliveries)
        self.last_sent_ms = int(time.time() * 1000)
        self.sink.deliver(self.consumer_id, self.partition, deliveries)

    def sent_again(self, messages: int, size: int) -> None:
        """Count redelivered messages and bytes in the statistics."""
        self.meters.redelivered.count(messages, size)
        self.of_subscription.redelivered.count(messages, size)

    def acknowledged(self, messages: int) -> None:
        """Count acknowledged messages in the statistics."""
        self.meters.acked.count(messages, 0)
        self.of_subscription.acked.count(messages, 0)
        self.last_acked_ms = int(time.time() * 1000)
