"""Who pauses and who goes next: publish limits at every level, as one machine told the time.

An entry passes when every limit of its flow has something left, and then costs at all of them: the
one that empties a bucket still passes, and what it took too much is earned back first (PIP-322).
Otherwise it is held, and its flow waits at *one* limit, the narrowest that lacks something; when
its turn comes there, it passes or goes on to the next limit that holds it. So whatever is held
waits at a limit that is empty or has an alarm set, and nothing waits that no limit holds.

Pulsar pauses the connection instead, and with it everybody who shares it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from counterpoise.quota.bucket import Bucket
from counterpoise.quota.flow import Flow, Held
from counterpoise.quota.publish_limit import PublishLimit

Released = list[tuple[Flow, Held]]
"""Entries that may pass, in this order."""


LENT_PART: Final = 4
"""A flow gets a quarter of what is left set aside at a time, so that others of the same read find
something, too."""

_NO_LIMIT: Final = 1 << 62


def _closed(flow: Flow, now: int) -> PublishLimit | None:
    """The first limit that does not let the flow pass; None if all do."""
    for limit in flow.limits:
        if not limit.open and not limit.admits(now):
            return limit
    return None


def _returned(bucket: Bucket | None, tokens: int) -> bool:
    """Give tokens back to a bucket; whether it is empty all the same."""
    if bucket is None:
        return False
    bucket.balance = min(bucket.balance + tokens, bucket.capacity)
    return bucket.balance <= 0


class Throttle:
    """Offers, releases, changes and ends; ``alarms`` are the limits whose `resume_at` changed.

    Whoever runs it calls `release` for a limit when its ``resume_at`` has come, and `settle` when
    it has offered all it has at the moment.
    """

    __slots__ = ("_lent", "alarms")

    def __init__(self) -> None:
        self.alarms: set[PublishLimit] = set()
        #: Flows that have tokens set aside.
        self._lent: dict[Flow, None] = {}

    def offer(self, flow: Flow, messages: int, size: int, item: Any, now: int) -> bool:
        """Whether an entry may pass; if not it is held, and comes back from `release`."""
        if flow in self._lent:
            self._take_back(flow)
            del self._lent[flow]
        if not flow.held:
            limit = _closed(flow, now)
            if limit is not None and self._lent:
                # It may only look empty, for what others have set aside.
                self.settle()
                limit = _closed(flow, now)
            if limit is None:
                for each in flow.limits:
                    each.charge(messages, size, now)
                self._lend(flow)
                return True
            flow.throttled_count += 1
            flow.throttled_since = now
            self._wait(flow, limit, now)
        flow.held.append((messages, size, item))
        flow.held_bytes += size
        return False

    def _lend(self, flow: Flow) -> None:
        """Set aside a part of what its limits have left; nothing if that is little."""
        messages = size = _NO_LIMIT
        for limit in flow.limits:
            if limit.messages is not None:
                messages = min(messages, limit.messages.balance // LENT_PART)
            if limit.bytes is not None:
                size = min(size, limit.bytes.balance // LENT_PART)
        if messages <= 0 or size <= 0:
            return
        flow.free_messages = flow.lent_messages = messages
        flow.free_bytes = flow.lent_bytes = size
        self._lent[flow] = None
        for limit in flow.limits:
            if limit.messages is not None:
                limit.messages.balance -= messages
            if limit.bytes is not None:
                limit.bytes.balance -= size

    def _take_back(self, flow: Flow) -> None:
        """Return what is left; where an entry took more than there was, that is taken now."""
        messages, size = flow.free_messages, flow.free_bytes
        flow.free_messages = flow.free_bytes = 0
        for limit in flow.limits:
            limit.passed_messages += flow.lent_messages - messages
            limit.passed_bytes += flow.lent_bytes - size
            if _returned(limit.messages, messages) or _returned(limit.bytes, size):
                limit.open = False

    def settle(self) -> None:
        """Take back everything that was set aside: at the end of a read, and before any change."""
        if self._lent:
            for flow in self._lent:
                self._take_back(flow)
            self._lent.clear()

    def _wait(self, flow: Flow, limit: PublishLimit, now: int) -> None:
        limit.enqueue(flow, now)
        self.alarms.add(limit)

    def release(self, limit: PublishLimit, now: int) -> Released:
        """Let those who wait at a limit go, furthest behind first, while tokens are left."""
        self.settle()
        released: Released = []
        while limit.waiting and limit.has_tokens(now):
            flow, start = limit.dequeue()
            other = next((it for it in flow.limits if it is not limit and not it.admits(now)), None)
            if other is not None:
                self._wait(flow, other, now)
                continue
            entry = flow.held.popleft()
            messages, size, _ = entry
            flow.held_bytes -= size
            released.append((flow, entry))
            for each in flow.limits:
                each.charge(messages, size, now)
            limit.served(flow, start, messages, size)
            if flow.held:
                limit.enqueue(flow, now)
            else:
                self._at_ease(flow, now)
        limit.rest(now)
        self.alarms.add(limit)
        return released

    def _at_ease(self, flow: Flow, now: int) -> None:
        if flow.throttled_since is not None:
            flow.throttled_ns += now - flow.throttled_since
            flow.throttled_since = None

    def set_rates(self, limit: PublishLimit, messages: int, size: int, now: int) -> None:
        """Change what a limit allows; those who wait are looked at again when it says so."""
        self.settle()
        limit.set_rates(messages, size, now)
        self.alarms.add(limit)

    def set_limits(self, flow: Flow, limits: Iterable[PublishLimit], now: int) -> Released:
        """Let other limits apply to a flow; returns what is held no longer, for want of any."""
        self.settle()
        flow.limits = tuple(limits)
        for former in [each for each in flow.finished if each not in flow.limits]:
            del flow.finished[former]
        at = flow.waits_at
        if at is None or at in flow.limits:
            return []
        self._leave(flow, at, now)
        if flow.limits:
            # Its turn there comes at once if nothing is in the way.
            self._wait(flow, flow.limits[0], now)
            return []
        released = [(flow, entry) for entry in flow.held]
        flow.held.clear()
        flow.held_bytes = 0
        self._at_ease(flow, now)
        return released

    def end(self, flow: Flow, now: int) -> None:
        """The producer is gone, and with it what was held of it."""
        self.settle()
        if flow.waits_at is not None:
            self._leave(flow, flow.waits_at, now)
        flow.held.clear()
        flow.held_bytes = 0
        self._at_ease(flow, now)

    def _leave(self, flow: Flow, limit: PublishLimit, now: int) -> None:
        limit.leave(flow, now)
        self.alarms.add(limit)
