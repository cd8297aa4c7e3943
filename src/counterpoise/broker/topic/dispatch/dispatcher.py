"""The interface of dispatchers, through which a subscription delivers, and what they share."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Final

from counterpoise.broker.base.clock import WallClock
from counterpoise.broker.limits.dispatch_flow import DeliveryBudget, Unlimited
from counterpoise.broker.topic.acks import AckState
from counterpoise.broker.topic.compacted_view import NOT_COMPACTED
from counterpoise.broker.topic.dispatch.delivery_turns import DeliveryTurns
from counterpoise.broker.topic.dispatch.entry_reader import EntryReader
from counterpoise.broker.topic.dispatch.recipient import Recipient
from counterpoise.broker.topic.ports import SubscribeRequest
from counterpoise.broker.topic.topic_rules import TopicRules
from counterpoise.storage.grouplog import Log

NO_TRANSACTION: Final = sys.maxsize
"""No transaction is open: all entries may be delivered."""

BURST_BYTES = 1 << 20
"""A burst ends after this many bytes, so that one consumer cannot fill a connection's buffer."""

BURST_ENTRIES = 500
"""A burst also ends after this many entries, so that other consumers are served soon."""


class Dispatcher(ABC):
    """Sends entries of a log to the consumers of one subscription, as permits allow.

    ``read_index`` is the first entry that was sent to no consumer yet. ``consumers`` are in order
    of joining (a dict, so that adding and removing costs the same, however many there are).
    """

    def __init__(self, log: Log[Any], acks: AckState, turns: DeliveryTurns) -> None:
        self.log = log
        self.acks = acks
        self.consumers: dict[Recipient, None] = {}
        self.read_index = acks.mark + 1
        self.closed = False
        self.turns = turns
        self._waits = False
        #: What dispatch limits leave it; the subscription replaces it.
        self.flow: DeliveryBudget = Unlimited()
        #: Where the first message of an open transaction is; the subscription sets it.
        self.stable_end = NO_TRANSACTION
        #: By what delayed messages are due; the subscription replaces it.
        self.wall = WallClock()
        #: What ``readCompacted`` consumers get; the subscription replaces it.
        self.compacted = NOT_COMPACTED
        self._feed = EntryReader(log, self.dispatch)

    @property
    def end(self) -> int:
        """The index after the last entry that may be delivered."""
        return min(self.log.end, self.stable_end)

    @property
    def behind(self) -> int:
        """The number of entries that were not delivered yet."""
        return self.log.end - self.read_index

    def dispatch(self) -> None:
        """Send what can be sent now. Call it when there are new entries, permits or buffer space.

        What exceeds the broker's work for one turn is sent in a later one (`DeliveryTurns`).
        """
        if self.closed or self._waits or not self.consumers:
            return
        if self.turns.left > 0:
            # What was acknowledged and not read, or given back before, may be deleted by now.
            self.read_index = max(self.read_index, self.acks.mark + 1)
            self._deliver()
        if self.turns.left <= 0:
            self._waits = True
            # Where several clients share it, the one that has been here longest waits for all.
            oldest = next(iter(self.consumers), None)
            self.turns.wait(self._go_on, oldest and oldest.sink)

    def time_passed(self) -> None:  # noqa: B027
        """The clock was advanced by a test: deliver what is due now."""

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
        """The consumer to which an entry would be sent now."""

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
        """Deliver unacknowledged entries again: these, or all that were sent to the consumer."""

    @abstractmethod
    def deliver_again(self, indexes: Sequence[int]) -> None:
        """Deliver entries (at least one) whose acknowledging transaction was aborted."""

    @abstractmethod
    def acked(self, recipient: Recipient, index: int) -> int:
        """An entry was acknowledged; returns its messages if this consumer had it, otherwise 0.

        Returns 1 where it is not recorded which entries a consumer has.
        """

    def withhold(self, recipient: Recipient, index: int) -> int:
        """As `acked`, in a transaction: how often the entry was delivered again is kept until that
        ends (`forget`, `deliver_again`).
        """
        return self.acked(recipient, index)

    def forget(self, index: int) -> None:  # noqa: B027  most keep no such count
        """The transaction that acknowledged an entry was committed."""

    def acked_part(self, recipient: Recipient, index: int, left: int) -> None:  # noqa: B027
        """Messages of a batch were acknowledged, and ``left`` of them remain."""

    @abstractmethod
    def acked_through(self, index: int) -> None:
        """Every entry up to ``index`` was acknowledged."""

    def rewind(self, index: int) -> None:
        """The last consumer has left: the next one starts at ``index``."""
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
        """Whether nothing is delivered until consumers acknowledge something."""
        return False

    def close(self) -> None:
        """Deliver nothing more."""
        self.closed = True
        self._feed.close()
