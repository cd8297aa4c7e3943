"""Key_Shared subscriptions: a key's messages go to one consumer at a time, in order.

When consumers join or leave, a key may get another consumer. Its messages are sent to that consumer
only once the former one has acknowledged all of its messages (PIP-379's draining hashes), so that
their order is kept. Until then they wait, and messages of other keys overtake them, up to a
bound.
"""

from collections import OrderedDict
from heapq import heapify, heappop, heappush

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.dispatch import selectors
from counterpoise.broker.topic.dispatch.dispatcher import BURST_BYTES, BURST_ENTRIES, DispatcherSpec
from counterpoise.broker.topic.dispatch.recipient import Recipient
from counterpoise.broker.topic.dispatch.shared import SharedDispatcher
from counterpoise.broker.topic.ports import SubscribeRequest
from counterpoise.storage.port import Chunk
from counterpoise.wire.encode_runs import Delivery
from counterpoise.wire.errors import ServerError


class KeySharedDispatcher(SharedDispatcher):
    """Delivers the entries of a Key_Shared subscription: all of one key go to one consumer.

    A slot is a hash of keys (`selectors.Selector`). ``_waiting`` has the entries that wait, by
    slot, ``_replay_set`` all of them. ``_lanes`` has for each consumer the slots with entries that
    may be sent to it, ordered by their first one; ``_holders`` for each slot the consumer that
    holds unacknowledged entries of it, and how many. ``_open`` has the consumers that may be ready
    (all that are, and some that no longer are), ``_served`` those of them with something in their
    lane.
    """

    def __init__(self, spec: DispatcherSpec) -> None:
        super().__init__(spec)
        options, meta = spec.commons.options, spec.request.key_shared
        self._look_ahead = options.look_ahead
        self.meta = meta
        self.selector: selectors.Selector[Recipient] = (
            selectors.StickyRanges()
            if meta.sticky_ranges is not None
            else selectors.HashRing()
            if options.key_shared_ring
            else selectors.HalvedRanges()
        )
        self._slots: dict[int, int] = {}
        self._holders: dict[int, tuple[Recipient, int]] = {}
        self._waiting: dict[int, list[int]] = {}
        self._lanes: dict[Recipient, list[tuple[int, int]]] = {}
        self._lanes_stale = False
        """Whether slots have got other consumers since `_lay_lanes`."""
        self._open: OrderedDict[Recipient, None] = OrderedDict()
        self._served: OrderedDict[Recipient, None] = OrderedDict()
        self._lacking: OrderedDict[Recipient, None] = OrderedDict()
        """Consumers whose lane begins with an entry that has to be read from the store."""

    def serves(self, request: SubscribeRequest) -> bool:
        """Whether a consumer with this request can join those attached."""
        meta = request.key_shared
        return (meta.sticky_ranges is None) is (self.meta.sticky_ranges is None) and (
            meta.allow_out_of_order is self.meta.allow_out_of_order
        )

    def _taker(self, entry: bytes) -> Recipient | None:
        return self.selector.select(self.selector.slot(selectors.key_of(entry)))

    def add(self, recipient: Recipient) -> None:
        """Attach a consumer. It gets a key once the former consumer's entries are acknowledged."""
        if not self.serves(recipient.request):
            raise BrokerError(
                ServerError.ConsumerAssignError,
                "Key_Shared consumers of one subscription share one mode (AUTO_SPLIT or STICKY) "
                "and one opinion on out-of-order delivery",
            )
        ranges = recipient.request.key_shared.sticky_ranges
        try:
            self.selector.add(recipient, recipient.name, ranges)
        except selectors.RangesRefusedError as refused:
            raise BrokerError(ServerError.ConsumerAssignError, str(refused)) from None
        super().add(recipient)
        self._lanes_stale = True

    def _detach(self, recipient: Recipient) -> None:
        """Detach a consumer; its keys and unacknowledged entries go to others."""
        self.selector.remove(recipient)
        self._open.pop(recipient, None)
        self._lanes_stale = True
        super()._detach(recipient)

    def _enter(self, recipient: Recipient) -> None:
        self._open.setdefault(recipient)
        if recipient in self._lanes:
            self._served.setdefault(recipient)

    def acked(self, recipient: Recipient, index: int) -> int:
        """Note that an entry was acknowledged: its key may now go to another consumer."""
        was_sent = index in self._holder
        messages = super().acked(recipient, index)
        slot = self._slots.pop(index, None)
        if slot in self._waiting and not was_sent:
            self._keep_waiting(slot, [each for each in self._waiting[slot] if each != index])
        return messages

    def withhold(self, recipient: Recipient, index: int) -> int:
        """Called for an acknowledgement in a transaction; keeps the entry's slot, for an abort."""
        slot = self._slots.get(index)
        messages = super().withhold(recipient, index)
        if slot is not None:
            self._slots[index] = slot
        return messages

    def forget(self, index: int) -> None:
        """Forget an entry whose acknowledging transaction was committed."""
        super().forget(index)
        self._slots.pop(index, None)

    def acked_through(self, index: int) -> None:
        """Note that every entry up to ``index`` was acknowledged."""
        super().acked_through(index)
        for slot, waiting in list(self._waiting.items()):
            self._keep_waiting(slot, [each for each in waiting if each > index])
        for each in [it for it in self._slots if it <= index]:
            del self._slots[each]

    def _keep_waiting(self, slot: int, left: list[int]) -> None:
        """Keep only ``left`` of a slot's waiting entries; the others no longer limit look-ahead."""
        done = {*self._waiting[slot]}.difference(left)
        if not done:
            return
        self._replay_set -= done
        if left:
            heapify(left)
            self._waiting[slot] = left
            self._enter_lane(slot)
        else:
            del self._waiting[slot]

    def replay(self, index: int) -> None:
        """Queue an entry for delivery under its key."""
        slot = self._slots.get(index)
        if slot is not None:
            self._wait(index, slot)

    def rewind(self, index: int) -> None:
        """Deliver again from the entry at ``index`` on."""
        super().rewind(index)
        self._slots.clear()
        self._holders.clear()
        self._waiting.clear()
        self._lay_lanes()

    def _deliver(self) -> None:
        """Send the entries that waited for their consumer first, then new ones."""
        if self._lanes_stale:
            self._lay_lanes()
        served, lacking = self._served, self._lacking
        if not self._feed.is_reading:
            served.update(lacking)
            lacking.clear()
        while served and self._may_send():
            recipient = served.popitem(last=False)[0]
            if recipient.ready and self._lanes.get(recipient) and not self._serve_lane(recipient):
                lacking[recipient] = None
        if lacking:
            # Read for one after the other, each time after all were sent what is in memory.
            if not self._feed.is_reading:
                first = next(iter(lacking))
                lacking.move_to_end(first)
                self._feed.at(self._lanes[first][0][0])
            return
        while (
            self.read_index < self.end
            and len(self._replay_set) < self._look_ahead
            and self._may_send()
            and self._is_any_ready()
        ):
            chunk = self._feed.at(self.read_index)
            if chunk is None:
                return
            self._serve_chunk(chunk)

    def _may_send(self) -> bool:
        return not self._blocked and self.flow.budget()[0] > 0 and self.turns.left > 0

    def _is_any_ready(self) -> bool:
        """Whether a consumer is ready; drops those that are no longer ready."""
        while self._open:
            if next(iter(self._open)).ready:
                return True
            self._open.popitem(last=False)
        return False

    def _serve_lane(self, recipient: Recipient) -> bool:
        """Send a consumer its waiting entries in log order; False if one must be read first."""
        free, room = self.flow.budget()
        lane, most = self._lanes[recipient], min(BURST_BYTES, room)
        burst = _Burst()
        have, looked = True, 0
        while lane and burst.size < most and looked < BURST_ENTRIES and recipient.ready:
            if burst.messages >= free:
                break
            looked += 1
            index, slot = lane[0]
            waiting = self._waiting.get(slot)
            if not waiting or waiting[0] != index:
                heappop(lane)
                continue
            acked = self.acks.skips(index)
            chunk = None if acked else self._feed.in_memory(index)
            if chunk is None and not acked:
                have = False
                break
            heappop(lane)
            self._pop_waiting(slot, waiting)
            if chunk is None:
                if self.acks.is_acked(index):
                    self._slots.pop(index, None)
            elif not self._is_delayed(chunk.entries[index - chunk.first], index):
                messages = self._take(recipient, chunk, index, burst.deliveries)
                self._hand_over(recipient, slot, messages)
                burst.messages += messages
                burst.size += len(chunk.entries[index - chunk.first])
            if slot in self._waiting:
                self._enter_lane(slot)
        self.turns.spend(looked, burst.size)
        self.flow.took(burst.messages, len(burst.deliveries), burst.size)
        burst.send(recipient)
        if not lane:
            self._lanes.pop(recipient, None)
        elif have:
            self._served.setdefault(recipient)
        return have

    def _serve_chunk(self, chunk: Chunk) -> None:
        """Distribute a chunk's entries to the consumers of their keys, or let them wait."""
        free, room = self.flow.budget()
        first, entries, counts = chunk.first, chunk.entries, chunk.messages
        begin, size, sent, entries_sent = self.read_index, 0, 0, 0
        ledger_id, entry_id = self.log.position(begin)
        shift = entry_id - begin
        bursts: dict[Recipient, _Burst] = {}
        slot_of, waiting = self.selector.slot, self._waiting
        is_open, holder = self._open, self._holder
        check = self.acks.has_gaps or begin <= self.acks.mark
        stop = min(first + len(entries), self.end, begin + BURST_ENTRIES)
        for index in range(begin, stop):
            if not is_open or len(self._replay_set) >= self._look_ahead or self._blocked:
                break
            if sent >= free or size >= room:
                break
            self.read_index = index + 1
            skips = check and self.acks.skips(index)
            if skips and self.acks.is_acked(index):
                continue
            entry = entries[index - first]
            self._slots[index] = slot = slot_of(selectors.key_of(entry))
            if skips or self._is_delayed(entry, index):
                continue
            recipient = self._consumer_of(slot)
            if recipient is None or slot in waiting or recipient not in is_open:
                self._wait(index, slot)
                continue
            burst = bursts.get(recipient)
            if burst is None:
                if not recipient.ready:
                    del is_open[recipient]
                    self._wait(index, slot)
                    continue
                burst = bursts[recipient] = _Burst()
            recipient.pending[index] = messages = counts[index - first]
            holder[index] = recipient
            burst.deliveries.append((ledger_id, index + shift, 0, entry, ()))
            burst.messages += messages
            burst.size += len(entry)
            size += len(entry)
            sent += messages
            entries_sent += 1
            self._hand_over(recipient, slot, messages)
            if burst.size >= BURST_BYTES:
                burst.send(recipient)
            if not recipient.ready:
                del is_open[recipient]
        self.turns.spend(self.read_index - begin, size)
        self.flow.took(sent, entries_sent, size)
        for recipient, burst in bursts.items():
            burst.send(recipient)

    def _hand_over(self, recipient: Recipient, slot: int, messages: int) -> None:
        held = self._holders.get(slot)
        self._holders[slot] = (recipient, 1 if held is None else held[1] + 1)
        recipient.permits -= messages
        recipient.unacked += messages
        self._count(messages)
        if recipient.unacked >= self._max_unacked_consumer:
            recipient.blocked = True

    def _consumer_of(self, slot: int) -> Recipient | None:
        """The slot's consumer; None while its former consumer still holds entries of it."""
        recipient = self.selector.select(slot)
        if recipient is None or self.meta.allow_out_of_order:
            return recipient
        held = self._holders.get(slot)
        return recipient if held is None or held[0] is recipient else None

    def _wait(self, index: int, slot: int) -> None:
        if index in self._replay_set:
            return
        self._replay_set.add(index)
        waiting = self._waiting.setdefault(slot, [])
        heappush(waiting, index)
        if waiting[0] == index:
            self._enter_lane(slot)

    def _pop_waiting(self, slot: int, waiting: list[int]) -> None:
        self._replay_set.discard(heappop(waiting))
        if not waiting:
            del self._waiting[slot]

    def _enter_lane(self, slot: int) -> None:
        """Put a waiting slot into its consumer's lane, unless another still holds entries of it."""
        if self._lanes_stale:
            return
        recipient = self._consumer_of(slot)
        if recipient is not None:
            heappush(self._lanes.setdefault(recipient, []), (self._waiting[slot][0], slot))
            if recipient in self._open:
                self._served.setdefault(recipient)

    def _lay_lanes(self) -> None:
        """Assign every slot with waiting entries to its consumer again, after consumers changed."""
        self._lanes_stale = False
        self._lanes = {}
        self._served.clear()
        self._lacking.clear()
        self.turns.spend(len(self._waiting))
        for slot in self._waiting:
            self._enter_lane(slot)

    def _released(self, index: int) -> None:
        """Note that its consumer holds an entry no longer: waiting ones of its slot may be sent."""
        slot = self._slots[index]
        held = self._holders.get(slot)
        if held is None:
            return
        recipient, count = held
        if count > 1:
            self._holders[slot] = (recipient, count - 1)
            return
        del self._holders[slot]
        if slot in self._waiting:
            self._enter_lane(slot)


class _Burst:
    """The messages that are sent to one consumer together."""

    __slots__ = ("deliveries", "messages", "size")

    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []
        self.messages = 0
        self.size = 0

    def send(self, recipient: Recipient) -> None:
        if self.deliveries:
            recipient.send(self.deliveries, self.messages, self.size)
            self.deliveries, self.messages, self.size = [], 0, 0
