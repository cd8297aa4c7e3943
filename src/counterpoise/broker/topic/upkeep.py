"""A broker's periodic work on its topics, such as expiring messages and enforcing quotas."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.backlog_quota import EVICTION
from counterpoise.broker.topic.options import TopicOptions
from counterpoise.broker.topic.persistent import PersistentTopic
from counterpoise.broker.topic.topic_compaction import COMPACTION
from counterpoise.broker.topic.topics import TopicRegistry
from counterpoise.names.system_topics import is_used_by_brokers
from counterpoise.names.topic import TopicName
from counterpoise.storage.port import StorageError

log = logging.getLogger(__name__)


_PAUSE_S: Final = 60


class _Look(Protocol):
    """One pass of one periodic check over all topics."""

    async def __call__(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Round:
    """One periodic check of all topics, every ``every_s`` seconds; 0 is never."""

    every_s: int
    look: _Look


class TopicUpkeep:
    """Does the periodic work on every loaded topic, such as expiry, at the configured intervals."""

    def __init__(
        self,
        registry: TopicRegistry,
        options: Callable[[], TopicOptions],
        background: BackgroundTasks,
    ) -> None:
        self._registry = registry
        self._options = options
        self._background = background

    def start(self) -> None:
        """Start the periodic work; topics without such policies cost almost nothing."""
        for name in self._rounds():
            self._background.keep(name, partial(self._go_round, name))

    async def policies_changed(self, names: Iterable[TopicName]) -> None:
        """Expire messages of these topics now, since their TTL may have changed."""
        expiring = [it for it in self._stored(names) if it.rules.ttl_s]
        if expiring:
            self._background.start("message expiry after a change", self._expire(expiring))

    def _rounds(self) -> Mapping[str, _Round]:
        """The checks and their intervals, by the current options."""
        options = self._options()
        minute = 60
        return {
            "subscription expiry": _Round(
                options.subscription_check_minutes * minute, self.expire_subscriptions
            ),
            "message expiry": _Round(options.expiry_check_minutes * minute, self.expire_messages),
            "backlog quotas": _Round(
                options.quota_check_s if options.quota_checks else 0, self.check_quotas
            ),
            "compaction": _Round(options.compaction_check_s, self.compact),
            "retention": _Round(options.retention_check_s, self.trim),
            "inactive topics": _Round(options.inactive_check_s, self.delete_inactive),
            "sequence ids": _Round(options.dedup_check_s, self.save_sequence_ids),
            "inactive producers": _Round(
                options.dedup_inactive_minutes * minute // 3, self.forget_producers
            ),
        }

    async def _go_round(self, name: str) -> None:
        while True:
            every_s = self._rounds()[name].every_s
            await asyncio.sleep(every_s or _PAUSE_S)
            if every_s:
                await self._rounds()[name].look()

    async def look_at_all(self) -> None:
        """Do all periodic work now, because a test has advanced the clock."""
        for each in self._rounds().values():
            if each.every_s:
                await each.look()

    async def expire_subscriptions(self) -> None:
        """Delete subscriptions without a consumer for ``subscriptionExpirationTime``."""
        for topic in self._stored():
            minutes, now = topic.rules.lifetime.subscription_minutes, topic.commons.wall()
            for each in list(topic.subscriptions.values()) if minutes else ():
                is_used = each.consumers or each.name == COMPACTION
                if not is_used and now - each.last_used > minutes * 60:
                    log.info("%s: %s is deleted: it had no consumer", topic.name, each.name)
                    each.end()

    async def save_sequence_ids(self) -> None:
        """Save producers' sequence ids where ``deduplicationSnapshotInterval`` has passed."""
        for topic in self._stored():
            if (known := topic.deduplication) is not None:
                now = topic.commons.wall()
                known.save_when_old(topic.log, now, topic.rules.dedup_snapshot_s)

    async def forget_producers(self) -> None:
        """Forget sequence ids of producers that have been gone for longer than configured."""
        for topic in self._stored():
            if (known := topic.deduplication) is not None:
                known.forget_inactive(topic.log, topic.producers.by_name, topic.commons.wall())

    async def trim(self) -> None:
        """Delete ledgers that neither a subscription nor ``retention`` needs."""
        for topic in self._stored():
            try:
                await topic.trim()
            except StorageError as error:
                log.warning("%s: its retention cannot be checked: %s", topic.name, error)

    async def delete_inactive(self) -> None:
        """Delete topics that have been unused for as long as ``inactiveTopicPolicies`` say."""
        if not self._options().deletes_inactive:
            return
        for topic in list(self._registry.loaded.values()):
            if topic.closing or _is_kept(topic.name):
                continue
            # As in Pulsar a consumer that has read all keeps its topic, but is no activity.
            if topic.is_idle() and not topic.attached_clients():
                try:
                    await self._registry.delete(topic.name, if_idle=True)
                    log.info("%s is deleted: it was not in use (inactiveTopicPolicies)", topic.name)
                except BrokerError as error:
                    log.info("%s is inactive and stays: %s", topic.name, error)

    async def compact(self) -> None:
        """Compact each topic that has grown by its ``compactionThreshold``."""
        for topic in self._stored():
            least, compaction = topic.rules.compaction_bytes, topic.compaction
            if least and not compaction.is_running and compaction.grown_by() > least:
                with contextlib.suppress(BrokerError):  # it is logged, and tried again
                    await compaction.compact()

    async def check_quotas(self) -> None:
        """Apply the policy of each backlog quota that is exceeded (``BacklogQuota``)."""
        for topic in self._stored():
            try:
                backlog = topic.backlog()
                exceeded = await backlog.exceeded(topic.rules.quotas)
                if exceeded is None:
                    continue
                log.info("%s: its backlog exceeds %s (backlogQuota)", topic.name, exceeded)
                if exceeded.policy == EVICTION:
                    await backlog.evict(exceeded)
                else:
                    topic.disconnect_producers()
            except (BrokerError, StorageError) as error:
                log.warning("%s: its backlog quota cannot be checked: %s", topic.name, error)

    async def expire_messages(self) -> None:
        """Acknowledge messages older than their topic's ``messageTTL``, on each subscription."""
        await self._expire(self._stored())

    async def _expire(self, topics: Iterable[PersistentTopic]) -> None:
        for topic in topics:
            try:
                if topic.rules.ttl_s:
                    await topic.backlog().expire(topic.rules.ttl_s)
            except StorageError as error:
                log.warning("%s: messages cannot be expired: %s", topic.name, error)

    def _stored(self, names: Iterable[TopicName] | None = None) -> list[PersistentTopic]:
        loaded = self._registry.loaded
        found = list(loaded.values()) if names is None else map(loaded.get, names)
        return [it for it in found if isinstance(it, PersistentTopic) and not it.closing]


def _is_kept(name: TopicName) -> bool:
    """Whether brokers use the topic themselves, so that it is never deleted as idle."""
    return name.namespace_name.bound_broker is not None or is_used_by_brokers(name)
