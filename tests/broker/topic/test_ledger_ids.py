"""Ledger ids are unique among the topics of a cluster and ascend in each of them."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.broker.base import paths
from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.topic.ledger_ids import ClusterLedgerIds
from counterpoise.metadata import MemoryTree, StoreUnavailable
from counterpoise.storage.files.store import FileLedgerStore
from counterpoise.storage.grouplog import Log
from counterpoise.storage.local_ids import LocalLedgerIds
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.storage.port import StorageError
from tests.broker.misbehaving_store import MisbehavingStore
from tests.storage.conftest import Heard, write

LOGS = ("t/n/persistent/a", "t/n/persistent/b", "t/n/persistent/c")


@dataclass
class OneBroker:
    """A broker's ids, from a metadata session of its own."""

    metadata: MisbehavingStore
    background: BackgroundTasks
    ids: ClusterLedgerIds


def a_broker(tree: MemoryTree, ledgers: MemoryLedgerStore, at_once: int = 4) -> OneBroker:
    metadata, background = MisbehavingStore(tree), BackgroundTasks()
    ids = ClusterLedgerIds(metadata, ledgers, background, at_once=at_once)
    return OneBroker(metadata, background, ids)


MOVES = st.lists(
    st.tuples(
        st.sampled_from(("open", "write", "restart", "prepare", "together")),
        st.integers(0, 2),
        st.sampled_from(LOGS),
    ),
    max_size=40,
)


@settings(max_examples=60)
@given(MOVES)
def test_ids_are_unique_and_ascend_wherever_topics_go(moves: list[tuple[str, int, str]]) -> None:
    asyncio.run(_play(moves))


async def _play(moves: list[tuple[str, int, str]]) -> None:
    tree, ledgers = MemoryTree(), MemoryLedgerStore(ledger_entries=2)
    brokers = [a_broker(tree, ledgers) for _ in range(3)]
    logs: dict[str, tuple[Log[object], Heard]] = {}
    used: dict[int, str] = {}
    latest: dict[str, int] = {}

    async def open_at(broker: OneBroker, name: str) -> None:
        heard = Heard()
        log = await ledgers.open(name, "owner", heard, broker.ids)
        logs[name] = (log, heard)
        assert log.ledgers[-1].ledger_id > latest.get(name, -1), "not above its former owner's"

    for kind, number, name in moves:
        broker = brokers[number]
        if kind == "open":
            await open_at(broker, name)
        elif kind == "together":
            await asyncio.gather(
                *(open_at(each, log) for each, log in zip(brokers, LOGS, strict=True))
            )
        elif kind == "prepare":
            await ledgers.prepare(name, broker.ids)
        elif kind == "restart":
            brokers[number] = a_broker(tree, ledgers)
        elif name in logs:
            log, heard = logs[name]
            for _ in range(3):
                log.append(b"x", 1, None)
            await log.flush()
        for each, (log, heard) in logs.items():
            ids = [ledger.ledger_id for ledger in log.ledgers]
            assert ids == sorted(set(ids)), each
            assert heard.positions == sorted(set(heard.positions)), each
            latest[each] = ids[-1]
            for ledger_id in ids:
                assert used.setdefault(ledger_id, each) == each, "two topics share a ledger id"


@pytest.mark.parametrize("last", [-1, 100])
async def test_a_range_is_reserved_before_the_last_one_is_used_up(last: int) -> None:
    """Also for a topic that came from a broker with a later range, while an earlier one is left."""
    one = a_broker(MemoryTree(), MemoryLedgerStore(), at_once=6)
    await one.ids.fetch(-1)
    await one.ids.fetch(last)
    writes = []
    for _ in range(50):
        found = one.ids.next_id(last)
        assert found is not None, "an opening waits for the metadata store"
        last = last if last < 0 else found
        # The store's answer needs a few turns of the loop; a topic's opening takes longer.
        for _ in range(5):
            await asyncio.sleep(0)
        writes.append([kind for kind, _ in one.metadata.asked].count("put"))
    begun = writes[0]
    assert writes[:3] == [begun, begun, begun + 1], "half of a range is left: the next is reserved"
    assert writes[-1] <= 20


