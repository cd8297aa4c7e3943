"""Groups in flight on a ledger of BookKeeper's: sent without waiting, committed in order."""

import asyncio

import pytest

from counterpoise.metadata import MemoryTree
from counterpoise.storage.grouplog import Log
from counterpoise.storage.managed.store import ManagedLedgerStore
from counterpoise.storage.managed_options import ManagedLedgerOptions
from tests.bookkeeper.memory_ledgers import MemoryBookKeeper, MemoryClient
from tests.storage.conftest import Heard, everything, write

NAME = "t/n/persistent/x"


class OneBroker:
    """A log, what its listener heard, and the bookies that may withhold their answers."""

    def __init__(self, ledger_entries: int, ledger_bytes: int = 1 << 20) -> None:
        tree = MemoryTree()
        self.bookkeeper = MemoryBookKeeper(tree)
        self.client: MemoryClient = self.bookkeeper.client()
        options = ManagedLedgerOptions(ledger_entries=ledger_entries, min_rollover_min=0)
        self.store = ManagedLedgerStore(
            tree.open(), self.client, options=options, ledger_bytes=ledger_bytes, cache_bytes=1
        )
        self.heard = Heard()

    async def open(self) -> Log[object]:
        return await self.store.open(NAME, "ours", self.heard)


async def append_in_turns(log: Log[object], *groups: tuple[bytes, ...]) -> None:
    """Each group in a turn of the event loop of its own."""
    for group in groups:
        log.extend(group, [1] * len(group), group)
        await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_a_group_does_not_wait_for_the_answers_about_the_one_before() -> None:
    broker = OneBroker(ledger_entries=100)
    log = await broker.open()
    broker.bookkeeper.answers.clear()
    await append_in_turns(log, (b"a", b"b"), (b"c",), (b"d", b"e"))
    assert broker.client.sent == 5
    assert broker.heard.entries == []
    broker.bookkeeper.answers.set()
    await log.drain()
    assert broker.heard.entries == [b"a", b"b", b"c", b"d", b"e"]
    assert [entry for _, entry in broker.heard.positions] == [0, 1, 2, 3, 4]
    await log.close()


async def test_what_is_in_flight_counts_for_a_full_ledger() -> None:
    broker = OneBroker(ledger_entries=4)
    log = await broker.open()
    broker.bookkeeper.answers.clear()
    entries = [b"%d" % number for number in range(10)]
    await append_in_turns(log, *((entry,) for entry in entries))
    assert broker.client.sent == 4
    broker.bookkeeper.answers.set()
    await log.drain()
    assert [each.entries for each in log.ledgers][:1] == [4]
    assert await everything(log) == entries
    await log.close()


@pytest.mark.parametrize("stored", range(7))
async def test_a_ledger_that_ends_among_groups_in_flight_keeps_their_order(stored: int) -> None:
    broker = OneBroker(ledger_entries=100)
    log = await broker.open()
    broker.bookkeeper.answers.clear()
    broker.client.fails_in = stored
    await append_in_turns(log, (b"0", b"1"), (b"2", b"3", b"4"), (b"5",), (b"6", b"7"))
    broker.bookkeeper.answers.set()
    await log.drain()
    assert broker.heard.entries == [b"%d" % number for number in range(8)]
    assert broker.heard.contexts == broker.heard.entries
    assert await everything(log) == broker.heard.entries
    ids = {at[0] for at in broker.heard.positions}
    assert len(ids) == (2 if stored else 1)
    await log.close()


@pytest.mark.parametrize("at_once", [False, True])
async def test_a_ledger_is_full_by_what_it_has_and_what_is_in_flight(at_once: bool) -> None:
    broker = OneBroker(ledger_entries=100, ledger_bytes=40)
    log = await broker.open()
    for number in range(9):
        log.append(b"%010d" % number, 1, number)
        await (asyncio.sleep(0) if at_once else log.drain())
    await log.drain()
    assert [(each.entries, each.size) for each in log.ledgers] == [(4, 40), (4, 40), (1, 10)]
    await log.close()
    await broker.store.close()


async def test_what_another_client_found_in_a_ledger_that_was_read_can_be_read() -> None:
    broker = OneBroker(ledger_entries=100)
    log = await broker.open()
    await write(log, broker.heard, b"first")
    assert list((await log.read(0, 100)).entries) == [b"first"]
    broker.client.unanswered_in = 0  # and the ledger is closed at it by another client
    await write(log, broker.heard, b"second")
    assert log.ledgers[0].entries == 2
    assert list((await log.read(1, 100)).entries) == [b"second"]
    await log.close()


async def test_nothing_follows_a_refused_entry_in_its_ledger() -> None:
    broker = OneBroker(ledger_entries=100)
    broker.client.payload_max = 3
    log = await broker.open()
    first = log.ledgers[-1].ledger_id
    broker.bookkeeper.answers.clear()
    await append_in_turns(log, (b"a",), (b"b", b"large"))
    assert broker.heard.lost_contexts == [b"a", b"b", b"large"]
    await append_in_turns(log, (b"c",))
    broker.bookkeeper.answers.set()
    await log.drain()
    assert broker.heard.entries == [b"c"]
    assert broker.heard.positions != [(first, 0)]
    await log.close()
