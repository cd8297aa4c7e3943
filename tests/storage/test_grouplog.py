"""How groups of entries are timed, delayed and given up, whatever stores them."""

import asyncio
from collections import deque
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.storage.disk_faults import DiskFaults
from counterpoise.storage.grouplog import Log
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.storage.port import Chunk, EntryGroup, LogClosedError, StorageError
from tests.quota.jumping import on_jumping_loop, pass_time
from tests.storage.conftest import Heard

NAME = "t/n/persistent/x"


class Timed(Heard):
    """Notes how long each group took, and may fail on stored entries."""

    def __init__(self) -> None:
        super().__init__()
        self.took_s: list[float] = []
        self.fails = False

    def committed(self, group: EntryGroup[object]) -> None:
        if self.fails:
            raise ZeroDivisionError
        super().committed(group)
        self.took_s.append(group.took_s)


async def opened(disk: DiskFaults | None = None) -> tuple[MemoryLedgerStore, Log[object], Timed]:
    store, heard = MemoryLedgerStore(), Timed()
    log = await store.open(NAME, "a", heard)
    log.disk = disk  # type: ignore[attr-defined]
    return store, log, heard


@on_jumping_loop
async def test_a_group_takes_from_its_first_entry_until_it_is_stored() -> None:
    disk = DiskFaults(delay_s=0.5)
    _, log, heard = await opened(disk)
    await pass_time(100)
    log.append(b"0", 1, 0)
    await pass_time(0.2)
    # It comes while another group is written: what it waits counts as well.
    log.append(b"1", 1, 1)
    await pass_time(0.1)
    log.append(b"2", 1, 2)
    await log.drain()
    assert heard.entries == [b"0", b"1", b"2"]
    assert heard.took_s == pytest.approx([0.5, 0.8])


@on_jumping_loop
async def test_what_a_silent_disk_was_given_is_not_stored_after_the_log_was_given_up() -> None:
    store, log, heard = await opened(DiskFaults(delay_s=100))
    log.append(b"0", 1, 0)
    await pass_time(1)
    log.append(b"1", 1, 1)
    with pytest.raises(StorageError, match="its store did not answer within 20 s"):
        await log.close()
    assert heard.lost_contexts == [0, 1]
    with pytest.raises(StorageError):
        log.append(b"2", 1, 2)
    await pass_time(200)
    assert heard.entries == []
    assert (await store.open(NAME, "b", Heard())).end == 0


@on_jumping_loop
async def test_what_was_stored_is_answered_though_its_topic_fails() -> None:
    _, log, heard = await opened()
    heard.fails = True
    log.append(b"0", 1, 0)
    log.append(b"1", 1, 1)
    await log.drain()
    await asyncio.sleep(0)
    assert (heard.lost_contexts, len(heard.refusals)) == ([0, 1], 1)
    heard.fails = False
    log.append(b"2", 1, 2)
    await log.drain()
    assert (log.end, heard.contexts) == (3, [2])


@pytest.mark.parametrize("is_full", [False, True])
@on_jumping_loop
async def test_those_that_wait_for_a_log_go_on_when_its_entries_are_stored_or_lost(
    is_full: bool,
) -> None:
    disk = DiskFaults(delay_s=1)
    _, log, heard = await opened(disk)
    log.append(b"0", 1, 0)
    waiting = [asyncio.ensure_future(log.drain()) for _ in range(2)]
    await pass_time(0.5)
    assert not any(each.done() for each in waiting)
    disk.is_full = is_full
    log.append(b"1", 1, 1)
    await asyncio.wait(waiting)
    assert (heard.contexts, heard.lost_contexts) == (([0], [1]) if is_full else ([0, 1], []))
    # The next one is stored at once: nothing is late any more.
    log.disk = None  # type: ignore[attr-defined]
    log.append(b"2", 1, 2)
    await log.drain()
    assert heard.contexts[-1] == 2
    await log.close()
    with pytest.raises(LogClosedError):
        log.append(b"3", 1, 3)


