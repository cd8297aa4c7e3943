"""Shared subscriptions: entries go round robin to whoever has permits, and back if not acked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Any

from counterpoise.broker.topic.acks import AckState
from counterpoise.broker.topic.consumer import Consumer
from counterpoise.broker.topic.dispatch import BURST_BYTES, Dispatcher
from counterpoise.broker.topic.options import TopicOptions
from counterpoise.broker.topic.ports import Delivery
from counterpoise.storage.port import Chunk, Log
from counterpoise.wire.entry import BadEntry, metadata_of

_DELIVER_AT_TAG = b"\x98\x01"
"""How field 19 (``deliver_at_time``) of the message metadata begins; rarely there by chance."""

_METADATA_BYTES = 4096
"""Where to look for it: a larger metadata would have to have enormous properties."""


class SharedDispatcher(Dispatcher):
    """Each entry goes to one consumer; what comes back is sent first, counted as redelivered."""

    def __init__(self, log: Log[Any], acks: AckState, options: TopicOptions) -> None:
        super().__init__(log, acks)
        self.unacked = 0
        self.redeliveries: dict[int, int] = {}
        self._turn_messages = options.round_robin_messages
        self._max_unacked_consumer = options.max_unacked_per_consumer
        self._max_unacked = options.max_unacked_per_subscription
        self._replay: list[int] = []
        self._replay_set: set[int] = set()
        self._delayed: list[tuple[int, int]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._turn = 0

    def add(self, consumer: Consumer) -> None:
        """Attach a consumer behind those of its own or a better priority."""
        self.consumers.append(consumer)
        self.consumers.sort(key=lambda c: c.priority)

    def remove(self, consumer: Consumer) -> None:
        """Detach a consumer; what it held is sent to others, in order."""
        self._detach(consumer)
        self.dispatch()

    def _detach(self, consumer: Consumer) -> None:
        self.consumers.remove(consumer)
        held, consumer.pending = consumer.pending, {}
        self.unacked -= consumer.unacked
        consumer.unacked = 0
        for index in held:
            self._released(index)
            self.give_back(index)

    def redeliver(self, consumer: Consumer, indexes: Iterable[int] | None) -> None:
        """Send entries the consumer holds again, to whoever has permits."""
        pending = consumer.pending
        for index in list(pending) if indexes is None else indexes:
            messages = pending.pop(index, None)
            if messages is not None:
                self._forget(consumer, index, messages)
                self.give_back(index)
        self.dispatch()

    def give_back(self, index: int) -> None:
        """Queue an entry for another delivery."""
        if self.acks.is_acked(index):
            return
        self.redeliveries[index] = self.redeliveries.get(index, 0) + 1
        self.replay(index)

    def replay(self, index: int) -> None:
        """Queue an entry without counting a redelivery."""
        if index not in self._replay_set:
            self._replay_set.add(index)
            heappush(self._replay, index)

    def acked(self, consumer: Consumer, index: int) -> int:
        """Forget an acknowledged entry; the consumer may get more if it was blocked."""
        if self.redeliveries:
            self.redeliveries.pop(index, None)
        messages = consumer.pending.pop(index, None)
        if messages is not None:
            self._forget(consumer, index, messages)
            return messages
        # Another consumer may hold it by now: after a reconnect clients ack what they got.
        for other in self.consumers:
            messages = other.pending.pop(index, None)
            if messages is not None:
                self._forget(other, index, messages)
                break
        return 0

    def acked_through(self, index: int) -> None:
        """The cursor was moved over entries: nobody holds them any more."""
        self.read_index = max(self.read_index, index + 1)
        for consumer in self.consumers:
            for held in [i for i in consumer.pending if i <= index]:
                self.acked(consumer, held)

    def _released(self, index: int) -> None:
        """Nobody holds this entry any more."""

    def _forget(self, consumer: Consumer, index: int, messages: int) -> None:
        self._released(index)
        consumer.unacked -= messages
        self.unacked -= messages
        if consumer.blocked and consumer.unacked <= self._max_unacked_consumer // 2:
            consumer.blocked = False

    def rewind(self, index: int) -> None:
        """Start again at ``index``: nothing is held or waiting any more."""
        super().rewind(index)
        self._replay.clear()
        self._replay_set.clear()
        self._delayed.clear()
        self.redeliveries.clear()
        self.unacked = 0
        for consumer in self.consumers:
            consumer.pending.clear()
            consumer.unacked = 0
            consumer.blocked = False

    def close(self) -> None:
        """Send nothing more."""
        if self._timer is not None:
            self._timer.cancel()
        super().close()

    def ready(self, consumer: Consumer) -> bool:
        """Whether the consumer can be sent something."""
        return consumer.permits > 0 and not consumer.blocked and consumer.sink.writable

    def next_ready(self) -> Consumer | None:
        """Whose turn it is: round robin inside the best priority that has someone ready."""
        consumers = self.consumers
        count = len(consumers)
        best: Consumer | None = None
        for step in range(count):
            consumer = consumers[(self._turn + step) % count]
            if self.ready(consumer) and (best is None or consumer.priority < best.priority):
                best, chosen = consumer, (self._turn + step) % count
                if consumer.priority == consumers[0].priority:
                    break
        if best is not None:
            self._turn = (chosen + 1) % count
        return best

    def dispatch(self) -> None:
        """Send what permits allow: what came back first, then what was never sent."""
        if self.closed:
            return
        while (self._replay or self.read_index < self.log.end) and self.unacked < self._max_unacked:
            consumer = self.next_ready()
            if consumer is None or not self._serve(consumer):
                return

    def _serve(self, consumer: Consumer) -> bool:
        """Give one consumer its turn; False when entries must be read first."""
        turn = min(consumer.permits, self._max_unacked_consumer - consumer.unacked)
        if len(self.consumers) > 1:
            turn = min(turn, self._turn_messages)
        burst: list[Delivery] = []
        left = turn
        if self._replay:
            left, size, have = self._serve_again(consumer, left, burst)
        else:
            left, size, have = self._serve_new(consumer, left, burst)
        if burst:
            sent = turn - left
            consumer.permits -= sent
            consumer.unacked += sent
            self.unacked += sent
            consumer.blocked = consumer.unacked >= self._max_unacked_consumer
            consumer.send(burst, sent, size)
        return have

    def _serve_new(
        self, consumer: Consumer, left: int, burst: list[Delivery]
    ) -> tuple[int, int, bool]:
        """Fill ``burst`` with entries nobody was sent: (messages left, bytes, whether read)."""
        index, size = self.read_index, 0
        chunk = self.feed.at(index)
        if chunk is None:
            return left, 0, False
        first, entries, counts = chunk.first, chunk.entries, chunk.messages
        ledger_id, entry_id = self.log.position(index)
        shift = entry_id - index
        stop = min(first + len(entries), self.log.end)
        check = self.acks.above or index <= self.acks.mark
        pending = consumer.pending
        while index < stop and left > 0 and size < BURST_BYTES:
            entry = entries[index - first]
            if (check and self.acks.is_acked(index)) or (
                entry.find(_DELIVER_AT_TAG, 0, _METADATA_BYTES) >= 0
                and self._is_delayed(entry, index)
            ):
                index += 1
                continue
            pending[index] = messages = counts[index - first]
            burst.append((ledger_id, index + shift, 0, entry, ()))
            left -= messages
            size += len(entry)
            index += 1
        self.read_index = index
        return left, size, True

    def _serve_again(
        self, consumer: Consumer, left: int, burst: list[Delivery]
    ) -> tuple[int, int, bool]:
        """Fill ``burst`` with entries that came back, as `_serve_new` does."""
        size = 0
        while self._replay and left > 0 and size < BURST_BYTES:
            index = self._replay[0]
            if self.acks.is_acked(index):
                self._replay_set.discard(heappop(self._replay))
                continue
            chunk = self.feed.at(index)
            if chunk is None:
                return left, size, False
            self._replay_set.discard(heappop(self._replay))
            entry = chunk.entries[index - chunk.first]
            if self._is_delayed(entry, index):
                continue
            left -= self._take(consumer, chunk, index, burst)
            size += len(entry)
        return left, size, True

    def _take(self, consumer: Consumer, chunk: Chunk, index: int, burst: list[Delivery]) -> int:
        """Hand the entry over to the consumer; returns its messages."""
        at = index - chunk.first
        messages = chunk.messages[at]
        ledger_id, entry_id = self.log.position(index)
        count = self.redeliveries.get(index, 0) if self.redeliveries else 0
        if count:
            consumer.msgs_redelivered += messages
        burst.append((ledger_id, entry_id, count, chunk.entries[at], ()))
        consumer.pending[index] = messages
        return messages

    def _is_delayed(self, entry: bytes, index: int) -> bool:
        """Whether the entry asks for a later delivery (PIP-26); then it waits for its time."""
        if entry.find(_DELIVER_AT_TAG, 0, _METADATA_BYTES) < 0:
            return False
        try:
            due = metadata_of(entry).deliver_at_time
        except BadEntry:
            return False
        if due <= time.time() * 1000:
            return False
        heappush(self._delayed, (due, index))
        self._arm()
        return True

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if self._delayed:
            wait = max(self._delayed[0][0] / 1000 - time.time(), 0)
            self._timer = asyncio.get_running_loop().call_later(wait, self._due)

    def _due(self) -> None:
        now = time.time() * 1000
        while self._delayed and self._delayed[0][0] <= now:
            self.replay(heappop(self._delayed)[1])
        self._arm()
        self.dispatch()
