"""The coordinators of a broker: one that cannot be read keeps no log."""

from typing import Any

import pytest

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.transactions.coordinator_log import CoordinatorLog
from counterpoise.broker.transactions.coordinators import Coordinators
from counterpoise.broker.transactions.options import TransactionOptions
from counterpoise.names.topic import TopicName
from counterpoise.storage.local_ids import LocalLedgerIds
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.storage.port import LedgerIds, Log, LogListener, Persistence, StorageError
from counterpoise.wire.events import EndOnParticipant


class RememberingStore(MemoryLedgerStore):
    """Remembers the log that was opened last."""

    last: Log[Any]

    async def open(
        self,
        name: str,
        owner: str,
        listener: LogListener[Any],
        ids: LedgerIds | None = None,
        persistence: Persistence | None = None,
    ) -> Log[Any]:
        self.last = await super().open(name, owner, listener, ids)
        return self.last


class ServedTopicHere:
    """A topic of this broker."""

    is_served = True


class NoParticipants:
    """No transaction of these has any."""

    async def end(self, request: EndOnParticipant) -> None:
        raise AssertionError(request)


class TopicsHere:
    """Every topic is this broker's."""

    async def get(self, name: TopicName, *, create: bool = True) -> ServedTopicHere:
        return ServedTopicHere()


async def test_a_coordinator_that_cannot_be_read_leaves_no_log_open() -> None:
    store, ids = RememberingStore(), LocalLedgerIds()
    log = await CoordinatorLog.open(store, 0, "a broker", ids)
    await log.append({"no": "record"})
    await log.close()
    coordinators = Coordinators(
        store,
        "a broker",
        ids,
        TopicsHere(),
        NoParticipants(),
        lambda: TransactionOptions(enabled=True),
        BackgroundTasks(),
        lambda: 0,
    )
    with pytest.raises(KeyError):
        await coordinators.connect(0)
    with pytest.raises(StorageError):
        store.last.append(b"", 1, None)