async def test_ids_go_on_while_the_store_is_away_and_a_log_without_one_opens_after_it() -> None:
    tree, ledgers = MemoryTree(), MemoryLedgerStore()
    one, other = a_broker(tree, ledgers), a_broker(tree, ledgers)
    await one.ids.fetch(-1)
    await other.ids.fetch(-1)
    moved = await ledgers.open(LOGS[0], "other", Heard(), other.ids)
    one.metadata.go_away()
    kept = await ledgers.open(LOGS[1], "one", Heard(), one.ids)
    assert kept.ledgers[0].ledger_id < moved.ledgers[0].ledger_id
    with pytest.raises(StoreUnavailable):
        await ledgers.open(LOGS[0], "one", Heard(), one.ids)
    one.metadata.come_back()
    back = await ledgers.open(LOGS[0], "one", Heard(), one.ids)
    assert back.ledgers[0].ledger_id > moved.ledgers[0].ledger_id


async def test_a_reservation_whose_answer_was_lost_is_not_handed_out_twice() -> None:
    tree, ledgers = MemoryTree(), MemoryLedgerStore()
    one, other = a_broker(tree, ledgers), a_broker(tree, ledgers)
    one.metadata.fails_afterwards = lambda kind, _: kind == "put"
    with pytest.raises(StoreUnavailable):
        await one.ids.fetch(-1)
    one.metadata.fails_afterwards = lambda _, __: False
    await other.ids.fetch(-1)
    await one.ids.fetch(-1)
    assert len({broker.ids.next_id(-1) for broker in (one, other, one, other)}) == 4


@pytest.mark.parametrize("value", [b"", b"x", b"-5", b"1.5"])
async def test_a_damaged_sequence_is_named_and_never_guessed(value: bytes) -> None:
    one = a_broker(MemoryTree(), MemoryLedgerStore())
    await one.metadata.put(paths.LEDGER_IDS, value)
    with pytest.raises(StorageError, match=r"/counterpoise/ledger-ids holds .* next free ledger"):
        await one.ids.fetch(-1)


async def test_a_cluster_over_older_files_begins_above_them_and_serves_them(tmp_path: Path) -> None:
    """As every topic's first ledger was 0 before, and after the metadata was lost."""
    before, stored = FileLedgerStore(tmp_path), []
    for name in LOGS[:2]:
        heard = Heard()
        log = await before.open(name, "before", heard)
        await write(log, heard, b"old")
        await log.close()
        stored.append(log.ledgers[0].ledger_id)
    await before.close()
    after = FileLedgerStore(tmp_path)
    one = a_broker(MemoryTree(), after)  # type: ignore[arg-type]
    assert await after.highest_ledger() == max(stored)
    for name in reversed(LOGS):
        heard = Heard()
        log = await after.open(name, "after", heard, one.ids)
        assert log.ledgers[-1].ledger_id > max(stored)
        assert log.end - log.begin == (0 if name == LOGS[2] else 1)
        await log.close()
    await after.close()


@pytest.mark.parametrize("last", [6, 10**9])
async def test_a_log_with_later_ledgers_than_the_sequence_knows_goes_on_above_them(
    last: int,
) -> None:
    """The metadata was restored from an older copy, and ids were reserved since."""
    ledgers, former = MemoryLedgerStore(), LocalLedgerIds()
    former.next_id(last - 2)
    heard = Heard()
    log = await ledgers.open(LOGS[0], "before", heard, former)
    await write(log, heard, b"x")
    one = a_broker(MemoryTree(), ledgers)
    await one.metadata.put(paths.LEDGER_IDS, b"5")
    await one.ids.fetch(-1)
    for _ in range(4):
        log = await ledgers.open(LOGS[0], "after", Heard(), one.ids)
        ids = [each.ledger_id for each in log.ledgers]
        assert ids[0] == last
        assert len(ids) == 2
        assert ids[1] > last
