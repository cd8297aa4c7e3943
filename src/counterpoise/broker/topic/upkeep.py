"""What a broker does to its topics from time to time: messages expire, and backlogs keep quotas."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.base.settings import LiveOptions
from counterpoise.broker.topic.backlog_quota import EVICTION
from counterpoise.broker.topic.options import TopicOptions
from counterpoise.broker.topic.persistent import PersistentTopic
from counterpoise.broker.topic.topic import Topic
from counterpoise.names.topic import TopicName
from counterpoise.storage.port import StorageError

log = logging.getLogger(__name__)


class TopicUpkeep:
    """Looks at every loaded topic at the intervals of ``broker.conf``."""

    def __init__(
        self, topics: Mapping[TopicName, Topic], options: LiveOptions[TopicOptions]
    ) -> None:
        self._topics = topics
        self._options = options

    def start(self, background: BackgroundTasks) -> None:
        """Begin; topics without such policies cost a glance."""
        background.keep("backlog quotas", self._keep_quotas)
        background.keep("message expiry", self._expire_messages)

    async def _keep_quotas(self) -> None:
        while True:
            await asyncio.sleep(self._options().quota_check_s)
            if self._options().quota_checks:
                await self.check_quotas()

    async def _expire_messages(self) -> None:
        while True:
            await asyncio.sleep(self._options().expiry_check_minutes * 60)
            await self.expire_messages()

    async def check_quotas(self) -> None:
        """Act upon each backlog that exceeds its quota, as its policy says (``BacklogQuota``)."""
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
        """Acknowledge what is older than its topic's ``messageTTL``, for each subscription."""
        for topic in self._stored():
            try:
                if topic.rules.ttl_s:
                    await topic.backlog().expire(topic.rules.ttl_s)
            except StorageError as error:
                log.warning("%s: messages cannot be expired: %s", topic.name, error)

    def _stored(self) -> list[PersistentTopic]:
        found = [it for it in self._topics.values() if isinstance(it, PersistentTopic)]
        return [each for each in found if not each.closing]
