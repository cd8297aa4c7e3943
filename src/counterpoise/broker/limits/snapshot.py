"""Snapshots of a broker's limits, for administrators: what passed each, and what waits for it."""

from dataclasses import dataclass
from typing import cast

from counterpoise.broker.limits.dispatch_flow import DispatchFlow
from counterpoise.broker.limits.publish_flow import ProducerFlow
from counterpoise.quota import SECOND_NS, Bucket, RateLimit


@dataclass(frozen=True, slots=True)
class ThrottledProducer:
    """A producer with throttled entries, and how long and often it was throttled."""

    name: str
    address: str
    topic: str
    held_entries: int
    held_bytes: int
    seconds: float
    """For how many seconds it has waited."""
    times: int
    """How often it was throttled since it connected, this time included."""


@dataclass(frozen=True, slots=True)
class ThrottledSubscription:
    """A subscription that waits for a dispatch limit: ``behind`` entries are not delivered yet."""

    name: str
    topic: str
    behind: int
    """Entries that it has not delivered."""
    seconds: float
    """How long it has waited, even if it delivered small parts meanwhile."""
    times: int
    """How often it was throttled by any limit, this time included."""


@dataclass(frozen=True, slots=True)
class LimitSnapshot:
    """The state of one limit: its rates (0: none), what passed, and what waits for it."""

    level: str
    subject: str
    messages: int
    bytes: int
    period_s: int
    """The period in which ``messages`` and ``bytes`` may pass; 1 except for dispatch rates."""
    passed_messages: int
    passed_bytes: int
    times: int
    """How often the limit was reached: something began to wait for it while nothing else did."""
    seconds: float
    """For how long in all something has waited for it."""
    producers: tuple[ThrottledProducer, ...] = ()
    subscriptions: tuple[ThrottledSubscription, ...] = ()


def of_publish(limit: RateLimit, now: int) -> LimitSnapshot:
    """The state of a publish limit at the time ``now`` (nanoseconds)."""
    flows = (cast("ProducerFlow", flow) for flow in limit.waiting)
    return _snapshot(limit, now, producers=tuple(_producer(flow, now) for flow in flows))


def of_dispatch(limit: RateLimit, now: int) -> LimitSnapshot:
    """The state of a dispatch limit at the time ``now`` (nanoseconds)."""
    flows = (cast("DispatchFlow", flow) for flow in limit.waiting)
    return _snapshot(limit, now, subscriptions=tuple(_subscription(flow, now) for flow in flows))


def _snapshot(
    limit: RateLimit,
    now: int,
    producers: tuple[ThrottledProducer, ...] = (),
    subscriptions: tuple[ThrottledSubscription, ...] = (),
) -> LimitSnapshot:
    def rate(bucket: Bucket | None) -> int:
        return bucket.rate if bucket is not None else 0

    return LimitSnapshot(
        level=str(limit.level),
        subject=limit.subject,
        messages=rate(limit.messages),
        bytes=rate(limit.bytes),
        period_s=limit.period_ns // SECOND_NS,
        passed_messages=limit.passed_messages,
        passed_bytes=limit.passed_bytes,
        times=limit.throttled_count,
        seconds=limit.waited_ns(now) / SECOND_NS,
        producers=producers,
        subscriptions=subscriptions,
    )


def _producer(flow: ProducerFlow, now: int) -> ThrottledProducer:
    producer = flow.producer
    return ThrottledProducer(
        name=producer.name,
        address=producer.request.address,
        topic=str(producer.topic.name),
        held_entries=len(flow.entries),
        held_bytes=flow.throttled_bytes,
        seconds=_seconds(flow.throttled_since, now),
        times=flow.throttled_count,
    )


def _subscription(flow: DispatchFlow, now: int) -> ThrottledSubscription:
    return ThrottledSubscription(
        name=flow.subscription,
        topic=flow.topic,
        behind=flow.behind,
        seconds=_seconds(flow.throttled_since, now),
        times=flow.events.total(),
    )


def _seconds(since: int | None, now: int) -> float:
    return (now - since) / SECOND_NS if since is not None else 0.0
