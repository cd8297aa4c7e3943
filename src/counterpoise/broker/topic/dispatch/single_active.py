"""Exclusive and Failover subscriptions: one consumer gets everything, in order."""

import asyncio
from collections.abc import Iterable, Sequence

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.dispatch.dispatcher import (
    BURST_BYTES,
    BURST_ENTRIES,
    Dispatcher,
    DispatcherSpec,
)
from counterpoise.broker.topic.dispatch.failover_order import FailoverOrder
from counterpoise.broker.topic.dispatch.recipient import Recipient
from counterpoise.broker.topic.dispatch.selectors import RangesRefusedError, StickyRanges, key_of
from counterpoise.wire.encode_runs import Delivery
from counterpoise.wire.errors import ServerError


class SingleActiveDispatcher(Dispatcher):
    """Delivers an Exclusive subscription to its only consumer, a Failover one to the active one.

    A consumer that becomes active (by ``order``) starts at the mark-delete position again. When a
    Failover switches away from a consumer that is still attached, ``switch_delay`` seconds pass
    before the new one is served, so that acknowledgements under way still arrive
    (``activeConsumerFailoverDelayTimeMillis``; no delay if no consumer was active).

    A consumer that is active when it attaches is served at once, and notified after the same delay,
    as in Pulsar: some clients register a consumer for notifications only after they have read the
    response to its SUBSCRIBE.

    An Exclusive consumer that asks for ranges of hashes, such as a reader with a key hash range, is
    sent the entries whose keys are in them (``isKeyHashRangeFiltered`` of Java's
    ``PersistentDispatcherSingleActiveConsumer``); the others are not acknowledged.
    """

    def __init__(
        self,
        spec: DispatcherSpec,
        order: FailoverOrder[Recipient] | None = None,
        *,
        switch_delay: float = 1.0,
    ) -> None:
        super().__init__(spec)
        self._order = order
        self._switch_delay = switch_delay
        self._active: Recipient | None = None
        self._serving: Recipient | None = None
        self._notified: Recipient | None = None
        """The consumer that was last notified to be active."""
        self._switch: asyncio.TimerHandle | None = None
        self._joining: Recipient | None = None
        """The consumer that is being attached."""
        self._notification: asyncio.TimerHandle | None = None
        """The notification that it is active."""
        self._hashes: StickyRanges[Recipient] | None = None
        """The hash ranges of the keys whose entries the consumer is sent; None: all keys."""

    @property
    def active(self) -> Recipient | None:
        """The consumer that is served, or is about to be."""
        return self._active

    def _taker(self, entry: bytes) -> Recipient | None:
        return self._serving

    def add(self, recipient: Recipient) -> None:
        """Attach a consumer; it may become the active one.

        Raises `BrokerError` if its ranges of hashes are invalid.
        """
        if self._order is None:
            self._hashes = _hashes_of(recipient)
        self.consumers[recipient] = None
        if self._order is not None:
            self._order.add(recipient, recipient.name, recipient.priority)
        self._joining = recipient
        self._choose()
        self._joining = None
        if recipient is not self._serving:
            self._notify(recipient, is_active=False)

    def remove(self, recipient: Recipient) -> None:
        """Detach a consumer; another may become active."""
        del self.consumers[recipient]
        if self._order is not None:
            self._order.remove(recipient, recipient.name, recipient.priority)
        if recipient is self._serving:
            self._serving = None
        if recipient is self._notified:
            self._notified = None
        if not self.consumers:
            self._active = None
            self._cancel_switch()
        elif not self._choose() and self._serving is None and self._active is not None:
            # The former active consumer has left: there is nothing to wait for any more.
            self._cancel_switch()
            self._serve(self._active)

    def redeliver(self, recipient: Recipient, indexes: Iterable[int] | None) -> None:
        """Deliver everything unacknowledged again, not only ``indexes``: that keeps the order."""
        if recipient is self._serving:
            self.read_index = self.acks.mark + 1
            self.dispatch()

    def acked(self, recipient: Recipient, index: int) -> int:
        """Always 1: this type does not record which entries a consumer was sent."""
        return 1

    def acked_through(self, index: int) -> None:
        """Continue after ``index``, since every entry up to it was acknowledged."""
        self.read_index = max(self.read_index, index + 1)

    def deliver_again(self, indexes: Sequence[int]) -> None:
        """Deliver entries (at least one) whose acknowledging transaction was aborted, and those
        delivered since.
        """
        self.read_index = min(self.read_index, *indexes)
        self.dispatch()

    def _deliver(self) -> None:
        """Send the active consumer as much as it has permits for."""
        recipient = self._serving
        if recipient is None:
            return
        end, turns = self.end, self.turns
        while self.read_index < end and turns.left > 0 and recipient.ready:
            if not self._send_burst(recipient, end):
                return

    def _send_burst(self, recipient: Recipient, end: int) -> bool:
        free, room = self.flow.budget()
        if free <= 0:
            return False
        index = self.read_index
        if index <= self.compacted.horizon and recipient.request.read_compacted:
            return self._send_compacted(recipient, free, min(BURST_BYTES, room))
        chunk = self._feed.at(index)
        if chunk is None:
            return False
        most = min(BURST_BYTES, room)
        ledger_id, entry_id = self.log.position(index)
        start = index - chunk.first
        stop = min(len(chunk.entries), end - chunk.first, start + BURST_ENTRIES)
        shift = entry_id - start
        check = self.acks.has_gaps or index <= self.acks.mark or self._hashes is not None
        permits, size = min(recipient.permits, free), 0
        had = permits
        burst: list[Delivery] = []
        at = start
        for at in range(start, stop):
            entry = chunk.entries[at]
            if check and self._leaves_out(chunk.first + at, entry):
                continue
            burst.append((ledger_id, at + shift, 0, entry, ()))
            permits -= chunk.messages[at]
            size += len(entry)
            if permits <= 0 or size >= most:
                break
        self.read_index = chunk.first + at + 1
        self.turns.spend(at + 1 - start, size)
        if burst:
            messages = had - permits
            recipient.permits -= messages
            self.flow.took(messages, len(burst), size)
            recipient.send(burst, messages, size)
        return True

    def _send_compacted(self, recipient: Recipient, free: int, most: int) -> bool:
        """Send the next entries that compaction kept; returns False if they must be read first."""
        view, log = self.compacted, self.log
        index = self.read_index = view.following(self.read_index)
        chunk = self._feed.at(index) if index <= view.horizon else None
        if chunk is None:
            return index > view.horizon
        burst: list[Delivery] = []
        permits, size, looked_at = min(recipient.permits, free), 0, 0
        had, end = permits, chunk.first + len(chunk.entries)
        while index <= view.horizon and index < end and looked_at < BURST_ENTRIES:
            looked_at += 1
            entry = chunk.entries[index - chunk.first]
            if entry and not self._leaves_out(index, entry):
                entry = view.shown(index, entry)
                burst.append((*log.position(index), 0, entry, ()))
                permits -= chunk.messages[index - chunk.first]
                size += len(entry)
            index = view.following(index + 1)
            if permits <= 0 or size >= most:
                break
        self.read_index = index
        self.turns.spend(looked_at, size)
        if burst:
            recipient.permits -= had - permits
            self.flow.took(had - permits, len(burst), size)
            recipient.send(burst, had - permits, size)
        return True

    def _leaves_out(self, index: int, entry: bytes) -> bool:
        """Whether an entry is acknowledged, or its key is not in the consumer's hash ranges."""
        if self.acks.skips(index):
            return True
        hashes = self._hashes
        return hashes is not None and hashes.select(hashes.slot(key_of(entry))) is None

    def _choose(self) -> bool:
        """Choose the active consumer; returns whether another one is active now."""
        chosen = next(iter(self.consumers)) if self._order is None else self._order.first()
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

    def _serve(self, chosen: Recipient) -> None:
        self._switch = None
        self._serving = chosen
        self.read_index = self.acks.mark + 1
        former, self._notified = self._notified, chosen
        if former is not None and former is not chosen:
            self._notify(former, is_active=False)
        if chosen is self._joining and self._switch_delay > 0:
            loop = asyncio.get_running_loop()
            self._notification = loop.call_later(self._switch_delay, self._notify_joined, chosen)
        elif former is not chosen:
            self._notify(chosen, is_active=True)
        self.dispatch()

    def _notify_joined(self, recipient: Recipient) -> None:
        """Notify a consumer that was active from the start whether it still is."""
        if recipient is self._notified:
            is_active = recipient is self._serving
            if not is_active:
                self._notified = None
            self._notify(recipient, is_active=is_active)

    def _notify(self, recipient: Recipient, *, is_active: bool) -> None:
        """Send a Failover consumer ACTIVE_CONSUMER_CHANGE."""
        if self._order is not None:
            recipient.sink.active_change(recipient.consumer_id, is_active)

    def _cancel_switch(self) -> None:
        if self._switch is not None:
            self._switch.cancel()
            self._switch = None

    def close(self) -> None:
        """Deliver nothing more, and cancel a delayed switch of consumers."""
        self._cancel_switch()
        if self._notification is not None:
            self._notification.cancel()
        super().close()


def _hashes_of(recipient: Recipient) -> StickyRanges[Recipient] | None:
    ranges = recipient.request.key_shared.sticky_ranges
    if not ranges:
        return None
    hashes: StickyRanges[Recipient] = StickyRanges()
    try:
        hashes.add(recipient, recipient.name, ranges)
    except RangesRefusedError as refused:
        raise BrokerError(ServerError.ConsumerAssignError, str(refused)) from None
    return hashes
