"""Backlog quotas: how much, and how old, the backlog of a topic may be."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.lookback import earliest_in_backlog, first_published_at
from counterpoise.wire.errors import ServerError

if TYPE_CHECKING:
    from counterpoise.broker.topic.persistent import PersistentTopic

EVICTION: Final = "consumer_backlog_eviction"
HOLD: Final = "producer_request_hold"
KEPT: Final = 0.9
"""What eviction leaves of a quota (``BacklogQuotaManager``)."""


@dataclass(frozen=True, slots=True)
class BacklogQuota:
    """A limit that is in force: bytes, or with ``is_age`` seconds."""

    limit: int
    policy: str
    is_age: bool = False

    def __str__(self) -> str:
        return f"{self.limit} {'s' if self.is_age else 'bytes'}, {self.policy}"


def quotas_of(policies: Mapping[str, Any], default: BacklogQuota) -> tuple[BacklogQuota, ...]:
    """The quotas of ``backLogQuotaMap``; ``default`` holds where there is none by size."""
    found = policies.get("backLogQuotaMap") or {}
    size, age = found.get("destination_storage"), found.get("message_age")
    quotas = [default]
    if isinstance(size, Mapping):
        quotas = [BacklogQuota(_limit(size, "limitSize", "limit"), _policy(size))]
    if isinstance(age, Mapping):
        quotas.append(BacklogQuota(_limit(age, "limitTime"), _policy(age), is_age=True))
    return tuple(each for each in quotas if each.limit > 0)


def _limit(quota: Mapping[str, Any], *names: str) -> int:
    given = (quota.get(name) for name in names)
    return next((each for each in given if isinstance(each, int) and each > 0), 0)


def _policy(quota: Mapping[str, Any]) -> str:
    return str(quota.get("policy") or HOLD)


async def is_exceeded(topic: PersistentTopic) -> BacklogQuota | None:
    """The quota that a topic's backlog exceeds; None if it keeps them."""
    for quota in topic.rules.quotas:
        if quota.is_age:
            oldest = await _oldest_ms(topic)
            if oldest is not None and time.time() * 1000 - oldest >= quota.limit * 1000:
                return quota
        elif _backlog_bytes(topic) >= quota.limit:
            return quota
    return None


async def require_quota(topic: PersistentTopic) -> None:
    """Raise `BrokerError` unless a producer may come: not while a backlog exceeds its quota."""
    exceeded = await is_exceeded(topic) if topic.rules.quotas else None
    if exceeded is not None and exceeded.policy != EVICTION:
        held = exceeded.policy == HOLD
        raise BrokerError(
            ServerError.ProducerBlockedQuotaExceededError
            if held
            else ServerError.ProducerBlockedQuotaExceededException,
            f"Cannot create producer on topic with backlog quota exceeded: {exceeded}",
        )


async def evict(topic: PersistentTopic, exceeded: BacklogQuota) -> None:
    """Acknowledge the oldest messages for the subscriptions that lag, until the quota is kept."""
    if exceeded.is_age:
        last = await first_published_at(topic.log, int((time.time() - exceeded.limit) * 1000))
    else:
        entries = topic.log.end - topic.log.begin
        last = topic.log.end - int(KEPT * exceeded.limit * entries // max(topic.log.size, 1))
    for subscription in list(topic.subscriptions.values()):
        if subscription.durable and subscription.acks.mark < last - 1:
            subscription.advance(last - 1)


def _backlog_bytes(topic: PersistentTopic) -> int:
    """Bytes behind the slowest durable subscription, at the average size of the entries."""
    entries = topic.log.end - topic.log.begin
    backlogs = (it.backlog for it in topic.subscriptions.values() if it.durable)
    return max(backlogs, default=0) * topic.log.size // entries if entries else 0


async def _oldest_ms(topic: PersistentTopic) -> int | None:
    """When the oldest message of any durable subscription's backlog was published."""
    slowest = min(
        (it for it in topic.subscriptions.values() if it.durable and it.backlog),
        key=lambda it: it.acks.unacked(1),
        default=None,
    )
    return None if slowest is None else await earliest_in_backlog(slowest)
