"""Backlogs, beside a model that holds every entry in a set."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.bookkeeper.cursor_rows import cursor_rows
from counterpoise.bookkeeper.cursors import CursorPositions, EntryCount
from counterpoise.bookkeeper.managed_ledgers import read_managed_ledger
from counterpoise.bookkeeper.proto import managed_pb2
from counterpoise.names.position import Position
from tests.bookkeeper.fake_cluster import FakeCluster, of_topic

TOPIC = "t/n/persistent/x"


@st.composite
def topics(draw: st.DrawFn) -> tuple[list[tuple[int, int]], CursorPositions]:
    """Ledgers with their entries; a mark-delete position, and ranges beyond it in order."""
    ids = sorted(draw(st.sets(st.integers(0, 12), min_size=1, max_size=5)))
    ledgers = [(each, draw(st.integers(0, 80))) for each in ids]
    places = st.builds(Position, st.integers(0, 13), st.integers(-1, 80))
    cuts = sorted(draw(st.lists(places, min_size=1, max_size=9)))
    pairs = tuple(zip(cuts[1::2], cuts[2::2], strict=False))
    mark = draw(st.sampled_from(cuts))
    if draw(st.booleans()):
        return ledgers, CursorPositions(mark, pairs)
    bits = draw(st.dictionaries(st.sampled_from(ids), st.sets(st.integers(0, 130)), max_size=4))
    words = tuple(
        (ledger, tuple(sum(1 << e % 64 for e in found if e // 64 == w) for w in range(3)))
        for ledger, found in bits.items()
    )
    return ledgers, CursorPositions(mark, (), words)


@given(topics())
def test_a_backlog_is_what_is_left(made: tuple[list[tuple[int, int]], CursorPositions]) -> None:
    ledgers, cursor = made
    everything = {Position(ledger, entry) for ledger, count in ledgers for entry in range(count)}
    left = {each for each in everything if each > cursor.mark_delete}
    beyond = {
        each
        for each in left
        if any(before < each <= last for before, last in cursor.ranges)
        or any(
            ledger == each.ledger_id and words[each.entry_id // 64] >> each.entry_id % 64 & 1
            for ledger, words in cursor.bits
        )
    }
    count = EntryCount(ledgers)
    assert count.total == len(everything)
    assert count.acknowledged(cursor) == len(beyond)
    assert count.backlog(cursor) == len(left - beyond)


@pytest.mark.parametrize(
    ("mark", "before", "last", "acknowledged", "left"),
    [(1, -1, 1, 0, 8), (1, -1, 4, 3, 5), (1, 4, 99, 5, 3), (4, 3, 5, 1, 4), (99, 0, 5, 0, 0)],
)
def test_a_range_counts_as_far_as_it_goes_beyond_what_is_marked_and_within_the_ledger(
    mark: int, before: int, last: int, acknowledged: int, left: int
) -> None:
    count = EntryCount([(7, 10)])
    cursor = CursorPositions(Position(7, mark), ((Position(7, before), Position(7, last)),))
    assert count.acknowledged(cursor) == acknowledged
    assert count.backlog(cursor) == left
    words = sum(1 << entry for entry in range(before + 1, min(last, 60) + 1))
    assert count.backlog(CursorPositions(cursor.mark_delete, (), ((7, (words,)),))) == left


def state(ledger: int, entry: int) -> bytes:
    return managed_pb2.PositionInfo(ledgerId=ledger, entryId=entry).SerializeToString()


async def test_a_cursors_state_is_in_its_node_or_at_the_end_of_its_ledger() -> None:
    async with FakeCluster().serve() as cluster:
        await cluster.ledger(1, [b"m"] * 10, custom=of_topic(TOPIC))
        await cluster.ledger(2, [b"m"] * 5, custom=of_topic(TOPIC), open_=True)
        await cluster.topic(TOPIC, (1, 10, 10), (2, 0, 0))
        states = [state(1, 0), state(1, 3), state(1, 8)]
        await cluster.ledger(3, states, custom=of_topic(TOPIC, "live"), open_=True)
        await cluster.ledger(4, states, segments=((0, ("gone", "gone-2")),))
        await cluster.cursor(TOPIC, "rests", (1, 9))
        await cluster.cursor(TOPIC, "live", (1, 0), ledger=3)
        await cluster.cursor(TOPIC, "lost", (1, 0), ledger=4)
        await cluster.cursor(TOPIC, "no+ledger", (1, 0), ledger=99)
        await cluster.put(f"/managed-ledgers/{TOPIC}/damaged", b"\xff")
        async with cluster.reading() as reading:
            topic = await read_managed_ledger(reading.store, TOPIC)
            assert topic is not None
            rows = {row.cursor: row for row in await cursor_rows(reading, topic)}
    found = {name: (row.mark_delete, row.backlog) for name, row in rows.items()}
    assert found == {
        "rests": ("1:9", 5),
        "live": ("1:8", 6),
        "lost": ("1:0", -1),
        "no ledger": ("1:0", -1),
        "damaged": ("", -1),
    }
    assert "gone" in rows["lost"].note
    assert "99 is not there" in rows["no ledger"].note
    assert "/damaged" in rows["damaged"].note
