"""For how long acknowledged messages, and unused topics, are retained.

Sources: ``ManagedLedgerImpl.internalTrimLedgers``, ``PersistentTopic.checkGC`` of Pulsar 4.0.7.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from counterpoise.broker.topic.lookback import stored_metadata
from counterpoise.storage.grouplog import Log

NO_SUBSCRIPTIONS: Final = "delete_when_no_subscriptions"
CAUGHT_UP: Final = "delete_when_subscriptions_caught_up"


class Retention(NamedTuple):
    """How long and how much of acknowledged messages is retained, in minutes and MiB; -1 is
    unlimited.

    A ledger is deleted once it is older than the time limit, or if the ledgers after it reach the
    size limit.
    """

    minutes: int = 0
    megabytes: int = 0

    @property
    def keeps_nothing(self) -> bool:
        """Whether a ledger may be deleted as soon as all of it is acknowledged."""
        return self.minutes == 0 or self.megabytes == 0

    async def first_kept(self, log: Log[Any], done: int, now_s: float) -> int:
        """The log index before which ledgers may be deleted; ``now_s`` is in seconds since 1970.

        ``done``: the first index that a subscription needs. The age of a ledger is that of its last
        entry.
        """
        if self.keeps_nothing:
            return done
        index, left = log.begin, log.size
        for ledger in log.ledgers[:-1]:
            left -= ledger.size
            end = index + ledger.entries
            if end > done:
                break
            is_excess = 0 <= self.megabytes << 20 <= left
            if not is_excess and ledger.entries and not await self._is_old(log, end - 1, now_s):
                break
            index = end
        return index

    async def _is_old(self, log: Log[Any], last: int, now_s: float) -> bool:
        if self.minutes < 0:
            return False
        metadata = await stored_metadata(log, last)
        return metadata is None or now_s - metadata.publish_time / 1000 > self.minutes * 60


class Inactivity(NamedTuple):
    """When a topic that no client uses is deleted (``InactiveTopicPolicies``)."""

    is_deleted: bool = False
    mode: str = NO_SUBSCRIPTIONS
    seconds: int = 60


NO_RETENTION: Final = Retention()
NEVER_DELETED: Final = Inactivity()


@dataclass(frozen=True, slots=True)
class TopicLifetime:
    """Policies of how long an unused topic, its messages and its subscriptions are kept."""

    retention: Retention = NO_RETENTION
    inactivity: Inactivity = NEVER_DELETED
    subscription_minutes: int = 0
    """After how long a subscription without a consumer is deleted; 0 is never."""

    def is_over(self, idle_s: float, entries: int) -> bool:
        """Whether to delete a topic that has ``entries`` entries and was unused for ``idle_s``."""
        if not self.inactivity.is_deleted or idle_s < self.inactivity.seconds:
            return False
        minutes = self.retention.minutes
        return not entries or 0 <= minutes * 60 <= idle_s


UNUSED_KEPT: Final = TopicLifetime()
"""Keeps unused topics and subscriptions for ever, and acknowledged messages not at all."""


def retention_of(policies: Mapping[str, Any], default: Retention) -> Retention:
    """A topic's retention by its policy ``retentionPolicies``, or else ``default``."""
    value = policies.get("retentionPolicies")
    if not isinstance(value, Mapping):
        return default
    return Retention(
        int(value.get("retentionTimeInMinutes") or 0), int(value.get("retentionSizeInMB") or 0)
    )


def inactivity_of(policies: Mapping[str, Any], default: Inactivity) -> Inactivity:
    """When an unused topic is deleted, by its ``inactiveTopicPolicies``, or else ``default``."""
    value = policies.get("inactiveTopicPolicies")
    if not isinstance(value, Mapping):
        return default
    return Inactivity(
        value.get("deleteWhileInactive") is True,
        str(value.get("inactiveTopicDeleteMode") or default.mode),
        int(value.get("maxInactiveDurationSeconds") or 0),
    )
