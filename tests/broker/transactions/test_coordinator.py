"""A coordinator carries out what it has decided, whatever becomes of the broker that it is on."""

import asyncio
import gc
import weakref
from typing import Any

import pytest

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.transactions.coordinator import Coordinator
from counterpoise.broker.transactions.coordinator_log import CoordinatorLog
from counterpoise.broker.transactions.table import CoordinatorTable, TransactionState
from counterpoise.names.topic import TopicName
from counterpoise.storage.disk_faults import DiskFaults
from counterpoise.storage.local_ids import LocalLedgerIds
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.wire.errors import ServerError
from counterpoise.wire.events import EndOnParticipant
from tests.quota.jumping import JumpingLoop, now_ns, on_jumping_loop, pass_time
from tests.waiting import until


class Participants:
    """Records what is ended, once it is set free."""

    def __init__(self, *, held: bool = False) -> None:
        self.asked: list[tuple[int, bool, str, str | None]] = []
        self.free = asyncio.Event()
        if not held:
            self.free.set()
        self.failures = 0
        """How often each request fails first."""
        self.log: CoordinatorLog | None = None
        self.stored: list[object] = []
        """What the disk had of the transaction when it was ended."""
        self.at: list[int] = []
        """When each request came, in tenths of a second of a jumping loop."""
        self.marks: list[int] = []
        """Up to which number all transactions have ended, by each request."""
        self.cancelled = 0

    async def end(self, request: EndOnParticipant) -> None:
        if self.log is not None:
            self.stored = [record.get("is") for _, record in await self.log.read()]
        if isinstance(asyncio.get_running_loop(), JumpingLoop):
            self.at.append(now_ns() // 10**8)
        self.marks.append(request.low_watermark)
        if self.failures:
            self.failures -= 1
            raise BrokerError(ServerError.ServiceNotReady, "it is on its way")
        number = request.transaction.number
        topic = TopicName.parse(request.topic).local_name
        self.asked.append((number, request.commit, topic, request.subscription))
        try:
            await self.free.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


class Begun(BackgroundTasks):
    """Knows what it began as long as something else does."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[weakref.ref[asyncio.Task[None]]] = []

    def start(self, *arguments: Any, **named: Any) -> asyncio.Task[None]:
        task = super().start(*arguments, **named)
        self.begun.append(weakref.ref(task))
        return task


class Place:
    """Where a coordinator is served, again and again, of one store."""

    def __init__(self) -> None:
        self.store = MemoryLedgerStore(ledger_entries=4)
        self.now_ms = 0
        self.is_owner = True
        self.background = Begun()

    async def open(self, participants: Participants) -> Coordinator:
        log = await CoordinatorLog.open(self.store, 0, "a broker", LocalLedgerIds())
        participants.log = log
        made = Coordinator(
            CoordinatorTable(0),
            log,
            participants,
            self.background,
            self.clock_ms,
            lambda: self.is_owner,
        )
        await made.resume()
        return made

    def serves(self) -> bool:
        return self.is_owner

    def clock_ms(self) -> int:
        """As it was set, and what has passed since on a jumping loop."""
        jumps = isinstance(asyncio.get_running_loop(), JumpingLoop)
        return self.now_ms + (now_ns() // 10**6 if jumps else 0)


@pytest.mark.parametrize("commit", [False, True])
async def test_a_resumed_coordinator_ends_what_was_decided_and_what_is_overdue(
    commit: bool,
) -> None:
    place, held = Place(), Participants(held=True)
    first = await place.open(held)
    decided = await first.open(60_000, None)
    overdue = await first.open(10, None)
    still_open = await first.open(60_000, None)
    await first.add(decided, ("t", "u"), (("t", "s"),))
    await first.add(overdue, ("v",))
    ending = asyncio.ensure_future(first.end(decided, commit=commit))
    await until(lambda: len(held.asked) == 3)
    ending.cancel()
    place.now_ms = 5_000
    asked = Participants()
    asked.failures = 2
    second = await place.open(asked)
    await until(lambda: set(second.table.transactions) == {still_open.number})
    assert sorted(asked.asked, key=str) == [
        (0, commit, "t", "s"),
        (0, commit, "t", None),
        (0, commit, "u", None),
        (1, False, "v", None),
    ]
    assert not first.closed
    with pytest.raises(BrokerError) as refusal:
        await first.open(1, None)
    assert refusal.value.code is ServerError.TransactionCoordinatorNotFound
    await second.add(still_open, ("w",))  # once it is on the log, so are the ends before it
    idle = Participants()
    third = await place.open(idle)
    assert third.table.transactions[2].state is TransactionState.OPEN
    assert await third.open(60_000, None) == (0, 3)
    assert idle.asked == [], "what has ended is not ended again"
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


async def test_what_a_client_decided_is_done_though_it_goes_away_and_its_records_go() -> None:
    place, held = Place(), Participants(held=True)
    coordinator = await place.open(held)
    for _ in range(4):
        held.free.clear()
        asked = len(held.asked)
        transaction = await coordinator.open(60_000, None)
        await coordinator.add(transaction, ("t",))
        ending = asyncio.create_task(coordinator.end(transaction, commit=True))
        await until(lambda asked=asked: len(held.asked) > asked)  # type: ignore[misc]
        ending.cancel()
        await asyncio.gather(ending, return_exceptions=True)
        held.free.set()
        await until(lambda: not coordinator.table.transactions)
    assert len(held.asked) == 4, "each was asked once"
    assert held.log is not None
    await until(lambda: held.log and held.log.log.begin > 0, "ledgers without a transaction go")
    kept = [each() for each in place.background.begun]
    assert kept == [None] * 4, "nothing is left of them"
    await coordinator.close()
    await place.background.stop()


@on_jumping_loop
async def test_what_its_client_forgets_is_aborted_when_its_time_is_over_and_nothing_else() -> None:
    place, held = Place(), Participants(held=True)
    coordinator = await place.open(held)
    for number, timeout_ms in enumerate((9_000, 3_000, 6_000, 1_000)):
        transaction = await coordinator.open(timeout_ms, None)
        await coordinator.add(transaction, (f"t{number}",))
    committing = asyncio.create_task(coordinator.end(transaction, commit=True))
    await pass_time(20)
    assert [(topic, commit) for _, commit, topic, _ in held.asked] == [
        ("t3", True), ("t1", False), ("t2", False), ("t0", False),
    ]  # fmt: skip
    assert held.at == [0, 30, 60, 90]
    held.free.set()
    await committing
    await until(lambda: not coordinator.table.transactions)
    figures = coordinator.figures
    assert (figures.created, figures.committed, figures.aborted, figures.timed_out) == (4, 1, 3, 3)
    assert sum(figures.durations) == 1, "how long those that are committed were open"
    await coordinator.open(60_000, None)
    await coordinator.close()
    loop = asyncio.get_running_loop()
    assert isinstance(loop, JumpingLoop)
    assert not loop.timers_of("Coordinator._abort_due"), (
        "a coordinator that is closed waits for none"
    )
    await place.background.stop()


@on_jumping_loop
async def test_a_participant_that_is_on_its_way_is_asked_again_ten_seconds_apart_at_most() -> None:
    place, participants = Place(), Participants()
    participants.failures = 9
    coordinator = await place.open(participants)
    earlier, transaction = await asyncio.gather(
        *(coordinator.open(600_000, None) for _ in range(2))
    )
    await coordinator.add(transaction, ("t",))
    ending = asyncio.create_task(coordinator.end(transaction, commit=False))
    await pass_time(2)
    await coordinator.end(earlier, commit=True)
    await ending
    assert participants.at == [0, 1, 3, 7, 15, 31, 63, 127, 227, 327]
    assert participants.marks == [-1] * 5 + [earlier.number] * 5, "as it is at each request"
    await coordinator.close()
    await place.background.stop()


async def test_a_coordinator_that_has_gone_elsewhere_writes_and_asks_nothing_more() -> None:
    place, held = Place(), Participants(held=True)
    coordinator = await place.open(held)
    transaction = await coordinator.open(60_000, None)
    await coordinator.add(transaction, ("t",))
    ending = asyncio.create_task(coordinator.end(transaction, commit=True))
    await until(lambda: held.asked)
    place.is_owner = False
    assert held.log is not None
    before = await held.log.read()
    with pytest.raises(BrokerError) as refusal:
        await coordinator.open(60_000, None)
    assert refusal.value.code is ServerError.TransactionCoordinatorNotFound
    assert await held.log.read() == before
    await coordinator.close()
    await asyncio.gather(ending, return_exceptions=True)
    assert held.cancelled == 1
    await place.background.stop()


@on_jumping_loop
async def test_how_long_a_transaction_was_open_counts_from_its_opening() -> None:
    place = Place()
    coordinator = await place.open(Participants())
    for wait_s, commit in ((2, True), (0.05, False)):
        transaction = await coordinator.open(60_000, "alice")
        assert coordinator.table.find(transaction).owner == "alice"
        await pass_time(wait_s)
        await coordinator.end(transaction, commit=commit)
    figures = coordinator.figures
    assert [n for n, count in enumerate(figures.durations) if count] == [6], "at most 5 s"
    assert (figures.created, figures.committed, figures.aborted, figures.timed_out) == (2, 1, 1, 0)
    await coordinator.close()
    await place.background.stop()


@on_jumping_loop
async def test_a_coordinator_that_is_closed_waits_for_no_transaction_any_more() -> None:
    """Nor for one whose opening is on its way to the disk then."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, JumpingLoop)
    coordinator = await Place().open(Participants())
    await coordinator.open(9000, None)
    assert loop.timers_of("Coordinator._abort_due") == 1
    coordinator.log.disk = DiskFaults(delay_s=1)
    opening = asyncio.create_task(coordinator.open(5000, None))
    await pass_time(0.5)
    await coordinator.close()
    await opening
    assert loop.timers_of("Coordinator._abort_due") == 0


@on_jumping_loop
async def test_what_fails_after_its_caller_has_given_up_is_no_error_of_the_broker(
    caplog: pytest.LogCaptureFixture,
) -> None:
    place = Place()
    coordinator = await place.open(Participants())
    coordinator.log.disk = DiskFaults(delay_s=1)
    opening = asyncio.create_task(coordinator.open(5000, None))
    await pass_time(0.5)
    opening.cancel()
    await asyncio.wait([opening])
    await place.open(Participants())
    await pass_time(1)
    assert not coordinator.is_usable, "another one has its log"
    await coordinator.close()
    del coordinator
    gc.collect()
    assert "never retrieved" not in caplog.text


@on_jumping_loop
async def test_a_transaction_whose_coordinator_has_moved_times_out_there_and_not_here() -> None:
    place = Place()
    coordinator = await place.open(participants := Participants())
    await coordinator.open(1000, None)
    place.is_owner = False
    await pass_time(3)
    assert (coordinator.figures.timed_out, participants.asked) == (0, [])
    place.is_owner = True
    successor = await place.open(Participants())
    await pass_time(1)
    assert (successor.figures.timed_out, successor.figures.aborted) == (1, 1)
