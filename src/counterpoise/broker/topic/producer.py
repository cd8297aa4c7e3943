"""Producers of a topic: access modes (PIP-68), and the publish path."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.limits.publish_flow import ProducerFlow
from counterpoise.broker.topic.meter import Meter
from counterpoise.broker.topic.ports import ProducerRequest, ProducerSink
from counterpoise.names.topic import TopicName
from counterpoise.wire.errors import ServerError
from counterpoise.wire.events import Send
from counterpoise.wire.values import AccessMode, TransactionId


class PublishedTo(Protocol):
    """What a producer calls on its topic."""

    name: TopicName

    def publish(self, producer: "Producer", sends: Sequence[Send], size: int) -> None:
        """Accept a producer's entries, of ``size`` bytes in all."""

    def publish_in_transaction(
        self, producer: "Producer", transaction: TransactionId, send: Send
    ) -> None:
        """Accept or refuse an entry that a producer sent in a transaction."""

    def remove_producer(self, producer: "Producer") -> int:
        """Detach a producer; returns how many of its throttled entries are dropped."""


@dataclass(slots=True, eq=False)
class Producer:
    """A producer attached to a topic by one connection.

    ``ready`` is False while it waits for exclusive access; then ``topic_epoch`` is None.
    """

    request: ProducerRequest
    name: str
    sink: ProducerSink
    topic: PublishedTo
    meter: Meter
    """Counts its messages that were stored; on a non-persistent topic, all that it published."""
    chunks: Meter | None = field(default=None, init=False)
    """Counts the entries that are a chunk of a large message; None before the first."""
    producer_id: int = field(init=False)
    topic_epoch: int | None = field(default=None, init=False)
    """The topic's epoch (PIP-68) when it got access; None while it waits for exclusive access."""
    ready: bool = field(default=True, init=False)
    """Whether it may publish: False while it waits for exclusive access."""
    closed: bool = field(default=False, init=False)
    last_sequence_id: int = field(default=-1, init=False)
    """The last sequence id known to be stored; -1 where the topic does not deduplicate."""
    flow: ProducerFlow | None = field(default=None, init=False)
    """Its entries as publish limits see them; None while no limit applies to it."""
    connected_since: float = field(init=False)

    def __post_init__(self) -> None:
        """Set the producer id from the request, and the time at which the producer connected."""
        self.producer_id = self.request.producer_id
        self.connected_since = time.time()

    def publish(self, sends: Sequence[Send], size: int) -> None:
        """Publish entries of ``size`` bytes in all; the sink gets a receipt or error for each."""
        self.topic.publish(self, sends, size)

    def count_chunk(self, size: int) -> None:
        """Count an entry of ``size`` bytes that is a chunk of a large message."""
        if self.chunks is None:
            self.chunks = Meter(self.meter.clock)
        self.chunks.count(1, size)

    def stored(
        self,
        ledger_id: int,
        first_entry_id: int,
        published: Sequence[tuple[object, int, int]],
        messages: int,
        size: int,
    ) -> None:
        """Send receipts for entries at consecutive positions, as `Publisher.stored`."""
        self.meter.count(messages, size)
        if self.closed:
            self.sink.count_detached(self, len(published))
        else:
            self.sink.receipts(self.producer_id, ledger_id, first_entry_id, published)

    def refused(self, sequence_id: int, error: BrokerError) -> None:
        """Send the error of an entry that is not stored."""
        if self.closed:
            self.sink.count_detached(self, 1)
        else:
            self.sink.send_error(self.producer_id, sequence_id, error)

    def unanswered(self) -> None:
        """Note that an entry gets no response, because the log failed; the client reconnects."""
        if self.closed:
            self.sink.count_detached(self, 1)

    def disconnect(self) -> None:
        """Close the producer, and make its client reconnect it."""
        if not self.closed:
            self.close()
            self.sink.close_producer(self.producer_id, None)

    def close(self) -> int:
        """Detach the producer. What it published is stored all the same, except throttled entries.

        Returns how many throttled entries were dropped without a response.
        """
        if self.closed:
            return 0
        self.closed = True
        return self.topic.remove_producer(self)

    def succeeds(self, other: "Producer") -> bool:
        """Whether this producer is ``other`` after a reconnect (Pulsar's ``isSuccessorTo``)."""
        return (
            self.sink is other.sink
            and self.producer_id == other.producer_id
            and self.request.epoch > other.request.epoch
        )


