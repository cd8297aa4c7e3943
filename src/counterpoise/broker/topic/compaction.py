"""Compaction of a system topic, of which only the last value of each key is needed.

Pulsar's compactor writes these values to a ledger of its own, beside the topic. Here they are
published to the topic again while it is being loaded. No producer is attached then, so a reader
from the beginning reads the current values and then the changes. The earlier ledgers are deleted
once the subscription that retains them has acknowledged them.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from counterpoise.broker.topic.receipts import InternalPublisher
from counterpoise.names.topic import TopicName

if TYPE_CHECKING:
    from counterpoise.broker.topic.persistent import PersistentTopic

_log = logging.getLogger(__name__)

THRESHOLD: Final = 5 << 20
"""How many bytes of outdated values a system topic may have, as Pulsar's leader sets it."""
LOOK_S: Final = 5.0
"""Seconds between two checks of a loaded topic's size."""
_READ: Final = 1 << 20
_BATCH: Final = 1000

Survivors = Callable[[Sequence[bytes]], Sequence[bytes]]
"""Returns those of the given entries, oldest first, that are kept; if it returns none, all are."""


class LoadedTopics(Protocol):
    """The topics that a broker has loaded."""

    @property
    def loaded(self) -> Mapping[TopicName, Any]:
        """The loaded topics by name."""

    async def unload_topic(self, name: TopicName) -> None:
        """Close a topic; its clients reconnect, which loads it again."""


class Compaction:
    """Compacts one system topic when it is loaded, and reloads it for that when it has grown."""

    def __init__(self, topic: TopicName, keeper: str, survivors: Survivors) -> None:
        """``keeper``: the name of the subscription that keeps the topic's messages."""
        self.topic = topic
        self._keeper = keeper
        self._survivors = survivors
        self._left = 0
        self.threshold = THRESHOLD

    async def compact(self, topic: "PersistentTopic") -> None:
        """Append the remaining values to a topic without clients, and delete all before them."""
        log = topic.log
        entries: list[bytes] = []
        while log.begin + len(entries) < log.end:
            entries += (await log.read(log.begin + len(entries), _READ)).entries
        left = self._survivors(entries)
        if 0 < len(left) < len(entries):
            begin = log.end
            writer = InternalPublisher("compaction")
            for at in range(0, len(left), _BATCH):
                batch = left[at : at + _BATCH]
                log.extend(batch, [1] * len(batch), [(writer, 0, 0)] * len(batch))
                await log.drain()
            if log.end != begin + len(left):
                _log.warning(
                    "%s is compacted when it is next loaded: not all of it was stored", self.topic
                )
                return
            self._acknowledge_before(topic, begin)
            _log.info("%s: of %d records %d are left", self.topic, len(entries), len(left))
        self._left = sum(map(len, left))

    def _acknowledge_before(self, topic: "PersistentTopic", before: int) -> None:
        keeper = topic.subscriptions.get(self._keeper)
        if keeper is not None:
            keeper.advance(before - 1)
            keeper.save()

    async def keep(self, topics: LoadedTopics) -> None:
        """Until cancelled, unload the topic whenever it is too large: loading compacts it."""
        while True:
            await asyncio.sleep(LOOK_S)
            topic = topics.loaded.get(self.topic)
            if topic is not None and topic.log.size > self.threshold + 2 * self._left:
                await topics.unload_topic(self.topic)
