"""Key_Shared subscriptions: a key's messages go to one consumer at a time, in order.

When consumers come or go a key may change hands. It does so only once its former consumer has
nothing of it left to acknowledge (PIP-379's draining hashes), so that the order of a key's
messages survives. What cannot be sent yet waits by key, and other keys pass it, up to a bound.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

from counterpoise.broker.errors import BrokerError
from counterpoise.broker.topic.acks import AckState
from counterpoise.broker.topic.consumer import Consumer
from counterpoise.broker.topic.dispatch import BURST_BYTES
from counterpoise.broker.topic.dispatch_shared import SharedDispatcher
from counterpoise.broker.topic.options import TopicOptions
from counterpoise.broker.topic.ports import Delivery, KeySharedMeta
from counterpoise.broker.topic.selectors import (
    HashRing,
    RangesRefusedError,
    Selector,
    StickyRanges,
)
from counterpoise.storage.port import Chunk, Log
from counterpoise.wire.entry import NO_KEY, BadEntry, metadata_of, sticky_key
from counterpoise.wire.errors import ServerError


class KeySharedDispatcher(SharedDispatcher):
    """Shared delivery with a consumer per key.

    ``_waiting`` has the entries that wait, by slot; ``_lanes`` the slots each consumer could be
    sent something of, by their first entry; ``_holders`` who holds unacknowledged entries of a
    slot and how many.
    """

    def __init__(
        self, log: Log[Any], acks: AckState, options: TopicOptions, meta: KeySharedMeta
    ) -> None:
        super().__init__(log, acks, options)
        self._look_ahead = options.look_ahead
        self.meta = meta
        self.selector: Selector[Consumer] = (
            HashRing() if meta.sticky_ranges is None else StickyRanges()
        )
        self._slots: dict[int, int] = {}
        self._holders: dict[int, tuple[Consumer, int]] = {}
        self._waiting: dict[int, list[int]] = {}
        self._waiting_count = 0
        self._lanes: dict[Consumer, list[tuple[int, int]]] = {}

    def serves(self, meta: KeySharedMeta) -> bool:
        """Whether consumers with these wishes can be attached together."""
        return (meta.sticky_ranges is None) is (self.meta.sticky_ranges is None) and (
            meta.allow_out_of_order is self.meta.allow_out_of_order
        )

    def add(self, consumer: Consumer) -> None:
        """Attach a consumer; some keys become its own once they are drained elsewhere."""
        wanted = consumer.request.key_shared
        if not self.serves(wanted):
            raise BrokerError(
                ServerError.ConsumerAssignError,
                "Key_Shared consumers of one subscription share one mode (AUTO_SPLIT or STICKY) "
                "and one opinion on out-of-order delivery",
            )
        try:
            self.selector.add(consumer, consumer.name, wanted.sticky_ranges)
        except RangesRefusedError as refused:
            raise BrokerError(ServerError.ConsumerAssignError, str(refused)) from None
        super().add(consumer)
        self._rebuild_lanes()

    def _detach(self, consumer: Consumer) -> None:
        """Detach a consumer; its keys and what it held go to others."""
        self.selector.remove(consumer)
        super()._detach(consumer)
        self._rebuild_lanes()

    def acked(self, consumer: Consumer, index: int) -> int:
        """Forget an acknowledged entry; its key may be free to change hands."""
        messages = super().acked(consumer, index)
        self._slots.pop(index, None)
        return messages

    def replay(self, index: int) -> None:
        """Queue an entry under its key."""
        slot = self._slots.get(index)
        if slot is not None:
            self._wait(index, slot)

    def rewind(self, index: int) -> None:
        """Start again at ``index``."""
        super().rewind(index)
        self._slots.clear()
        self._holders.clear()
        self._waiting.clear()
        self._waiting_count = 0
        self._rebuild_lanes()

    def dispatch(self) -> None:
        """Send what waits for its consumer first, then what was never sent."""
        if self.closed or not self.consumers or self.unacked >= self._max_unacked:
            return
        for consumer in self.consumers:
            if self.ready(consumer) and self._lanes.get(consumer):
                self._serve_lane(consumer)
        if self.read_index < self.log.end:
            self._serve_keys()

    def _serve_lane(self, consumer: Consumer) -> None:
        """Send a consumer what waits for it, in the order of the log."""
        lane = self._lanes[consumer]
        burst = _Burst()
        while lane and burst.size < BURST_BYTES and consumer.permits > 0 and not consumer.blocked:
            index, slot = lane[0]
            waiting = self._waiting.get(slot)
            if not waiting or waiting[0] != index:
                heappop(lane)
                continue
            acked = self.acks.is_acked(index)
            chunk = None if acked else self.feed.at(index)
            if chunk is None and not acked:
                break
            heappop(lane)
            self._pop_waiting(slot, waiting)
            if chunk is None:
                self._slots.pop(index, None)
            elif not self._is_delayed(chunk.entries[index - chunk.first], index):
                messages = self._take(consumer, chunk, index, burst.deliveries)
                self._hand_over(consumer, index, slot, messages)
                burst.messages += messages
                burst.size += len(chunk.entries[index - chunk.first])
            if slot in self._waiting:
                self._enter_lane(slot)
        burst.send(consumer)

    def _serve_keys(self) -> None:
        """Read on: send each entry to its key's consumer, or let it wait."""
        open_to = {c for c in self.consumers if self.ready(c)}
        bursts: dict[Consumer, _Burst] = {}
        end = self.log.end
        while open_to and self.read_index < end and self._waiting_count < self._look_ahead:
            chunk = self.feed.at(self.read_index)
            if chunk is None:
                break
            self._serve_chunk(chunk, end, open_to, bursts)
            for consumer, burst in bursts.items():
                burst.send(consumer)
            open_to = {c for c in open_to if self.ready(c)}
            if self.unacked >= self._max_unacked:
                break

    def _serve_chunk(
        self, chunk: Chunk, end: int, open_to: set[Consumer], bursts: dict[Consumer, _Burst]
    ) -> None:
        """Deal one chunk's entries out, until nobody in ``open_to`` can take more."""
        first, entries, counts = chunk.first, chunk.entries, chunk.messages
        ledger_id, entry_id = self.log.position(self.read_index)
        shift = entry_id - self.read_index
        slot_of, waiting, most = self.selector.slot, self._waiting, self._max_unacked
        check = self.acks.above or self.read_index <= self.acks.mark
        for index in range(self.read_index, min(first + len(entries), end)):
            if not open_to or self._waiting_count >= self._look_ahead or self.unacked >= most:
                return
            self.read_index = index + 1
            if check and self.acks.is_acked(index):
                continue
            entry = entries[index - first]
            self._slots[index] = slot = slot_of(key_of(entry))
            if self._is_delayed(entry, index):
                continue
            consumer = self._consumer_of(slot)
            if consumer is None or slot in waiting or consumer not in open_to:
                self._wait(index, slot)
                continue
            burst = bursts.get(consumer)
            if burst is None:
                burst = bursts[consumer] = _Burst()
            consumer.pending[index] = messages = counts[index - first]
            burst.deliveries.append((ledger_id, index + shift, 0, entry, ()))
            burst.messages += messages
            burst.size += len(entry)
            self._hand_over(consumer, index, slot, messages)
            if burst.size >= BURST_BYTES:
                burst.send(consumer)
            if not self.ready(consumer):
                open_to.discard(consumer)

    def _hand_over(self, consumer: Consumer, index: int, slot: int, messages: int) -> None:
        held = self._holders.get(slot)
        self._holders[slot] = (consumer, 1 if held is None else held[1] + 1)
        consumer.permits -= messages
        consumer.unacked += messages
        self.unacked += messages
        if consumer.unacked >= self._max_unacked_consumer:
            consumer.blocked = True

    def _consumer_of(self, slot: int) -> Consumer | None:
        """Whom the slot may be sent to now; None while its former consumer is not done."""
        consumer = self.selector.select(slot)
        if consumer is None or self.meta.allow_out_of_order:
            return consumer
        held = self._holders.get(slot)
        return consumer if held is None or held[0] is consumer else None

    def _wait(self, index: int, slot: int) -> None:
        waiting = self._waiting.setdefault(slot, [])
        heappush(waiting, index)
        self._waiting_count += 1
        if waiting[0] == index:
            self._enter_lane(slot)

    def _pop_waiting(self, slot: int, waiting: list[int]) -> None:
        heappop(waiting)
        self._waiting_count -= 1
        if not waiting:
            del self._waiting[slot]

    def _enter_lane(self, slot: int) -> None:
        """Offer a waiting slot to its consumer, unless it must drain elsewhere first."""
        consumer = self._consumer_of(slot)
        if consumer is not None:
            heappush(self._lanes.setdefault(consumer, []), (self._waiting[slot][0], slot))

    def _rebuild_lanes(self) -> None:
        self._lanes = {}
        for slot in self._waiting:
            self._enter_lane(slot)

    def _released(self, index: int) -> None:
        """A consumer no longer holds this entry."""
        slot = self._slots[index]
        held = self._holders.get(slot)
        if held is None:
            return
        consumer, count = held
        if count > 1:
            self._holders[slot] = (consumer, count - 1)
            return
        del self._holders[slot]
        if slot in self._waiting:
            self._enter_lane(slot)


class _Burst:
    """What one consumer is about to be sent."""

    __slots__ = ("deliveries", "messages", "size")

    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []
        self.messages = 0
        self.size = 0

    def send(self, consumer: Consumer) -> None:
        if self.deliveries:
            consumer.send(self.deliveries, self.messages, self.size)
            self.deliveries, self.messages, self.size = [], 0, 0


def key_of(entry: bytes) -> bytes:
    """The key that decides the consumer of an entry."""
    try:
        return sticky_key(metadata_of(entry))
    except (BadEntry, ValueError):
        return NO_KEY
