"""An orphan is Pulsar's, old enough, and unreferenced twice; nothing else is called one."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest

from counterpoise.bookkeeper.errors import NotThisCluster
from counterpoise.bookkeeper.ledger_rows import LedgerCluster
from counterpoise.bookkeeper.orphans import (
    ORPHAN,
    UNDECIDED,
    YOUNG,
    OrphanRow,
    UnreferencedCounts,
    orphan_rows,
)
from counterpoise.bookkeeper.proto import managed_pb2
from counterpoise.metadata.port import Stored
from tests.bookkeeper.fake_bookie import Misbehaviour
from tests.bookkeeper.fake_cluster import LONG_AGO, FakeCluster, of_topic

TOPIC = "t/n/persistent/x"
HOUR_MS = 3_600_000
NOW = LONG_AGO + 100 * HOUR_MS


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    """A topic of one ledger with a cursor, all of it in order."""
    async with FakeCluster().serve() as made:
        await made.ledger(1, [b"abc"] * 10, custom=of_topic(TOPIC))
        await made.topic(TOPIC, (1, 10, 30))
        await made.cursor(TOPIC, "sub", (1, 3), ledger=2)
        await made.ledger(2, [], open_=True, custom=of_topic(TOPIC, "sub"))
        yield made


async def found_in(
    reading: LedgerCluster, counts: UnreferencedCounts | None = None
) -> list[OrphanRow]:
    counts = counts or UnreferencedCounts()
    return [row async for rows in orphan_rows(reading, NOW, HOUR_MS, counts) for row in rows]


async def verdicts(cluster: FakeCluster) -> dict[int, str]:
    async with cluster.reading() as reading:
        return {row.ledger: row.verdict for row in await found_in(reading)}


async def test_a_cluster_in_order_has_none(cluster: FakeCluster) -> None:
    assert await verdicts(cluster) == {}


async def test_orphans_have_their_size(cluster: FakeCluster) -> None:
    await cluster.ledger(3, [b"12345"] * 4, custom=of_topic(TOPIC))
    await cluster.ledger(4, [b"123"] * 4, custom=of_topic("t/n/persistent/gone"), open_=True)
    await cluster.ledger(5, [], custom=of_topic(TOPIC, "gone"))
    async with cluster.reading() as reading:
        rows = await found_in(reading)
        assert reading.counts.topics == 1, "those that were read again count once"
    found = [(row.ledger, row.verdict, row.bytes, row.stored_bytes, row.cursor) for row in rows]
    assert found == [(3, ORPHAN, 20, 40, ""), (4, ORPHAN, 12, 24, ""), (5, ORPHAN, 0, 0, "gone")]


async def test_ledgers_of_others_are_never_judged(cluster: FakeCluster) -> None:
    await cluster.ledger(3, [b"x"], custom={"application": "distributedlog"})
    await cluster.ledger(4, [b"x"])
    await cluster.put("/ledgers/00/0000/L0005", b"damaged")
    counts = UnreferencedCounts()
    async with cluster.reading() as reading:
        assert await found_in(reading, counts) == []
    assert (counts.foreign, counts.unnamed, counts.unreadable, counts.referenced) == (1, 1, 1, 2)


async def test_a_young_ledger_may_be_on_its_way(cluster: FakeCluster) -> None:
    young = NOW - HOUR_MS + 1
    await cluster.ledger(3, [], open_=True, custom=of_topic(TOPIC), created_ms=young)
    await cluster.ledger(4, [], open_=True, custom=of_topic(TOPIC), created_ms=NOW - HOUR_MS)
    await cluster.ledger(5, [], open_=True, custom=of_topic(TOPIC), created_ms=0)
    await cluster.ledger(6, [], custom=of_topic(TOPIC), created_ms=0)
    await cluster.ledger(7, [], custom={"application": "pulsar"})
    async with cluster.reading() as reading:
        found = {row.ledger: (row.verdict, row.note) for row in await found_in(reading)}
    unknown = (UNDECIDED, "it is not known when it was created")
    assert found == {
        3: (YOUNG, ""),
        4: (ORPHAN, ""),
        5: unknown,
        6: unknown,
        7: (UNDECIDED, "its metadata does not say of which topic it is"),
    }


async def test_the_age_is_the_nodes_where_the_metadata_has_none(cluster: FakeCluster) -> None:
    """As on every real Pulsar: brokers leave it out."""
    for ledger in (3, 4):
        await cluster.ledger(ledger, [], custom=of_topic(TOPIC), created_ms=0)
    created = {"/ledgers/00/0000/L0003": NOW - HOUR_MS + 1, "/ledgers/00/0000/L0004": NOW - HOUR_MS}
    async with cluster.reading() as reading:
        reading.store = WithTimes(cluster, created)
        assert {row.ledger: row.verdict for row in await found_in(reading)} == {3: YOUNG, 4: ORPHAN}


async def test_a_compaction_may_write_for_hours(cluster: FakeCluster) -> None:
    custom = {
        "application": "pulsar",
        "component": "compacted-ledger",
        "pulsar/compactedTopic": "persistent://t/n/x",
    }
    hours = {3: 23, 4: 25}
    for ledger, ago in hours.items():
        created = NOW - ago * HOUR_MS
        await cluster.ledger(ledger, [b"x"], open_=True, custom=custom, created_ms=created)
    await cluster.ledger(5, [b"it is done"], custom=custom, created_ms=NOW - 23 * HOUR_MS)
    assert await verdicts(cluster) == {3: YOUNG, 4: ORPHAN, 5: ORPHAN}


async def compacted(cluster: FakeCluster) -> None:
    """Ledger 3 has the compacted messages, and only the cursor's ledger 4 says so."""
    custom = {
        "application": "pulsar",
        "component": "compacted-ledger",
        "pulsar/compactedTopic": "persistent://t/n/x",
    }
    await cluster.ledger(3, [b"x"], custom=custom)
    state = managed_pb2.PositionInfo(ledgerId=1, entryId=9)
    state.properties.add(name="CompactedTopicLedger", value=3)
    await cluster.ledger(
        4, [state.SerializeToString()], custom=of_topic(TOPIC, "__compaction"), open_=True
    )
    await cluster.cursor(TOPIC, "__compaction", (1, 3), ledger=4)


