"""One publish limit (PIP-322): messages and bytes a second at one level, and who waits for them."""

from __future__ import annotations

import heapq
from enum import StrEnum
from typing import Final

from counterpoise.quota.bucket import RESOLUTION_NS, SECOND_NS, Bucket
from counterpoise.quota.flow import Flow

RELEASE_NS: Final = 4_000_000
"""A pause brings at least this long a share of the rate, so that a limit that is reached wakes at
most 250 times a second."""


LATE_NS: Final = 100_000_000
"""How late an alarm may be heard before what was earned meanwhile is lost, for those who wait. (An
event loop that is busy is late; that must not cost them their rate.)"""


class Level(StrEnum):
    """Where a publish limit holds; the names are those of Pulsar's throttle types (4.2.4)."""

    TOPIC = "TopicPublishRate"
    RESOURCE_GROUP = "ResourceGroupPublishRate"
    BROKER = "BrokerPublishRate"


class PublishLimit:
    """A limit on messages and bytes a second; either may be absent.

    Its buckets are small: they hold what one resolution step brings, so that no second sees more
    than the rate, that step, and the one entry that emptied the bucket. (Only what was earned while
    somebody waited and the alarm was heard late, by up to `LATE_NS`, is kept for those who waited.)
    Pulsar's hold a second's worth, and let through up to twice the rate in
    the first second.

    Flows that found it empty wait here. Who goes next is start-time fair queuing: each flow has a
    clock that advances by what its entries cost as a share of this limit, and the one that is
    furthest behind goes first. Equal flows take turns; a flow that sends little waits for one
    entry of another at most, however much the others hold.
    """

    __slots__ = (
        "_clock",
        "_heap",
        "_served",
        "_tickets",
        "bytes",
        "level",
        "messages",
        "open",
        "passed_bytes",
        "passed_messages",
        "resume_at",
        "subject",
        "throttled_count",
        "throttled_ns",
        "throttled_since",
        "waiting",
    )

    def __init__(self, level: Level, subject: str) -> None:
        """``subject``: the topic, the resource group or the broker that it limits."""
        self.level = level
        self.subject = subject
        self.messages: Bucket | None = None
        self.bytes: Bucket | None = None
        #: Whether an entry may pass right now as far as is known: tokens left, and nobody waits.
        self.open = True
        #: What has passed it, since it was made.
        self.passed_messages = 0
        self.passed_bytes = 0
        #: When the flows that wait are to be looked at again; None while nobody waits.
        self.resume_at: int | None = None
        #: Flows that wait here, in the order in which they came.
        self.waiting: dict[Flow, int] = {}
        #: How often somebody had to wait here, for how long altogether, and since when somebody
        #: does.
        self.throttled_count = 0
        self.throttled_ns = 0
        self.throttled_since: int | None = None
        self._heap: list[tuple[int, int, Flow]] = []
        self._tickets = 0
        #: The clock of the flow that went last: newcomers begin there, with no claim to the past.
        self._clock = 0
        self._served = 0

    def __repr__(self) -> str:
        return f"<{self.level} of {self.subject}>"

    @property
    def active(self) -> bool:
        """Whether it limits anything."""
        return self.messages is not None or self.bytes is not None

    def set_rates(self, messages: int, size: int, now: int) -> None:
        """Allow so many messages and bytes a second from ``now`` on; 0 or less is no limit.

        A rate that changes keeps its balance: what was sent too much is still owed, and setting a
        rate twice gives nothing away.
        """
        waiting = self.throttled_since is not None
        self.messages = _changed(self.messages, messages, now, waiting=waiting)
        self.bytes = _changed(self.bytes, size, now, waiting=waiting)
        if self.waiting:
            self.resume_at = now + self.wait_ns(now)
        else:
            self.open = True

    def charge(self, messages: int, size: int, now: int) -> None:
        """Take what an entry costs; closes the limit when nothing is left."""
        self.passed_messages += messages
        self.passed_bytes += size
        bucket = self.messages
        if bucket is not None:
            if now > bucket.due:
                bucket.settle(now)
            bucket.balance -= messages
            if bucket.balance <= 0:
                self.open = False
        bucket = self.bytes
        if bucket is not None:
            if now > bucket.due:
                bucket.settle(now)
            bucket.balance -= size
            if bucket.balance <= 0:
                self.open = False

    def has_tokens(self, now: int) -> bool:
        """Whether both buckets hold something, to the nanosecond."""
        messages, size = self.messages, self.bytes
        return (messages is None or messages.settle(now, consistent=True) > 0) and (
            size is None or size.settle(now, consistent=True) > 0
        )

    def admits(self, now: int) -> bool:
        """Whether a flow that does not wait here may pass: tokens are there, and nobody waits."""
        if not self.open and not self.waiting:
            self.open = self.has_tokens(now)
        return self.open

    def wait_ns(self, now: int) -> int:
        """How long until enough is there to let somebody go."""
        waits = [each.wait_ns(now) for each in (self.messages, self.bytes) if each is not None]
        return max(waits, default=0)

    def enqueue(self, flow: Flow, now: int) -> None:
        """Let a flow wait for its turn."""
        if self.throttled_since is None:
            self.throttled_count += 1
            self.throttled_since = now
            self._keep(waiting=True)
        self.open = False
        start = max(self._clock, flow.finished.get(self, 0))
        self._tickets += 1
        self.waiting[flow] = self._tickets
        flow.waits_at = self
        heapq.heappush(self._heap, (start, self._tickets, flow))
        if self.resume_at is None:
            self.resume_at = now + self.wait_ns(now)

    def dequeue(self) -> tuple[Flow, int]:
        """The flow whose turn it is, and what its clock shows; it waits here no longer."""
        while True:
            start, ticket, flow = heapq.heappop(self._heap)
            if self.waiting.get(flow) == ticket:
                break
        del self.waiting[flow]
        flow.waits_at = None
        self._clock = max(self._clock, start)
        return flow, start

    def served(self, flow: Flow, start: int, messages: int, size: int) -> None:
        """An entry of the flow passed when its clock showed ``start``: now it shows more."""
        cost = 1
        if self.messages is not None:
            cost = messages * SECOND_NS // self.messages.rate
        if self.bytes is not None:
            cost = max(cost, size * SECOND_NS // self.bytes.rate)
        finish = flow.finished[self] = start + cost
        self._served = max(self._served, finish)

    def leave(self, flow: Flow, now: int) -> None:
        """The flow waits here no longer, whatever its turn."""
        del self.waiting[flow]
        flow.waits_at = None
        self.rest(now)

    def rest(self, now: int) -> None:
        """Look at who still waits: set the next alarm, or be at ease."""
        if self.waiting:
            self.resume_at = now + self.wait_ns(now)
            return
        self._heap.clear()
        self._clock = max(self._clock, self._served)
        self.resume_at = None
        if self.throttled_since is not None:
            self.throttled_ns += now - self.throttled_since
            self.throttled_since = None
            self._keep(waiting=False)
        self.open = self.has_tokens(now)

    def _keep(self, *, waiting: bool) -> None:
        for bucket in (self.messages, self.bytes):
            if bucket is not None:
                bucket.keep_at_most(_capacity(bucket.rate, waiting=waiting))


def _capacity(rate: int, *, waiting: bool) -> int:
    if waiting:
        return max(2, rate * LATE_NS // SECOND_NS)
    return max(1, rate * RESOLUTION_NS // SECOND_NS)


def _changed(bucket: Bucket | None, rate: int, now: int, *, waiting: bool) -> Bucket | None:
    if rate <= 0:
        return None
    capacity = _capacity(rate, waiting=waiting)
    target = max(1, rate * RELEASE_NS // SECOND_NS)
    if bucket is None:
        few = _capacity(rate, waiting=False)
        return Bucket(rate, now, capacity=capacity, initial=few, target=target)
    if bucket.rate != rate:
        bucket.change(now, rate=rate, capacity=capacity, target=target)
    return bucket