class ProducerSet:
    """The producers of one topic by name; applies the rules of the access modes."""

    def __init__(self) -> None:
        self.by_name: dict[str, Producer] = {}
        self.topic_epoch: int | None = None
        self._exclusive: Producer | None = None
        self._waiting: dict[Producer, None] = {}

    def __len__(self) -> int:
        """The number of attached producers, including those that wait for exclusive access."""
        return len(self.by_name) + len(self._waiting)

    def all(self) -> list[Producer]:
        """All attached producers, including those that wait for exclusive access."""
        return [*self.by_name.values(), *self._waiting]

    def add(self, producer: Producer) -> list[Producer]:
        """Add a producer, or raise `BrokerError`; returns the producers that it fenced."""
        former = self.by_name.get(producer.name)
        if former is not None:
            if not producer.succeeds(former):
                raise BrokerError(
                    ServerError.ProducerBusy,
                    f"Producer with name '{producer.name}' is already connected to topic",
                )
            former.closed = True
            self._forget(former)
        fenced: list[Producer] = []
        mode = producer.request.access_mode
        if mode is AccessMode.Shared:
            if self._exclusive is not None or self._waiting:
                raise BrokerError(ServerError.ProducerBusy, self._held_by())
        else:
            self._check_epoch(producer)
            if mode is AccessMode.ExclusiveWithFencing:
                fenced = self.all()
                self.by_name.clear()
                self._waiting.clear()
                for other in fenced:
                    other.closed = True
            elif self.by_name or self._waiting:
                if mode is AccessMode.Exclusive:
                    raise BrokerError(ServerError.ProducerFenced, self._held_by())
                producer.ready = False
                self._waiting[producer] = None
                return []
            self._grant(producer)
        producer.topic_epoch = self.topic_epoch
        self.by_name[producer.name] = producer
        return fenced

    def remove(self, producer: Producer) -> Producer | None:
        """Remove a producer; returns the waiting one that now gets exclusive access, if any."""
        self._forget(producer)
        if self.by_name or not self._waiting:
            return None
        successor = next(iter(self._waiting))
        del self._waiting[successor]
        successor.ready = True
        self._grant(successor)
        successor.topic_epoch = self.topic_epoch
        self.by_name[successor.name] = successor
        return successor

    def _forget(self, producer: Producer) -> None:
        if self.by_name.get(producer.name) is producer:
            del self.by_name[producer.name]
        if self._exclusive is producer:
            self._exclusive = None
        self._waiting.pop(producer, None)

    def _grant(self, producer: Producer) -> None:
        self._exclusive = producer
        epoch = producer.request.topic_epoch
        # A producer that reconnects with its own epoch keeps it; a new one begins the next.
        self.topic_epoch = epoch if epoch is not None else (self.topic_epoch or 0) + 1

    def _check_epoch(self, producer: Producer) -> None:
        epoch = producer.request.topic_epoch
        if epoch is not None and self.topic_epoch is not None and epoch < self.topic_epoch:
            raise BrokerError(
                ServerError.ProducerFenced,
                f"Topic epoch has already moved. Current epoch: {self.topic_epoch}, "
                f"Producer epoch: {epoch}",
            )

    def _held_by(self) -> str:
        if self._exclusive is not None:
            return f"Topic has an existing exclusive producer: {self._exclusive.name}"
        if self._waiting:
            return "Topic has producers that wait for exclusive access"
        return "Topic has existing shared producers"