async def test_a_compacted_ledger_is_named_by_the_cursors_ledger(cluster: FakeCluster) -> None:
    await compacted(cluster)
    assert await verdicts(cluster) == {}


async def test_a_compacted_ledger_that_only_the_cursors_node_names_may_be_in_use(
    cluster: FakeCluster,
) -> None:
    await compacted(cluster)
    custom = {
        "application": "pulsar",
        "component": "compacted-ledger",
        "pulsar/compactedTopic": "persistent://t/n/x",
    }
    await cluster.ledger(5, [b"x"], custom=custom)
    await cluster.cursor(TOPIC, "__compaction", (1, 3), ledger=4, CompactedTopicLedger=5)
    assert await verdicts(cluster) == {}


async def test_without_the_cursors_ledger_nothing_of_its_topic_is_decided(
    cluster: FakeCluster,
) -> None:
    await compacted(cluster)
    await cluster.ledger(5, [b"x"], custom=of_topic(TOPIC))
    for each in cluster.bookies.values():
        each.always = Misbehaviour.IO_ERROR
    assert await verdicts(cluster) == {3: UNDECIDED, 5: UNDECIDED}


async def test_a_topic_whose_node_is_damaged_may_refer_to_anything(cluster: FakeCluster) -> None:
    await cluster.ledger(3, [b"x"], custom=of_topic("t/n/persistent/damaged"))
    await cluster.put("/managed-ledgers/t/n/persistent/damaged", b"\xff")
    assert await verdicts(cluster) == {3: UNDECIDED}


