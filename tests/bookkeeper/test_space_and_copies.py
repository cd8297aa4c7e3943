"""Space, bookies, copies and lists, held against the entries that each bookie stores."""

from collections import Counter

from counterpoise.bookkeeper.ledger_rows import GONE, UNREADABLE, listed_ledgers
from counterpoise.bookkeeper.managed_ledgers import ListedLedger
from counterpoise.bookkeeper.replication import bookie_rows, replication_rows
from counterpoise.bookkeeper.space import BY_TOPIC, space_rows
from tests.bookkeeper.fake_cluster import FakeCluster, of_topic

SMALL, LARGE = "t/n/persistent/small", "t/n/persistent/large"
BYTES = {1: 2, 2: 5, 3: 7}
"""Of each entry, by ledger."""


async def test_sums_are_those_of_what_bookies_store() -> None:
    async with FakeCluster().serve() as cluster:
        await cluster.ledger(1, [b"x" * BYTES[1]] * 6, custom=of_topic(SMALL))
        # Its ensemble changed: the first bookie has no part in what is written now.
        ensembles = ((0, ("b1", "b2")), (4, ("b2", "b3")))
        await cluster.ledger(
            2, [b"x" * BYTES[2]] * 8, custom=of_topic(LARGE), segments=ensembles, open_=True
        )
        await cluster.ledger(3, [b"x" * BYTES[3]] * 3, custom=of_topic(LARGE))
        await cluster.put("/ledgers/00/0000/L0004", b"damaged")
        async with cluster.reading() as reading:
            spaces = await space_rows(reading, BY_TOPIC)
            rows = {row.bookie: row for row in await bookie_rows(reading)}
        copies = Counter(entry for bookie in cluster.bookies.values() for entry in bookie.stored)
        expected = [
            (
                f"persistent://{name.replace('/persistent', '')}",
                len(of),
                [ledger for ledger, _ in copies if ledger in of],
                sum(
                    number * BYTES[ledger] for (ledger, _), number in copies.items() if ledger in of
                ),
            )
            for name, of in ((LARGE, {2, 3}), (SMALL, {1}))
        ]
        assert [
            (row.name, row.ledgers, row.entries, row.bytes, row.stored_bytes, row.unknown)
            for row in spaces
        ] == [
            *(
                (name, number, len(entries), sum(BYTES[each] for each in entries), stored, 0)
                for name, number, entries, stored in expected
            ),
            ("(unreadable metadata)", 1, 0, 0, 0, 1),
        ]
        assert [row.open_ledgers for row in spaces] == [1, 0, 0]
        for name, bookie in cluster.bookies.items():
            stored = sum(BYTES[ledger] for ledger, _ in bookie.stored)
            assert rows[name].stored_bytes == stored
            assert rows[name].ledgers == len({ledger for ledger, _ in bookie.stored})
        assert {name: row.open_ledgers for name, row in rows.items()} == {"b1": 0, "b2": 1, "b3": 1}


async def test_the_topic_that_takes_the_most_space_with_its_copies_comes_first() -> None:
    async with FakeCluster().serve() as cluster:
        await cluster.ledger(1, [b"x" * 9], custom=of_topic(SMALL), quorums=(1, 1))
        await cluster.ledger(2, [b"x" * 5], custom=of_topic(LARGE))
        async with cluster.reading() as reading:
            found = [(row.bytes, row.stored_bytes) for row in await space_rows(reading, BY_TOPIC)]
        assert found == [(5, 10), (9, 9)]


async def test_copies_are_those_of_the_entry_that_has_lost_most() -> None:
    async with FakeCluster().serve() as cluster:
        # Two copies of each entry, on neighbours: the first entry is on the two that are there.
        ensemble = ((0, ("b1", "b2", "gone")),)
        for ledger, entries in ((1, 3), (2, 1)):
            await cluster.ledger(ledger, [b"x"] * entries, segments=ensemble)
        await cluster.ledger(3, [b"x"])
        await cluster.ledger(4, [b"x"] * 3, segments=ensemble, quorums=(1, 1))
        mark = "/ledgers/underreplication/ledgers/0000/0000/0000/0003/urL0000000003"
        await cluster.put(mark, b'replica: "b3"\n')
        async with cluster.reading() as reading:
            found = [row async for rows in replication_rows(reading) for row in rows]
        shown = [(row.ledger, row.copies, row.at_risk, row.marked_since) for row in found]
        assert shown == [
            (1, 1, False, ""),
            (2, 2, False, ""),
            (3, 2, False, "yes"),
            (4, 0, True, ""),
        ]


async def test_a_listed_ledger_is_missed_only_where_it_was_not_offloaded() -> None:
    async with FakeCluster().serve() as cluster, cluster.reading() as reading:
        await cluster.put("/ledgers/00/0000/L0008", b"damaged")
        listed = [ListedLedger(7, 4, 40, 1, gone, gone) for gone in (True, False)]
        listed.append(ListedLedger(8, 4, 40, 1, True, False))
        *found, damaged = [
            row async for rows in listed_ledgers(reading, "t", listed) for row in rows
        ]
    assert (damaged.state, damaged.stored_bytes) == (UNREADABLE, -1)
    assert damaged.note.startswith("offloaded; /ledgers/00/0000/L0008: not a ledger's metadata")
    assert [(row.state, row.entries, row.bytes, row.stored_bytes) for row in found] == [
        (GONE, 4, 40, 0)
    ] * 2
    assert [row.note for row in found] == [
        "offloaded",
        "its topic lists it, and BookKeeper has no such ledger",
    ]
