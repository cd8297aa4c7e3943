"""What the ledgers in memory do at the edges: without an id, without an entry, after a deletion."""

import asyncio

import pytest

from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.storage.port import Chunk, LogFencedError
from tests.storage.conftest import Heard

NAME = "t/n/persistent/x"


class ScarceIds:
    """Ledger ids of which there are none until they are fetched."""

    def __init__(self) -> None:
        self.ready: list[int] = []
        self.fetched: list[int] = []

    def next_id(self, above: int) -> int | None:
        return self.ready.pop() if self.ready else None

    async def fetch(self, above: int) -> None:
        self.fetched.append(above)
        self.ready.append(above + 10)


async def test_a_log_opens_with_an_id_that_is_fetched_and_grows_on_without_one() -> None:
    store, ids, heard = MemoryLedgerStore(ledger_entries=2), ScarceIds(), Heard()
    assert await store.highest_ledger() == -1
    await store.prepare(NAME, ids)
    assert ids.fetched == [], "there is nothing to go on with"
    log = await store.open(NAME, "a", heard, ids)
    assert ids.fetched == [-1]
    for n in range(5):
        log.append(b"%d" % n, 1, None)
        await log.drain()
    assert [(each.ledger_id, each.entries) for each in log.ledgers] == [(9, 5)]
    await store.prepare(NAME, ids)
    assert ids.fetched == [-1, 9]
    log.append(b"5", 1, None)
    await log.drain()
    assert [(each.ledger_id, each.entries) for each in log.ledgers] == [(9, 5), (19, 1)]
    assert await store.highest_ledger() == 19
    assert (log.cached(-1), log.cached(6)) == (None, None)
    assert await log.read(6, 1) == Chunk(6, (), ())
    assert not await store.is_released(NAME)
    await log.close()
    assert await store.is_released(NAME)


async def test_a_log_that_is_deleted_is_fenced_and_begins_again_empty() -> None:
    store, heard = MemoryLedgerStore(), Heard()
    log = await store.open(NAME, "a", heard)
    log.append(b"1", 1, None)
    await log.drain()
    assert await store.exists(NAME)
    await store.delete(NAME)
    await store.delete(NAME)
    assert not await store.exists(NAME)
    log.append(b"2", 1, None)
    await asyncio.sleep(0)
    with pytest.raises(LogFencedError, match="its deletion"):
        log.append(b"3", 1, None)
    again = await store.open(NAME, "b", Heard())
    assert again.begin == again.end
