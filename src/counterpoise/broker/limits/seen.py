"""What can be seen of limits: which throttles whom, since when, and how much it has let through."""

from __future__ import annotations

from dataclasses import dataclass

from counterpoise.broker.limits.ports import LimitedProducer
from counterpoise.quota import SECOND_NS, Flow, PublishLimit


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
class SeenLimit:
    """One limit: its rates (0: none), what passed it, and who waits at it."""

    level: str
    subject: str
    messages: int
    bytes: int
    passed_messages: int
    passed_bytes: int
    times: int
    """How often somebody began to wait while nobody did."""
    seconds: float
    """For how long somebody waited, altogether."""
    producers: tuple[ThrottledProducer, ...]


def seen(limit: PublishLimit, now: int) -> SeenLimit:
    """A limit as it is at ``now``."""
    waited_ns = limit.throttled_ns
    if limit.throttled_since is not None:
        waited_ns += now - limit.throttled_since
    return SeenLimit(
        level=limit.level.value,
        subject=limit.subject,
        messages=limit.messages.rate if limit.messages is not None else 0,
        bytes=limit.bytes.rate if limit.bytes is not None else 0,
        passed_messages=limit.passed_messages,
        passed_bytes=limit.passed_bytes,
        times=limit.throttled_count,
        seconds=waited_ns / SECOND_NS,
        producers=tuple(_producer(flow, now) for flow in limit.waiting),
    )


def _producer(flow: Flow, now: int) -> ThrottledProducer:
    producer: LimitedProducer = flow.owner
    since = flow.throttled_since if flow.throttled_since is not None else now
    return ThrottledProducer(
        name=producer.name,
        address=producer.request.address,
        topic=str(producer.topic.name),
        held_entries=len(flow.held),
        held_bytes=flow.held_bytes,
        seconds=(now - since) / SECOND_NS,
        times=flow.throttled_count,
    )
