"""A coordinator carries out what it has decided, whatever becomes of the broker that it is on."""

import asyncio

import pytest

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.transactions.coordinator import Coordinator
from counterpoise.broker.transactions.coordinator_log import CoordinatorLog
from counterpoise.broker.transactions.table import CoordinatorTable, TransactionState
from counterpoise.storage.disk_faults import DiskFaults
from counterpoise.storage.local_ids import LocalLedgerIds
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.wire.errors import ServerError
from counterpoise.wire.events import EndOnParticipant
from tests.waiting import until


class Participants:
    """Records what is ended, once it is set free."""

    def __init__(self, *, held: bool = False) -> None:
        self.asked: list[tuple[int, bool, str, str | None]] = []
        self.free = asyncio.Event()
        if not held:
            self.free.set()
        #: How often each request fails first.
        self.failures = 0
        self.log: CoordinatorLog | None = None
        #: What the disk had of the transaction when it was ended.
        self.stored: list[object] = []

    async def end(self, request: EndOnParticipant) -> None:
        if self.log is not None:
            self.stored = [record.get("is") for _, record in await self.log.read()]
        if self.failures:
            self.failures -= 1
            raise BrokerError(ServerError.ServiceNotReady, "it is on its way")
        number = request.transaction.number
        self.asked.append((number, request.commit, request.topic, request.subscription))
        await self.free.wait()


class Place:
    """Where a coordinator is served, again and again, of one store."""

    def __init__(self) -> None:
        self.store = MemoryLedgerStore()
        self.now_ms = 0
        self.background = BackgroundTasks()

    async def open(self, participants: Participants) -> Coordinator:
        log = await CoordinatorLog.open(self.store, 0, "a broker", LocalLedgerIds())
        participants.log = log
        made = Coordinator(
            CoordinatorTable(0), log, participants, self.background, self.clock_ms, lambda: True
        )
        await made.resume()
        return made

    def clock_ms(self) -> int:
        return self.now_ms


async def test_a_resumed_coordinator_ends_what_was_decided_and_what_is_overdue() -> None:
    place, held = Place(), Participants(held=True)
    first = await place.open(held)
    decided = await first.open(60_000, None)
    overdue = await first.open(10, None)
    still_open = await first.open(60_000, None)
    await first.add(decided, ("t", "u"), (("t", "s"),))
    await first.add(overdue, ("v",))
    ending = asyncio.ensure_future(first.end(decided, commit=True))
    await until(lambda: len(held.asked) == 3)
    ending.cancel()
    place.now_ms = 5_000
    asked = Participants()
    asked.failures = 2
    second = await place.open(asked)
    await until(lambda: set(second.table.transactions) == {still_open.number})
    assert sorted(asked.asked, key=str) == [
        (0, True, "t", "s"),
        (0, True, "t", None),
        (0, True, "u", None),
        (1, False, "v", None),
    ]
    assert not first.closed
    with pytest.raises(BrokerError) as refusal:
        await first.open(1, None)
    assert refusal.value.code is ServerError.TransactionCoordinatorNotFound
    third = await place.open(Participants())
    assert third.table.transactions[2].state is TransactionState.OPEN
    assert await third.open(60_000, None) == (0, 3)
    for each in (first, second, third):
        await each.close()
    await place.background.stop()


async def test_a_second_end_does_not_overtake_the_decision_of_the_first() -> None:
    place, participants = Place(), Participants()
    coordinator = await place.open(participants)
    transaction = await coordinator.open(60_000, None)
    await coordinator.add(transaction, ("t",))
    participants.log.log.disk = DiskFaults(delay_s=0.05)  # type: ignore[attr-defined]
    await asyncio.gather(*(coordinator.end(transaction, commit=True) for _ in range(2)))
    assert participants.stored[-1] == TransactionState.COMMITTING.value
    assert len(participants.asked) == 1
    with pytest.raises(BrokerError) as refusal:
        await coordinator.end(transaction, commit=True)
    assert refusal.value.code is ServerError.TransactionNotFound
    await coordinator.close()
    await place.background.stop()
