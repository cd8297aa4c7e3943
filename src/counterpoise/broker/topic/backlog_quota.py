"""Backlog quotas: how much, and how old, the backlog of a topic may be."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from counterpoise.broker.base.clock import WallClock
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.acks import AckState
from counterpoise.broker.topic.lookback import earliest_in_backlog, first_published_at
from counterpoise.storage.grouplog import Log
from counterpoise.wire.errors import ServerError

EVICTION: Final = "consumer_backlog_eviction"
HOLD: Final = "producer_request_hold"
KEPT: Final = 0.9
"""The fraction of the quota to which eviction reduces a backlog (``BacklogQuotaManager``)."""


@dataclass(frozen=True, slots=True)
class BacklogQuota:
    """A backlog quota: a limit in bytes (in seconds if ``is_age``), and the policy beyond it."""

    limit: int
    policy: str
    is_age: bool = False

    def __str__(self) -> str:
        return f"{self.limit} {'s' if self.is_age else 'bytes'}, {self.policy}"


def quotas_of(policies: Mapping[str, Any], default: BacklogQuota) -> tuple[BacklogQuota, ...]:
    """The quotas in a topic's ``backLogQuotaMap``; ``default`` if it has none by size."""
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


class LaggingSubscription(Protocol):
    """What backlog quotas and the expiry of messages need of a durable subscription."""

    log: Log[Any]
    acks: AckState

    @property
    def backlog(self) -> int:
        """The number of stored entries that are not acknowledged."""

    expired_at: float
    """When expiry last acknowledged messages, in seconds since 1970; 0 for never."""

    def advance(self, index: int) -> None:
        """Acknowledge every entry up to ``index``, as if a consumer had."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """The unacknowledged entries of a topic's durable subscriptions."""

    log: Log[Any]
    subscriptions: Collection[LaggingSubscription]
    wall: WallClock

    async def exceeded(self, quotas: Iterable[BacklogQuota]) -> BacklogQuota | None:
        """The first quota that the backlog exceeds; None if it exceeds none."""
        for quota in quotas:
            if quota.is_age:
                oldest = await self._oldest_ms()
                if oldest is not None and self.wall() * 1000 - oldest >= quota.limit * 1000:
                    return quota
            elif self._bytes() >= quota.limit:
                return quota
        return None

    async def require_quota(self, quotas: Iterable[BacklogQuota]) -> None:
        """Raise `BrokerError` if the backlog exceeds a quota whose policy refuses producers."""
        found = await self.exceeded(quotas)
        if found is not None and found.policy != EVICTION:
            code = ServerError.ProducerBlockedQuotaExceededException
            if found.policy == HOLD:
                code = ServerError.ProducerBlockedQuotaExceededError
            why = f"Cannot create producer on topic with backlog quota exceeded: {found}"
            raise BrokerError(code, why)

    async def evict(self, quota: BacklogQuota) -> None:
        """Acknowledge the oldest messages of subscriptions whose backlog exceeds the quota."""
        if quota.is_age:
            await self.expire(quota.limit)
        else:
            entries = self.log.end - self.log.begin
            kept = int(KEPT * quota.limit * entries // max(self.log.size, 1))
            self._advance(self.log.end - kept)

    async def expire(self, age_s: int) -> None:
        """Acknowledge messages that were published more than ``age_s`` seconds ago."""
        now = self.wall()
        for each in self.subscriptions:
            each.expired_at = now
        before_ms = int((now - age_s) * 1000)
        self._advance(await first_published_at(self.log, before_ms))

    def _advance(self, first: int) -> None:
        for subscription in self.subscriptions:
            if subscription.acks.mark < first - 1:
                subscription.advance(first - 1)

    def _bytes(self) -> int:
        """The slowest subscription's backlog in bytes, by the average entry size, as in Pulsar."""
        entries = self.log.end - self.log.begin
        most = max((each.backlog for each in self.subscriptions), default=0)
        return most * self.log.size // entries if entries else 0

    async def _oldest_ms(self) -> int | None:
        """The publish time of the oldest unacknowledged entry in milliseconds, if there is one."""
        slowest = min(self.subscriptions, key=lambda it: it.acks.unacked(1), default=None)
        return None if slowest is None else await earliest_in_backlog(self.log, slowest.acks)


def pass_over_trimmed(log: Log[Any], subscriptions: Iterable[LaggingSubscription]) -> None:
    """Move the cursors of non-durable subscriptions past entries that were deleted.

    As in Pulsar, these subscriptions do not keep entries from being deleted.
    """
    for each in subscriptions:
        if each.acks.mark < log.begin - 1:
            each.advance(log.begin - 1)