async def test_schemas_and_delayed_messages_refer_to_ledgers(cluster: FakeCluster) -> None:
    schema = {"application": "pulsar", "component": "schema", "pulsar/schemaId": "t/n/x"}
    delayed = {
        "application": "pulsar",
        "component": "delayed-index-bucket",
        "pulsar/delayedIndexTopic": "persistent://t/n/x",
    }
    for ledger in (3, 4, 5):
        await cluster.ledger(ledger, [b"x"], custom=schema)
    for ledger in (6, 7):
        await cluster.ledger(ledger, [b"x"], custom=delayed)
    locator = managed_pb2.SchemaLocator()
    locator.info.version, locator.info.hash = 1, b"h"
    locator.info.position.ledgerId, locator.info.position.entryId = 4, 0
    locator.index.add(version=0, hash=b"h").position.MergeFrom(
        managed_pb2.NestedPositionInfo(ledgerId=3, entryId=0)
    )
    await cluster.put("/schemas/t/n/x", locator.SerializeToString())
    info = managed_pb2.ManagedCursorInfo(cursorsLedgerId=-1)
    info.cursorProperties.add(name="#pulsar.internal.delayed.bucket_1_2", value="6")
    await cluster.put(f"/managed-ledgers/{TOPIC}/delays", info.SerializeToString())
    assert await verdicts(cluster) == {5: ORPHAN, 7: ORPHAN}


async def test_a_store_without_topics_is_another_clusters(cluster: FakeCluster) -> None:
    other = FakeCluster()
    async with cluster.reading() as reading:
        reading.store = other.store
        with pytest.raises(NotThisCluster, match="metadataStoreUrl"):
            await found_in(reading)


class WithTimes:
    """A store that knows when some nodes were created, as ZooKeeper does of all."""

    def __init__(self, cluster: FakeCluster, created: dict[str, int]) -> None:
        self._store = cluster.store
        self._created = created

    async def get(self, path: str) -> Stored | None:
        found = await self._store.get(path)
        return found and replace(found, created_ms=self._created.get(path, 0))

    async def children(self, path: str) -> list[str]:
        return await self._store.children(path)

    async def close(self) -> None:
        await self._store.close()


class ChangedLate:
    """A store in which something changes once the topic's list has been read so many times."""

    def __init__(
        self, cluster: FakeCluster, change: Callable[[], Awaitable[object]], reads: int = 1
    ) -> None:
        self._cluster = cluster
        self._change = change
        self._reads = reads

    async def get(self, path: str) -> Stored | None:
        found = await self._cluster.store.get(path)
        if path == f"/managed-ledgers/{TOPIC}":
            self._reads -= 1
            if not self._reads:
                await self._change()
        return found

    async def children(self, path: str) -> list[str]:
        return await self._cluster.store.children(path)

    async def close(self) -> None:
        await self._cluster.store.close()


async def test_what_changes_between_two_looks_is_seen(cluster: FakeCluster) -> None:
    """A reference that comes, a ledger that goes, a list that can be read no more."""
    await cluster.ledger(3, [b"x"], custom=of_topic(TOPIC))
    async with cluster.reading() as reading:
        reading.store = ChangedLate(cluster, lambda: cluster.topic(TOPIC, (1, 10, 30), (3, 0, 0)))
        assert await found_in(reading) == []
        await cluster.topic(TOPIC, (1, 10, 30))
        reading.store = ChangedLate(cluster, lambda: cluster.put(f"/managed-ledgers/{TOPIC}", b"?"))
        [row] = await found_in(reading)
        assert (row.ledger, row.verdict) == (3, UNDECIDED)
        await cluster.topic(TOPIC, (1, 10, 30))
        gone = "/ledgers/00/0000/L0003"
        reading.store = ChangedLate(cluster, lambda: cluster.store.delete(gone), reads=2)
        assert await found_in(reading) == []
    schema = {"application": "pulsar", "component": "schema", "pulsar/schemaId": "t/n/x"}
    await cluster.ledger(4, [b"x"], custom=schema)
    locator = managed_pb2.SchemaLocator()
    locator.info.version, locator.info.hash = 1, b"h"
    locator.info.position.ledgerId, locator.info.position.entryId = 4, 0
    async with cluster.reading() as reading:
        assert [row.ledger for row in await found_in(reading)] == [4]
        written = locator.SerializeToString()
        reading.store = ChangedLate(
            cluster, lambda: cluster.put("/schemas/t/n/x", written), reads=2
        )
        assert await found_in(reading) == []