@on_jumping_loop
async def test_a_closed_log_deletes_no_ledgers() -> None:
    store, heard = MemoryLedgerStore(ledger_entries=1), Heard()
    log = await store.open(NAME, "a", heard)
    for number in range(3):
        log.append(b"%d" % number, 1, number)
        await log.drain()
    await log.close()
    ledgers: Sequence[object] = log.ledgers
    log.trim(log.end)
    assert log.ledgers == ledgers
    assert (await store.open(NAME, "b", Heard())).begin == 0


class ByHand(Log[object]):
    """A log whose groups are stored, or refused, when a test says so."""

    groups_in_flight = 3

    def __init__(self, heard: Heard) -> None:
        super().__init__("t", heard, [(0, 0, 0)], {})
        self.begun: deque[EntryGroup[object]] = deque()
        self.most = self.most_at_a_fault = 0
        """The most groups that were in flight together, and with a fault of the disk."""

    def store(self) -> None:
        if self.begun:
            self._written(self.begun.popleft())

    def refuse(self) -> None:
        self.begun.clear()
        self._refuse(StorageError("refused"))

    def _place(self, group: EntryGroup[object]) -> tuple[int, int]:
        return 0, 0

    def _write(self, group: EntryGroup[object]) -> None:
        self.begun.append(group)
        self.most = max(self.most, len(self.begun))
        if self.disk is not None:
            self.most_at_a_fault = max(self.most_at_a_fault, len(self.begun))

    def cached(self, index: int) -> Chunk | None:
        raise NotImplementedError

    async def read(self, index: int, max_bytes: int) -> Chunk:
        raise NotImplementedError

    def _remember(self, group: EntryGroup[object]) -> None: ...

    def _state_changed(self) -> None: ...

    def _delete_ledgers(self, ledger_ids: list[int]) -> None: ...

    async def _persist(self) -> None: ...

    async def _write_final_state(self) -> None: ...

    async def _release(self) -> None: ...


FAULTS = {"late": DiskFaults(delay_s=0.5), "full": DiskFaults(is_full=True), "sound": None}
STEPS = ["append", "append two", "turn", "store", "drain"] * 3
STEPS += ["refuse", "wait", "late", "full", "sound", "sound", "sound"]


@settings(max_examples=100)
@given(st.lists(st.sampled_from(STEPS), min_size=30, max_size=40))
@on_jumping_loop
async def test_each_entry_is_stored_or_refused_once_in_order_and_none_is_left_waiting(
    steps: list[str],
) -> None:
    heard, appended = Heard(), 0
    log = ByHand(heard)
    draining: list[tuple[int, asyncio.Task[None]]] = []

    def outcomes() -> list[int]:
        return sorted([*heard.contexts, *heard.lost_contexts])  # type: ignore[type-var]

    for step in steps:
        if step.startswith("append"):
            count = 2 if step == "append two" else 1
            numbers = range(appended, appended + count)
            log.extend([b"e"] * count, [1] * count, list(numbers))
            appended += count
        elif step == "store":
            log.store()
        elif step == "refuse":
            log.refuse()
        elif step == "wait":
            await pass_time(0.3)
        elif step == "drain":
            draining.append((appended, asyncio.create_task(log.drain())))
        elif step in FAULTS:
            log.disk = FAULTS[step]
        if not step.startswith("append"):
            await asyncio.sleep(0)
        for count, each in draining:
            assert not each.done() or len(outcomes()) >= count
    log.disk = None
    log.append(b"e", 1, appended)
    for _ in range(len(steps) + 1):
        await pass_time(1)
        log.store()
    assert outcomes() == list(range(appended + 1))
    assert heard.contexts == sorted(heard.contexts)  # type: ignore[type-var]
    assert appended in heard.contexts
    assert log.end == len(heard.contexts)
    assert log.most <= log.groups_in_flight
    assert log.most_at_a_fault <= 1, "injected faults apply to one group after the other"
    await asyncio.gather(*(each for _, each in draining))
