"""A topic of which only the last value under each key counts is begun anew, so that it stays small.

Pulsar's compactor writes what is left to a ledger of its own, beside the topic. Here it is written
to the topic once more, while it is being loaded: nobody publishes then, so nothing can come in
between, and whoever reads from the beginning reads what is left and then what changed. The ledgers
before it go when the subscription that keeps them is done with them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from counterpoise.broker.topic.meter import Meter
from counterpoise.broker.topic.ports import ProducerRequest, ProducerSink
from counterpoise.broker.topic.producer import Producer
from counterpoise.names.topic import TopicName

if TYPE_CHECKING:
    from counterpoise.broker.topic.persistent import PersistentTopic

_log = logging.getLogger(__name__)

THRESHOLD: Final = 5 << 20
"""Bytes that may be there in vain; what Pulsar's leader sets for the states of bundles."""
LOOK_S: Final = 5.0
"""How often a loaded topic's size is looked at."""
_READ: Final = 1 << 20
_ROW: Final = 1000

Survivors = Callable[[Sequence[bytes]], Sequence[bytes]]
"""What is left of all entries, oldest first: at least one, or all are kept."""


class LoadedTopics(Protocol):
    """The topics that a broker has loaded."""

    @property
    def loaded(self) -> Mapping[TopicName, Any]:
        """They, by name."""

    async def unload_topic(self, name: TopicName) -> None:
        """Close one; who uses it comes again, and loads it anew."""


class Compaction:
    """Keeps one topic small."""

    def __init__(self, topic: TopicName, keeper: str, survivors: Survivors) -> None:
        """``keeper`` is the subscription that keeps the topic's messages."""
        self.topic = topic
        self._keeper = keeper
        self._survivors = survivors
        self._left = 0
        self.threshold = THRESHOLD

    async def begin_anew(self, topic: PersistentTopic) -> None:
        """Write what is left to a topic that nobody is attached to, and let go of all before."""
        log = topic.log
        entries: list[bytes] = []
        while log.begin + len(entries) < log.end:
            entries += (await log.read(log.begin + len(entries), _READ)).entries
        left = self._survivors(entries)
        if 0 < len(left) < len(entries):
            begin = log.end
            writer = _nobody(topic)
            for at in range(0, len(left), _ROW):
                row = left[at : at + _ROW]
                log.extend(row, [1] * len(row), [(writer, 0, 0)] * len(row))
                await log.drain()
            if log.end != begin + len(left):
                _log.warning("%s is begun anew another time: not all was stored", self.topic)
                return
            self._let_go(topic, begin)
            _log.info("%s: of %d records %d are left", self.topic, len(entries), len(left))
        self._left = sum(map(len, left))

    def _let_go(self, topic: PersistentTopic, before: int) -> None:
        keeper = topic.subscriptions.get(self._keeper)
        if keeper is not None:
            keeper.advance(before - 1)
            keeper.save()

    async def keep(self, topics: LoadedTopics) -> None:
        """Load the topic anew, which begins it anew, whenever it has grown too large."""
        while True:
            await asyncio.sleep(LOOK_S)
            topic = topics.loaded.get(self.topic)
            if topic is not None and topic.log.size > self.threshold + 2 * self._left:
                await topics.unload_topic(self.topic)


class _NoSink:
    """Hears of what was stored, and has nobody to tell."""

    def settled(self, producer: object, count: int) -> None:
        """Nothing was waiting."""


def _nobody(topic: PersistentTopic) -> Producer:
    meter = Meter(topic.commons.clock)
    sink = cast("ProducerSink", _NoSink())
    made = Producer(ProducerRequest(0), "compaction", sink, topic, meter)
    made.closed = True
    return made
