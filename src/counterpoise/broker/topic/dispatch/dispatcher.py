"""The base class of dispatchers, which deliver a subscription's entries to its consumers."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from counterpoise.broker.topic.acks import AckState
from counterpoise.broker.topic.compacted_view import CompactedView
from counterpoise.broker.topic.dispatch.entry_reader import EntryReader
from counterpoise.broker.topic.dispatch.recipient import Recipient
from counterpoise.broker.topic.ports import SubscribeRequest
from counterpoise.broker.topic.shared_parts import SharedByTopics
from counterpoise.broker.topic.topic_rules import TopicRules
from counterpoise.names.topic import TopicName
from counterpoise.storage.grouplog import Log

NO_TRANSACTION: Final = sys.maxsize
"""The value of ``stable_end`` without an open transaction: all entries may be delivered."""

BURST_BYTES = 1 << 20
"""A burst ends after this many bytes, so that one consumer cannot fill a connection's buffer."""

BURST_ENTRIES = 500
"""A burst also ends after this many entries, so that other consumers are served soon."""


@dataclass(frozen=True, slots=True)
class DispatcherSpec:
    """What a dispatcher is made from: its subscription's state, and its first consumer's request.

    Entries from index ``stable_end`` on are not delivered: an open transaction has a message there.
    ``compacted`` are the entries that ``readCompacted`` consumers get.
    """

    subscription: str
    topic: TopicName
    log: Log[Any]
    acks: AckState
    commons: SharedByTopics
    rules: TopicRules
    request: SubscribeRequest
    compacted: CompactedView
    stable_end: int


class Dispatcher(ABC):
    """Sends entries of a log to the consumers of one subscription, as permits allow.

    ``read_index`` is the first entry that was sent to no consumer yet. ``consumers`` are in order
    of joining (a dict, so that adding and removing costs the same, however many there are).
    """

    def __init__(self, spec: DispatcherSpec) -> None:
        self.log = spec.log
        self.acks = spec.acks
        self.consumers: dict[Recipient, None] = {}
        self.read_index = spec.acks.mark + 1
        self.closed = False
        self.turns = spec.commons.turns
        self._waits = False
        self.stable_end = spec.stable_end
        """Index of the first message of an open transaction; the subscription moves it."""
        self.compacted = spec.compacted
        self._feed = EntryReader(spec.log, self.dispatch)
        self._topic, self._limits = spec.topic, spec.commons.limits.dispatch
        self.flow = self._limits.join(spec.topic, spec.subscription, self)
        """Its deliveries under dispatch limits."""

    @property
    def end(self) -> int:
        """The index after the last entry that may be delivered."""
        return min(self.log.end, self.stable_end)

    @property
    def behind(self) -> int:
        """The number of entries of the log that were not delivered to any consumer yet."""
        return self.log.end - self.read_index

    def dispatch(self) -> None:
        """Send what can be sent now. Call it when there are new entries, permits or buffer space.

        What exceeds the broker's work for one turn is sent in a later one (`DeliveryTurns`).
        """
        if self.closed or self._waits or not self.consumers:
            return
        if self.turns.left > 0:
            # Entries that were acknowledged before they were read may be deleted by now.
            self.read_index = max(self.read_index, self.acks.mark + 1)
            self._deliver()
        if self.turns.left <= 0:
            self._waits = True
            # If several clients share it, it waits in the queue of the one attached longest.
            oldest = next(iter(self.consumers), None)
            self.turns.wait(self._go_on, oldest and oldest.sink)

    def time_passed(self) -> None:  # noqa: B027
        """Deliver what is due now, since a test has advanced the clock."""

    def _go_on(self) -> None:
        self._waits = False
        self.dispatch()

    @abstractmethod
    def _deliver(self) -> None:
        """Send what can be sent, until the turn's budget is spent."""

    def offer(self, entry: bytes, messages: int) -> bool:
        """Send an entry of a non-persistent topic now; False if no consumer can take it."""
        recipient = self._taker(entry)
        if recipient is None or not recipient.ready:
            return False
        recipient.permits -= messages
        recipient.send([(0, 0, 0, entry, ())], messages, len(entry))
        return True

    @abstractmethod
    def _taker(self, entry: bytes) -> Recipient | None:
        """The consumer to which an entry would be sent now; None if no consumer can take it."""

    def serves(self, request: SubscribeRequest) -> bool:
        """Whether a consumer with this request may join, by the subscription's type."""
        return True

    @abstractmethod
    def add(self, recipient: Recipient) -> None:
        """Attach a consumer; may raise `BrokerError`."""

    @abstractmethod
    def remove(self, recipient: Recipient) -> None:
        """Detach a consumer; its unacknowledged entries are sent to other consumers."""

    def resume(self, recipient: Recipient) -> None:
        """Deliver to a consumer that has new permits, or whose connection is writable again."""
        self.dispatch()

    @abstractmethod
    def redeliver(self, recipient: Recipient, indexes: Iterable[int] | None) -> None:
        """Deliver unacknowledged entries again: ``indexes``, or all of the consumer's if None."""

    @abstractmethod
    def deliver_again(self, indexes: Sequence[int]) -> None:
        """Deliver entries (at least one) whose acknowledging transaction was aborted."""

    @abstractmethod
    def acked(self, recipient: Recipient, index: int) -> int:
        """Note that a consumer acknowledged an entry.

        Returns the entry's number of messages if it was pending at this consumer, otherwise 0.
        Always 1 for types of subscription that do not record which entries a consumer has.
        """

    def withhold(self, recipient: Recipient, index: int) -> int:
        """Called like `acked`, but for an acknowledgement in a transaction, which may be aborted.

        The entry's redelivery count is kept until the transaction ends (`forget`, `deliver_again`).
        """
        return self.acked(recipient, index)

    def forget(self, index: int) -> None:  # noqa: B027  most keep nothing of it
        """Forget an entry whose acknowledging transaction was committed."""

    def acked_part(self, recipient: Recipient, index: int, left: int) -> None:  # noqa: B027
        """Note that messages of a batch were acknowledged; ``left`` messages of it are not."""

    @abstractmethod
    def acked_through(self, index: int) -> None:
        """Note that every entry up to ``index`` was acknowledged."""

    def rewind(self, index: int) -> None:
        """Deliver from ``index`` on to the next consumer, since the last one has left."""
        self.read_index = index

    def apply(self, rules: TopicRules) -> None:  # noqa: B027  most have no such limit
        """Apply a change of the topic's policies."""

    @property
    def active(self) -> Recipient | None:
        """The active consumer of an Exclusive or Failover subscription; None for other types."""
        return None

    @property
    def delayed(self) -> int:
        """The number of entries read whose delivery is delayed; only with Shared and Key_Shared."""
        return 0

    @property
    def blocked(self) -> bool:
        """Whether delivery stopped because too many messages are unacknowledged."""
        return False

    def close(self) -> None:
        """Deliver nothing more, and leave the dispatch limits."""
        if not self.closed:
            self._limits.leave(self._topic, self.flow)
        self.closed = True
        self._feed.close()
