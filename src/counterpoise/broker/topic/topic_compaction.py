"""Compaction of one topic: on demand, or when it has grown by its ``compactionThreshold``.

The subscription ``__compaction`` records the position up to which the topic is compacted, as in
Pulsar, and in its properties the oldest current value, from which on the topic's ledgers are
kept.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.compacted_view import CompactedView, LatestValues
from counterpoise.broker.topic.shared_parts import SharedByTopics
from counterpoise.broker.topic.subscription import Subscription
from counterpoise.names.position import Position
from counterpoise.names.system_topics import SERVICE_UNIT_STATE
from counterpoise.names.topic import TopicName
from counterpoise.storage.grouplog import Log
from counterpoise.storage.port import StorageError
from counterpoise.wire.errors import ServerError
from counterpoise.wire.values import InitialPosition, SubscriptionType

_log = logging.getLogger(__name__)

COMPACTION: Final = "__compaction"
"""The subscription that keeps entries until they are compacted
(``Compactor.COMPACTION_SUBSCRIPTION``)."""
FROM: Final = "counterpoise-compacted-from"
"""The property of the subscription `COMPACTION` with the position of the oldest current value."""
THROUGH: Final = "counterpoise-compacted-through"
"""The property of the subscription `COMPACTION` with the last compacted entry's position."""
_READ: Final = 1 << 20
_IN_A_TURN: Final = 200


@dataclass(slots=True)
class CompactionStats:
    """The last compaction on this broker (times in ms, see ``TopicStats``); 0 before the first."""

    removed: int = 0
    succeeded_ms: int = 0
    failed_ms: int = 0
    took_ms: int = 0


class CompactedTopic(Protocol):
    """What compaction needs of its topic."""

    name: TopicName
    commons: SharedByTopics
    log: Log[Any]

    @property
    def subscriptions(self) -> Mapping[str, Subscription]:
        """The subscriptions by name."""

    def check_open(self) -> None:
        """Raise `BrokerError` once the topic is closing."""

    async def create_subscription(self, name: str, initial: InitialPosition) -> Subscription:
        """Create a durable subscription without a consumer."""


