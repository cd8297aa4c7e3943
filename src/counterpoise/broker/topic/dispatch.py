"""What every dispatcher does, and the one that serves a single active consumer."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from counterpoise.broker.topic.acks import AckState
from counterpoise.broker.topic.active import active_index
from counterpoise.broker.topic.consumer import Consumer
from counterpoise.broker.topic.feed import Feed
from counterpoise.broker.topic.ports import Delivery
from counterpoise.storage.port import Log
from counterpoise.wire.values import SubscriptionType

BURST_BYTES = 1 << 20
"""A burst ends after this many bytes, so that one consumer cannot fill a connection's buffer."""

BURST_ENTRIES = 500


class Dispatcher(ABC):
    """Moves entries from a log to the consumers of one subscription, as permits allow.

    ``read_index`` is the next entry that nobody was sent yet.
    """

    def __init__(self, log: Log[Any], acks: AckState) -> None:
        self.log = log
        self.acks = acks
        self.consumers: list[Consumer] = []
        self.read_index = acks.mark + 1
        self.closed = False
        self.feed = Feed(log, self.dispatch)

    @abstractmethod
    def dispatch(self) -> None:
        """Send what can be sent now. Called when entries, permits or room have come."""

    @abstractmethod
    def add(self, consumer: Consumer) -> None:
        """Attach a consumer; may raise `BrokerError`."""

    @abstractmethod
    def remove(self, consumer: Consumer) -> None:
        """Detach a consumer; what it held is sent to others."""

    @abstractmethod
    def redeliver(self, consumer: Consumer, indexes: Iterable[int] | None) -> None:
        """Send unacknowledged entries again: these, or all the consumer holds."""

    @abstractmethod
    def acked(self, consumer: Consumer, index: int) -> int:
        """An entry was acknowledged; returns its messages if the consumer held it, else 0."""

    @abstractmethod
    def acked_through(self, index: int) -> None:
        """Every entry up to ``index`` was acknowledged."""

    def rewind(self, index: int) -> None:
        """Start again at ``index``: the cursor was moved."""
        self.read_index = index

    def is_active(self, consumer: Consumer) -> bool:
        """Whether the consumer gets messages."""
        return True

    def close(self) -> None:
        """Send nothing more."""
        self.closed = True
        self.feed.close()


class SingleActiveDispatcher(Dispatcher):
    """Exclusive and Failover: one consumer gets everything, in order.

    When another consumer becomes active it starts at the mark-delete position again. For a
    Failover switch away from a consumer that is still attached, ``switch_delay`` seconds pass
    before the new one is served, so that acknowledgements under way still arrive
    (``activeConsumerFailoverDelayTimeMillis``; there is no wait when nobody was active).
    """

    def __init__(
        self,
        log: Log[Any],
        acks: AckState,
        kind: SubscriptionType,
        topic: str,
        *,
        switch_delay: float = 1.0,
    ) -> None:
        super().__init__(log, acks)
        self._kind = kind
        self._topic = topic
        self._switch_delay = switch_delay
        self._active: Consumer | None = None
        self._serving: Consumer | None = None
        self._switch: asyncio.TimerHandle | None = None

    @property
    def active(self) -> Consumer | None:
        """Who is sent messages now."""
        return self._serving

    def is_active(self, consumer: Consumer) -> bool:
        """Whether the consumer is the one served (or about to be)."""
        return consumer is self._active

    def add(self, consumer: Consumer) -> None:
        """Attach a consumer; it may become the active one."""
        self.consumers.append(consumer)
        if not self._choose() and self._kind is SubscriptionType.Failover:
            consumer.sink.active_change(consumer.consumer_id, False)

    def remove(self, consumer: Consumer) -> None:
        """Detach a consumer; another may become active."""
        self.consumers.remove(consumer)
        if consumer is self._serving:
            self._serving = None
        if not self.consumers:
            self._active = None
            self._cancel_switch()
        elif not self._choose() and self._serving is None and self._active is not None:
            # The one that was to be relieved has left: there is nothing to wait for any more.
            self._cancel_switch()
            self._serve(self._active)

    def redeliver(self, consumer: Consumer, indexes: Iterable[int] | None) -> None:
        """Send everything unacknowledged again: order leaves no other choice."""
        if consumer is self._serving:
            self.read_index = self.acks.mark + 1
            self.dispatch()

    def acked(self, consumer: Consumer, index: int) -> int:
        """Entries are not held one by one here."""
        return 0

    def acked_through(self, index: int) -> None:
        """The cursor may have overtaken the reader."""
        self.read_index = max(self.read_index, index + 1)

    def dispatch(self) -> None:
        """Send the active consumer what it has permits for."""
        consumer = self._serving
        if consumer is None or self.closed:
            return
        end = self.log.end
        while consumer.permits > 0 and self.read_index < end and consumer.sink.writable:
            if not self._send_burst(consumer, end):
                return

    def _send_burst(self, consumer: Consumer, end: int) -> bool:
        index = self.read_index
        chunk = self.feed.at(index)
        if chunk is None:
            return False
        ledger_id, entry_id = self.log.position(index)
        start = index - chunk.first
        stop = min(len(chunk.entries), end - chunk.first, start + BURST_ENTRIES)
        shift = entry_id - start
        check = self.acks.above or index <= self.acks.mark
        permits, size = consumer.permits, 0
        burst: list[Delivery] = []
        at = start
        for at in range(start, stop):
            if check and self.acks.is_acked(chunk.first + at):
                continue
            entry = chunk.entries[at]
            burst.append((ledger_id, at + shift, 0, entry, ()))
            permits -= chunk.messages[at]
            size += len(entry)
            if permits <= 0 or size >= BURST_BYTES:
                break
        self.read_index = chunk.first + at + 1
        if burst:
            messages = consumer.permits - permits
            consumer.permits = permits
            consumer.send(burst, messages, size)
        return True

    def _choose(self) -> bool:
        """Pick the active consumer; whether it changed."""
        if self._kind is SubscriptionType.Exclusive:
            chosen = self.consumers[0]
        else:
            ranked = [(c.priority, c.name) for c in self.consumers]
            partition = self.consumers[0].partition
            chosen = self.consumers[active_index(ranked, self._topic, partition)]
        if chosen is self._active:
            return False
        self._active = chosen
        self._cancel_switch()
        former, self._serving = self._serving, None
        if former is None or self._switch_delay <= 0:
            self._serve(chosen)
        else:
            loop = asyncio.get_running_loop()
            self._switch = loop.call_later(self._switch_delay, self._serve, chosen)
        return True

    def _serve(self, chosen: Consumer) -> None:
        self._switch = None
        self._serving = chosen
        self.read_index = self.acks.mark + 1
        if self._kind is SubscriptionType.Failover:
            for consumer in self.consumers:
                consumer.sink.active_change(consumer.consumer_id, consumer is chosen)
        self.dispatch()

    def _cancel_switch(self) -> None:
        if self._switch is not None:
            self._switch.cancel()
            self._switch = None

    def close(self) -> None:
        """Send nothing more."""
        self._cancel_switch()
        super().close()
