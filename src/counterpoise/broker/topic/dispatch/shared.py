"""Shared subscriptions: entries go round robin to consumers with permits."""

import asyncio
import sys
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from counterpoise.broker.topic.dispatch.chunked_messages import ChunkedMessages
from counterpoise.broker.topic.dispatch.delayed_entries import DelayedEntries
from counterpoise.broker.topic.dispatch.dispatcher import (
    BURST_BYTES,
    BURST_ENTRIES,
    Dispatcher,
    DispatcherSpec,
)
from counterpoise.broker.topic.dispatch.recipient import Recipient
from counterpoise.broker.topic.dispatch.round_robin import RoundRobin
from counterpoise.broker.topic.topic_rules import TopicRules
from counterpoise.storage.port import Chunk
from counterpoise.wire.encode_runs import Delivery
from counterpoise.wire.entry import CHUNK_TAG, DELIVER_AT_TAG, METADATA_BYTES, BadEntry, metadata_of

_NO_LIMIT = sys.maxsize


class SharedDispatcher(Dispatcher):
    """Delivers the entries of a Shared subscription, each to one consumer; redeliveries go first.

    ``_holder`` has the consumer of each entry that was sent and is neither acknowledged nor to be
    redelivered.
    """

    def __init__(self, spec: DispatcherSpec) -> None:
        super().__init__(spec)
        self.wall = spec.commons.wall
        """The clock by which delayed messages are due."""
        self.unacked = 0
        self._blocked = False
        """Whether nothing is delivered until half of the messages allowed are acknowledged."""
        self.redeliveries: dict[int, int] = {}
        self._turn_messages = spec.commons.options.round_robin_messages
        self.apply(spec.rules)
        self._holder: dict[int, Recipient] = {}
        self._replay: list[int] = []
        self._replay_set: set[int] = set()
        self._delayed = DelayedEntries()
        self._timer: asyncio.TimerHandle | None = None
        self._rota = RoundRobin()
        self._chunked = ChunkedMessages()
        self._burst_bytes = BURST_BYTES

    def apply(self, rules: TopicRules) -> None:
        """Apply a change of policies: consumers may continue, or have to acknowledge first."""
        self._max_unacked_consumer = rules.unacked_of_consumer or _NO_LIMIT
        self._max_unacked = rules.unacked_of_subscription or _NO_LIMIT
        self._count(0)
        self._delays, self._early_ms = rules.delays, rules.early_ms
        for each in self.consumers:
            was_blocked, each.blocked = each.blocked, each.unacked >= self._max_unacked_consumer
            if was_blocked and not each.blocked:
                self._enter(each)
        self.dispatch()

    @property
    def delayed(self) -> int:
        """The number of entries read whose delivery is delayed."""
        return len(self._delayed)

    @property
    def blocked(self) -> bool:
        """Whether unacknowledged messages block delivery: from their limit until below half of it.

        As in ``PersistentDispatcherMultipleConsumers.addUnAckedMessages``, but for a limit of one
        message: it blocks Pulsar's dispatcher for ever, and this one until that is acknowledged.
        """
        return self._blocked

    def _taker(self, entry: bytes) -> Recipient | None:
        return self._rota.next()

    def add(self, recipient: Recipient) -> None:
        """Attach a consumer; it gets messages once it has permits."""
        self.consumers[recipient] = None

    def remove(self, recipient: Recipient) -> None:
        """Detach a consumer; its unacknowledged entries are sent to other consumers, in order.

        As in Pulsar, this does not count as a redelivery: the consumer did not refuse the entries.
        """
        self._detach(recipient)
        self.dispatch()

    def _detach(self, recipient: Recipient) -> None:
        del self.consumers[recipient]
        held, recipient.pending = recipient.pending, {}
        self._rota.leave(recipient)
        for index in self._chunked.leave(recipient):
            self.replay(index)
        self._count(-recipient.unacked)
        recipient.unacked = 0
        for index in held:
            del self._holder[index]
            self._released(index)
            if not self.acks.skips(index):
                self.replay(index)

    def resume(self, recipient: Recipient) -> None:
        """Deliver to a consumer that has new permits, or whose connection is writable again."""
        self._enter(recipient)
        self.dispatch()

    def _enter(self, recipient: Recipient) -> None:
        """Put a consumer into the round robin again, if it is ready."""
        for index in self._chunked.pop_waiting(recipient):
            self.replay(index)
        self._rota.enter(recipient)

    def redeliver(self, recipient: Recipient, indexes: Iterable[int] | None) -> None:
        """Deliver unacknowledged entries of a consumer again, to any consumers with permits."""
        pending = recipient.pending
        for index in list(pending) if indexes is None else indexes:
            messages = pending.pop(index, None)
            if messages is not None:
                self._forget(recipient, index, messages)
                self.queue_redelivery(index)
        self.dispatch()

    def deliver_again(self, indexes: Sequence[int]) -> None:
        """Deliver entries (at least one) whose acknowledging transaction was aborted."""
        for index in indexes:
            holder = self._holder.get(index)
            if holder is not None:
                self._forget(holder, index, holder.pending.pop(index))
            if index < self.read_index:
                self.queue_redelivery(index)
        self.dispatch()

    def queue_redelivery(self, index: int) -> None:
        """Count a redelivery of an entry, and queue it unless its delivery is delayed."""
        if self.acks.skips(index):
            return
        self.redeliveries[index] = self.redeliveries.get(index, 0) + 1
        if index not in self._delayed:
            self.replay(index)

    def replay(self, index: int) -> None:
        """Queue an entry for delivery again, without counting a redelivery."""
        if index not in self._replay_set:
            self._replay_set.add(index)
            heappush(self._replay, index)

    def acked(self, recipient: Recipient, index: int) -> int:
        """Note that an entry was acknowledged: a blocked consumer may get more."""
        if self.redeliveries:
            self.redeliveries.pop(index, None)
        messages = recipient.pending.pop(index, None)
        if messages is not None:
            self._forget(recipient, index, messages)
            return messages
        # Another consumer may hold it by now: after a reconnect clients ack what they got.
        other = self._holder.get(index)
        if other is not None:
            self._forget(other, index, other.pending.pop(index))
        return 0

    def withhold(self, recipient: Recipient, index: int) -> int:
        """Called for an acknowledgement in a transaction; keeps the entry's redelivery count."""
        count = self.redeliveries.get(index)
        messages = self.acked(recipient, index)
        if count is not None:
            self.redeliveries[index] = count
        return messages

    def forget(self, index: int) -> None:
        """Forget an entry whose acknowledging transaction was committed."""
        self.redeliveries.pop(index, None)
        if index in self._holder:  # the rest of its batch was acknowledged outside of it
            self.acked(self._holder[index], index)

    def acked_part(self, recipient: Recipient, index: int, left: int) -> None:
        """Note that messages of a batch were acknowledged, and ``left`` messages of it remain."""
        done = recipient.pending.get(index, left) - left
        if done > 0:
            recipient.pending[index] = left
            self._count_acked(recipient, done)

    def acked_through(self, index: int) -> None:
        """Note that every entry up to ``index`` was acknowledged."""
        self.read_index = max(self.read_index, index + 1)
        for held in [i for i in self._holder if i <= index]:
            self.acked(self._holder[held], held)
        for each in [i for i in self.redeliveries if i <= index]:
            del self.redeliveries[each]
        self._delayed.forget_through(index)

    def _released(self, index: int) -> None:
        """Called when no consumer holds this entry any more; Key_Shared overrides it."""

    def _forget(self, recipient: Recipient, index: int, messages: int) -> None:
        """Remove an entry of ``messages`` messages from those that the consumer holds."""
        del self._holder[index]
        self._released(index)
        self._count_acked(recipient, messages)

    def _count_acked(self, recipient: Recipient, messages: int) -> None:
        recipient.unacked -= messages
        self._count(-messages)
        if recipient.blocked and recipient.unacked <= self._max_unacked_consumer // 2:
            recipient.blocked = False
            self._enter(recipient)

    def _count(self, messages: int) -> None:
        """Add to the number of unacknowledged messages; negative: subtract."""
        self.unacked += messages
        if self.unacked >= self._max_unacked:
            self._blocked = True
        elif self.unacked < max(self._max_unacked // 2, 1):
            self._blocked = False

    def rewind(self, index: int) -> None:
        """Deliver from ``index`` on again; nothing is queued for redelivery any more."""
        super().rewind(index)
        self._replay.clear()
        self._replay_set.clear()
        self._delayed = DelayedEntries()
        self.redeliveries.clear()

    def close(self) -> None:
        """Deliver nothing more, and cancel timers of delayed messages."""
        if self._timer is not None:
            self._timer.cancel()
        super().close()

    def _deliver(self) -> None:
        """Send what permits allow: entries queued for redelivery first, then new ones."""
        turns = self.turns
        while (self._replay or self.read_index < self.end) and not self._blocked and turns.left > 0:
            recipient = self._rota.next()
            if recipient is None or not self._serve(recipient):
                return

    def _serve(self, recipient: Recipient) -> bool:
        """Send one consumer its turn's messages; False if entries must be read first."""
        free, room = self.flow.budget()
        if free <= 0:
            return False
        self._burst_bytes = min(BURST_BYTES, room)
        turn = min(recipient.permits, self._max_unacked_consumer - recipient.unacked, free)
        if len(self.consumers) > 1:
            turn = min(turn, self._turn_messages)
        burst: list[Delivery] = []
        left = turn
        if self._replay:
            left, size, have = self._serve_again(recipient, left, burst)
        else:
            left, size, have = self._serve_new(recipient, left, burst)
        if burst:
            self._send(recipient, burst, turn - left, size)
        return have

    def _send(self, recipient: Recipient, burst: list[Delivery], sent: int, size: int) -> None:
        recipient.permits -= sent
        recipient.unacked += sent
        self._count(sent)
        recipient.blocked = recipient.unacked >= self._max_unacked_consumer
        self.flow.took(sent, len(burst), size)
        recipient.send(burst, sent, size)

    def _serve_new(
        self, recipient: Recipient, left: int, burst: list[Delivery]
    ) -> tuple[int, int, bool]:
        """Fill ``burst`` with new entries, up to ``left`` messages or slightly more.

        Returns how many messages are left, the bytes added, and False if the entries have to be
        read from the store first.
        """
        index, size = self.read_index, 0
        chunk = self._feed.at(index)
        if chunk is None:
            return left, 0, False
        first, entries, counts = chunk.first, chunk.entries, chunk.messages
        ledger_id, entry_id = self.log.position(index)
        shift = entry_id - index
        stop = min(first + len(entries), self.end, index + BURST_ENTRIES)
        check = self.acks.has_gaps or index <= self.acks.mark
        pending, holder = recipient.pending, self._holder
        while index < stop and left > 0 and size < self._burst_bytes:
            entry = entries[index - first]
            if (
                (check and self.acks.skips(index))
                or (
                    entry.find(DELIVER_AT_TAG, 0, METADATA_BYTES) >= 0
                    and self._is_delayed(entry, index)
                )
                or (
                    entry.find(CHUNK_TAG, 0, METADATA_BYTES) >= 0
                    and self._is_of_another(recipient, chunk, index)
                )
            ):
                index += 1
                continue
            pending[index] = messages = counts[index - first]
            holder[index] = recipient
            burst.append((ledger_id, index + shift, 0, entry, ()))
            left -= messages
            size += len(entry)
            index += 1
        self.turns.spend(index - self.read_index, size)
        self.read_index = index
        return left, size, True

    def _serve_again(
        self, recipient: Recipient, left: int, burst: list[Delivery]
    ) -> tuple[int, int, bool]:
        """Add entries queued for redelivery to ``burst``; arguments and result as `_serve_new`."""
        size = looked = 0
        while self._replay and left > 0 and size < self._burst_bytes and looked < BURST_ENTRIES:
            looked += 1
            index = self._replay[0]
            if self.acks.skips(index):
                self._replay_set.discard(heappop(self._replay))
                continue
            chunk = self._feed.at(index)
            if chunk is None:
                return left, size, False
            self._replay_set.discard(heappop(self._replay))
            entry = chunk.entries[index - chunk.first]
            if self._is_delayed(entry, index) or self._is_of_another(recipient, chunk, index):
                continue
            left -= self._take(recipient, chunk, index, burst)
            size += len(entry)
        self.turns.spend(looked, size)
        return left, size, True

    def _is_of_another(self, recipient: Recipient, chunk: Chunk, index: int) -> bool:
        """Whether another consumer gets the entry, with the rest of a message sent in chunks.

        It is sent to that consumer now, or waits for it.
        """
        entry = chunk.entries[index - chunk.first]
        consumer = self._chunked.consumer_of(entry, index, recipient)
        if consumer is not None and consumer is not recipient:
            burst: list[Delivery] = []
            messages = self._take(consumer, chunk, index, burst)
            self._send(consumer, burst, messages, len(entry))
        return consumer is not recipient

    def _take(self, recipient: Recipient, chunk: Chunk, index: int, burst: list[Delivery]) -> int:
        """Record that the consumer holds the entry; returns its number of messages."""
        at = index - chunk.first
        messages = chunk.messages[at]
        ledger_id, entry_id = self.log.position(index)
        count = self.redeliveries.get(index, 0) if self.redeliveries else 0
        if count:
            recipient.sent_again(messages, len(chunk.entries[at]))
        burst.append((ledger_id, entry_id, count, chunk.entries[at], ()))
        recipient.pending[index] = messages
        self._holder[index] = recipient
        return messages

    def _is_delayed(self, entry: bytes, index: int) -> bool:
        """Whether the entry's delivery is delayed (PIP-26); if so, it is queued until it is due."""
        if not self._delays or entry.find(DELIVER_AT_TAG, 0, METADATA_BYTES) < 0:
            return False
        try:
            due = metadata_of(entry).deliver_at_time
        except BadEntry:
            return False
        if due <= self.wall() * 1000 + self._early_ms:
            return False
        if self._delayed.add(due, index):
            self._arm()
        return True

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if (due_ms := self._delayed.due_ms) is not None:
            wait = max(due_ms / 1000 - self.wall(), 0)
            self._timer = asyncio.get_running_loop().call_later(wait, self._due)

    def time_passed(self) -> None:
        """Deliver delayed messages that are due, since a test has advanced the clock."""
        self._arm()

    def _due(self) -> None:
        now = self.wall() * 1000 + self._early_ms
        for _ in range(BURST_ENTRIES):
            due_ms = self._delayed.due_ms
            if due_ms is None or due_ms > now:
                break
            self.replay(self._delayed.pop())
        self._arm()
        self.dispatch()