class TopicCompaction:
    """Compacts one topic; ``view`` has the result, for ``readCompacted`` consumers."""

    def __init__(self, topic: CompactedTopic) -> None:
        self._topic = topic
        self.view = CompactedView()
        self.stats = CompactionStats()
        self.status, self.last_error = "NOT_RUN", ""
        """``LongRunningProcessStatus``: NOT_RUN, RUNNING, SUCCESS, ERROR; ``lastError``."""
        self._latest: LatestValues | None = None
        self._next = 0
        self._one_at_a_time = asyncio.Lock()

    @property
    def keeper(self) -> Subscription | None:
        """The subscription that keeps messages until they are compacted; None before the first."""
        return self._topic.subscriptions.get(COMPACTION)

    @property
    def is_running(self) -> bool:
        """Whether a compaction is running."""
        return self.status == "RUNNING"

    def kept_from(self) -> int | None:
        """The index of the oldest entry in the compacted view; None if nothing was compacted."""
        at = self._stored_position(FROM)
        return None if at is None else self._topic.log.index(at)

    def grown_by(self) -> int:
        """How many bytes were added since the last compaction, by the average entry size."""
        log, keeper = self._topic.log, self.keeper
        entries = log.end - log.begin
        if not entries:
            return 0
        return (entries if keeper is None else keeper.backlog) * log.size // entries

    async def compact(self) -> None:
        """Compact all entries that are stored now; raises `BrokerError`."""
        if str(self._topic.name) == SERVICE_UNIT_STATE:
            why = f"{self._topic.name} is compacted by the broker that serves it"
            raise BrokerError(ServerError.NotAllowedError, why)
        if self.is_running:
            raise BrokerError(ServerError.NotAllowedError, "Compaction already in progress")
        self.status, self.last_error = "RUNNING", ""
        now = self._topic.commons.wall
        began = now()
        try:
            await self._compact()
            self.status = "SUCCESS"
            self.stats.succeeded_ms = int(now() * 1000)
        except (StorageError, BrokerError) as error:
            self.last_error = str(error)
            _log.warning("%s: cannot be compacted: %s", self._topic.name, error)
            if isinstance(error, BrokerError):
                raise
            raise BrokerError(ServerError.PersistenceError, str(error)) from error
        finally:
            if self.is_running:
                self.status = "ERROR"
                self.stats.failed_ms = int(now() * 1000)
            self.stats.took_ms = int((now() - began) * 1000)

    async def _compact(self) -> None:
        topic, log = self._topic, self._topic.log
        keeper = self.keeper or await topic.create_subscription(
            COMPACTION, InitialPosition.Earliest
        )
        async with self._one_at_a_time:
            # Messages of open transactions, and what follows them, are compacted later.
            end = min(log.end, keeper.stable_end)
            if end <= log.begin:
                return
            latest = await self._read(end)
            was_left = latest.left
            topic.check_open()
            self.view.replace(end - 1, latest.survivors)
            self.stats.removed = latest.messages - was_left
            latest.messages = was_left
            keeper.note(
                {
                    **keeper.properties,
                    FROM: str(log.position(self.view.first)),
                    THROUGH: str(log.position(end - 1)),
                }
            )
            keeper.advance(end - 1)
            keeper.save()
        await log.cursors_saved()
        _log.info("%s: compacted, %d messages are left", topic.name, was_left)

    async def admit(self, kind: SubscriptionType) -> None:
        """Load the compacted entries for a ``readCompacted`` consumer; raises `BrokerError`."""
        if kind not in (SubscriptionType.Exclusive, SubscriptionType.Failover):
            why = "readCompacted only allowed on failover or exclusive subscriptions"
            raise BrokerError(ServerError.NotAllowedError, why)
        try:
            await self._restore_view()
        except StorageError as failure:
            raise BrokerError(ServerError.PersistenceError, str(failure)) from failure

    async def _restore_view(self) -> None:
        """Build the view of a topic that was compacted before it was loaded here."""
        through = self._stored_position(THROUGH)
        if through is None or self.view.horizon >= 0:
            return
        async with self._one_at_a_time:
            if self.view.horizon < 0:
                end = self._topic.log.index_after(through)
                latest = await self._read(end)
                latest.messages = latest.left
                self.view.replace(end - 1, latest.survivors)

    def forget(self) -> None:
        """Drop the compacted entries, because compaction's subscription was deleted."""
        self.view.replace(-1, {})
        self._latest = None

    async def _read(self, end: int) -> LatestValues:
        """The values of all entries before ``end``; reads only those since the last compaction.

        Raises `StorageError`, and `BrokerError` if `forget` is called meanwhile.
        """
        log, turns = self._topic.log, self._topic.commons.turns
        hidden = None if self.keeper is None else self.keeper.hidden
        if self._latest is None:
            self._latest = LatestValues(keeps_keyless=self._topic.commons.options.keeps_keyless)
            self._next = self.kept_from() or log.begin
        latest = self._latest
        index = max(self._next, log.begin)
        while index < end:
            index = max(index, log.begin)
            chunk = log.cached(index) or await log.read(index, _READ)
            start = index - chunk.first
            entries = chunk.entries[start : min(start + _IN_A_TURN, end - chunk.first)]
            await turns.take(len(entries), self)
            for entry in entries:
                if hidden is None or not hidden.is_acked(index):
                    latest.add(index, entry)
                index += 1
            self._next = index
        if latest is not self._latest:
            why = f"The subscription {COMPACTION} was deleted meanwhile"
            raise BrokerError(ServerError.ServiceNotReady, why)
        return latest

    def _stored_position(self, name: str) -> Position | None:
        keeper = self.keeper
        properties: Mapping[str, str] = {} if keeper is None else keeper.properties
        ledger, _, entry = properties.get(name, "").partition(":")
        return Position(int(ledger), int(entry)) if entry else None
