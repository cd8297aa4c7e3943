"""What can be seen of limits: which throttles whom, since when, and how much it has let through."""

from __future__ import annotations

from dataclasses import dataclass

from counterpoise.broker.limits.dispatch_limit import DispatchLimit
from counterpoise.broker.limits.ports import LimitedProducer, Reached, Waiter
from counterpoise.quota import SECOND_NS, Bucket, Flow, PublishLimit


@dataclass(frozen=True, slots=True)
class ThrottledProducer:
    """A producer that waits now."""

    name: str
    address: str
    topic: str
    held_entries: int
    held_bytes: int
    seconds: float
    """Since when it waits."""
    times: int
    """How often it had to wait since it came, this time included."""


@dataclass(frozen=True, slots=True)
class ThrottledSubscription:
    """A subscription that waits now before it may deliver more."""

    name: str
    topic: str
    behind: int
    """Entries that it has not delivered."""
    seconds: float
    """Since when it waits, whatever small parts it was let deliver meanwhile."""
    times: int
    """How often it had to wait at any limit, this time included."""


@dataclass(frozen=True, slots=True)
class SeenLimit:
    """One limit: its rates (0: none), what passed it, and who waits at it."""

    level: str
    subject: str
    messages: int
    bytes: int
    period_s: int
    """In which ``messages`` and ``bytes`` may pass; a second, but for some dispatch rates."""
    passed_messages: int
    passed_bytes: int
    times: int
    """How often somebody began to wait while nobody did."""
    seconds: float
    """For how long somebody waited, altogether."""
    producers: tuple[ThrottledProducer, ...] = ()
    subscriptions: tuple[ThrottledSubscription, ...] = ()


def waited_ns(limit: Reached, now: int) -> int:
    """For how long somebody has waited at a limit, until now."""
    since = limit.throttled_since
    return limit.throttled_ns + (now - since if since is not None else 0)


def seen_publish(limit: PublishLimit, now: int) -> SeenLimit:
    """A publish limit as it is at ``now``."""
    return _seen(limit, now, producers=tuple(_producer(flow, now) for flow in limit.waiting))


def seen_dispatch(limit: DispatchLimit, now: int) -> SeenLimit:
    """A dispatch limit as it is at ``now``."""
    waiting = tuple(_subscription(gate, now) for gate in limit.waiting)
    return _seen(limit, now, subscriptions=waiting)


def _seen(
    limit: Reached,
    now: int,
    producers: tuple[ThrottledProducer, ...] = (),
    subscriptions: tuple[ThrottledSubscription, ...] = (),
) -> SeenLimit:
    def rate(bucket: Bucket | None) -> int:
        return bucket.rate if bucket is not None else 0

    period_ns = next((it.period_ns for it in (limit.messages, limit.bytes) if it), SECOND_NS)
    return SeenLimit(
        level=str(limit.level),
        subject=limit.subject,
        messages=rate(limit.messages),
        bytes=rate(limit.bytes),
        period_s=period_ns // SECOND_NS,
        passed_messages=limit.passed_messages,
        passed_bytes=limit.passed_bytes,
        times=limit.throttled_count,
        seconds=waited_ns(limit, now) / SECOND_NS,
        producers=producers,
        subscriptions=subscriptions,
    )


def _producer(flow: Flow, now: int) -> ThrottledProducer:
    producer: LimitedProducer = flow.owner
    return ThrottledProducer(
        name=producer.name,
        address=producer.request.address,
        topic=str(producer.topic.name),
        held_entries=len(flow.held),
        held_bytes=flow.held_bytes,
        seconds=_seconds(flow.throttled_since, now),
        times=flow.throttled_count,
    )


def _subscription(gate: Waiter, now: int) -> ThrottledSubscription:
    return ThrottledSubscription(
        name=gate.subscription,
        topic=gate.topic,
        behind=gate.behind,
        seconds=_seconds(gate.throttled_since, now),
        times=gate.times,
    )


def _seconds(since: int | None, now: int) -> float:
    return (now - since) / SECOND_NS if since is not None else 0.0
