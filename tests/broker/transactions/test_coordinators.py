"""The coordinators of a broker and their logs: opened, given up, and opened again."""

from typing import Any

import pytest

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.transactions.coordinator_log import CoordinatorLog
from counterpoise.broker.transactions.coordinators import Coordinators
from counterpoise.broker.transactions.options import TransactionOptions
from counterpoise.names.topic import TopicName
from counterpoise.storage.disk_faults import DiskFaults
from counterpoise.storage.grouplog import Log
from counterpoise.storage.local_ids import LocalLedgerIds
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.storage.port import LedgerIds, LogListener, Persistence, StorageError
from counterpoise.wire.errors import ServerError
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


class FullStore(MemoryLedgerStore):
    """No log of it can be opened."""

    async def open(self, *_: object, **__: object) -> Log[Any]:
        raise StorageError("no space left")


class ServedTopicHere:
    """A topic of this broker, for a while."""

    def __init__(self) -> None:
        self.is_served = True


class NoParticipants:
    """No transaction of these has any."""

    async def end(self, request: EndOnParticipant) -> None:
        raise AssertionError(request)


class TopicsHere:
    """Every topic is this broker's."""

    last: ServedTopicHere

    async def get(self, name: TopicName, *, create: bool = True) -> ServedTopicHere:
        self.last = ServedTopicHere()
        return self.last


def coordinators_of(store: MemoryLedgerStore, topics: TopicsHere | None = None) -> Coordinators:
    return Coordinators(
        store,
        "a broker",
        LocalLedgerIds(),
        topics or TopicsHere(),
        NoParticipants(),
        lambda: TransactionOptions(enabled=True),
        BackgroundTasks(),
        lambda: 0,
    )


async def test_a_coordinator_whose_topic_went_away_and_came_back_is_opened_again() -> None:
    store, topics = RememberingStore(), TopicsHere()
    coordinators = coordinators_of(store, topics)
    first = await coordinators.connect(3)
    served, transaction = topics.last, await first.open(60_000, None)
    assert await coordinators.connect(3) is first
    assert coordinators.find(3) is first
    served.is_served = False
    for number in (3, 4):
        with pytest.raises(BrokerError) as refusal:
            coordinators.find(number)
        assert refusal.value.code is ServerError.TransactionCoordinatorNotFound
    again = await coordinators.connect(3)
    assert again is not first
    assert first.closed, "of two on one log the former writes nothing more"
    assert again.table.find(transaction).id == transaction
    await coordinators.close()
    assert (again.closed, coordinators.open) == (True, {})


async def test_a_client_is_asked_to_come_back_where_a_log_cannot_be_opened() -> None:
    coordinators = coordinators_of(FullStore())
    for _ in range(2):
        with pytest.raises(BrokerError, match="no space left") as refusal:
            await coordinators.connect(0)
        assert refusal.value.code is ServerError.ServiceNotReady


async def test_a_log_that_could_not_be_written_takes_nothing_more() -> None:
    log = await CoordinatorLog.open(MemoryLedgerStore(), 0, "a broker", LocalLedgerIds())
    await log.append({"txn": 0})
    log.log.disk = DiskFaults(is_full=True)  # type: ignore[attr-defined]
    with pytest.raises(StorageError) as first:
        await log.append({"txn": 1})
    log.log.disk = DiskFaults()  # type: ignore[attr-defined]
    with pytest.raises(StorageError) as second:
        await log.append({"txn": 2})
    assert log.broken is first.value is second.value, "what the disk has of the first is not known"
    assert [record for _, record in await log.read()] == [{"txn": 0}]
    await log.close()
    unused = await CoordinatorLog.open(MemoryLedgerStore(), 1, "a broker", LocalLedgerIds())
    await unused.close()
    with pytest.raises(StorageError, match="is closed"):
        await unused.append({"txn": 0})


async def test_a_coordinator_that_cannot_be_read_leaves_no_log_open() -> None:
    store = RememberingStore()
    log = await CoordinatorLog.open(store, 0, "a broker", LocalLedgerIds())
    await log.append({"no": "record"})
    await log.close()
    coordinators = coordinators_of(store)
    with pytest.raises(KeyError):
        await coordinators.connect(0)
    with pytest.raises(StorageError):
        store.last.append(b"", 1, None)
