"""What is written of managed ledgers and cursors: read back as it was, and nothing else changed."""

from hypothesis import given
from hypothesis import strategies as st

from counterpoise.bookkeeper.cursors import (
    NO_LEDGER,
    CursorNode,
    CursorPositions,
    parse_cursor_node,
    parse_positions,
    write_cursor_node,
    write_positions,
)
from counterpoise.bookkeeper.managed_ledgers import (
    ListedLedger,
    parse_managed_ledger,
    with_ledgers,
    with_topic,
)
from counterpoise.bookkeeper.proto import managed_pb2 as pb
from counterpoise.names.position import Position

NAME = "t/n/persistent/x"
PATH = f"/managed-ledgers/{NAME}/s+1"
LONGS = st.integers(0, 2**63 - 1)
PLACES = st.builds(Position, LONGS, st.integers(-1, 2**40))
TEXTS = st.text(max_size=9)
WORDS = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=3).map(tuple)
POSITIONS = st.builds(
    CursorPositions,
    PLACES,
    st.lists(st.tuples(PLACES, PLACES), max_size=4).map(tuple),
    st.just(()),
    st.lists(st.tuples(TEXTS, st.integers(-(2**63), 2**63 - 1)), max_size=3).map(tuple),
    st.lists(st.tuples(PLACES, WORDS), max_size=3).map(tuple),
)
UNKNOWN = b"\xfa\x3e\x03new"
"""A field of a later Pulsar."""


@given(POSITIONS, st.lists(st.tuples(LONGS, WORDS), max_size=3).map(tuple))
def test_an_entry_of_a_cursors_ledger(
    positions: CursorPositions, bits: tuple[tuple[int, tuple[int, ...]], ...]
) -> None:
    whole = CursorPositions(
        positions.mark_delete, positions.ranges, bits, positions.numbers, positions.batches
    )
    assert parse_positions("entry 1:2", write_positions(whole)) == whole


@given(POSITIONS, st.integers(-1, 9), st.lists(st.tuples(TEXTS, TEXTS), max_size=3).map(tuple))
def test_a_cursors_node_has_the_whole_state_or_names_its_ledger(
    positions: CursorPositions, ledger: int, texts: tuple[tuple[str, str], ...]
) -> None:
    node = CursorNode("s 1", ledger, positions, texts)
    former = pb.ManagedCursorInfo(cursorsLedgerId=3, lastActive=1).SerializeToString() + UNKNOWN
    value = write_cursor_node(PATH, former, node, 77)
    found = parse_cursor_node(PATH, value)
    if ledger != NO_LEDGER:
        node = CursorNode(
            "s 1", ledger, CursorPositions(positions.mark_delete, numbers=positions.numbers), texts
        )
    assert found == node
    assert pb.ManagedCursorInfo.FromString(value).lastActive == 77
    assert UNKNOWN in value


def test_what_a_cursor_had_before_is_replaced() -> None:
    former = CursorNode(
        "s 1",
        NO_LEDGER,
        CursorPositions(
            Position(1, 1),
            ((Position(1, 2), Position(1, 3)),),
            (),
            (("p", 4),),
            ((Position(1, 5), (7,)),),
        ),
        (("old", "text"),),
    )
    value = write_cursor_node(PATH, b"", former, 1)
    assert parse_cursor_node(PATH, value) == former
    now = CursorNode("s 1", NO_LEDGER, CursorPositions(Position(2, 0)), (("new", "text"),))
    assert parse_cursor_node(PATH, write_cursor_node(PATH, value, now, 2)) == now


@given(
    st.lists(st.builds(ListedLedger, LONGS, LONGS, LONGS, st.integers(1, 2**60), st.just(False),
                       st.just(False)), unique_by=lambda each: each.ledger, max_size=5),
    st.dictionaries(TEXTS, TEXTS, max_size=3),
    st.none() | PLACES,
)  # fmt: skip
def test_ledgers_and_the_topic_change_without_each_other(
    ledgers: list[ListedLedger], properties: dict[str, str], end: Position | None
) -> None:
    value = with_topic(NAME, UNKNOWN, properties, end)
    value = with_ledgers(NAME, value, ledgers)
    found = parse_managed_ledger(NAME, value)
    assert (list(found.ledgers), dict(found.properties), found.terminated) == (
        ledgers,
        properties,
        end,
    )
    again = parse_managed_ledger(NAME, with_topic(NAME, value, {"k": "v"}, None))
    assert (again.ledgers, again.properties, again.terminated) == (
        found.ledgers,
        (("k", "v"),),
        None,
    )
    assert UNKNOWN in value


def test_what_a_listed_ledger_has_besides_stays() -> None:
    info = pb.ManagedLedgerInfo()
    info.ledgerInfo.add(ledgerId=5, timestamp=1).MergeFromString(UNKNOWN)
    kept = with_ledgers(NAME, info.SerializeToString(), [ListedLedger(5, 2, 9, 3, False, False)])
    assert UNKNOWN in kept
    assert UNKNOWN not in with_ledgers(NAME, kept, [ListedLedger(6, 0, 0, 0, False, False)])


def test_the_ledger_being_written_has_no_size_and_offloading_is_seen_before_it_is_done() -> None:
    value = with_ledgers(NAME, b"", [ListedLedger(5, 2, 9, 0, False, False)])
    assert parse_managed_ledger(NAME, value).ledgers == (ListedLedger(5, 0, 0, 0, False, False),)
    info = pb.ManagedLedgerInfo()
    begun = info.ledgerInfo.add(ledgerId=5, entries=2, size=9, timestamp=3)
    begun.offloadContext.complete = False
    [found] = parse_managed_ledger(NAME, info.SerializeToString()).ledgers
    assert (found.offloading, found.offloaded, found.deleted) == (True, False, False)


@given(st.sets(st.integers(0, 200)))
def test_bits_are_ranges(acknowledged: set[int]) -> None:
    words = tuple(
        sum(1 << entry % 64 for entry in acknowledged if entry // 64 == word) for word in range(4)
    )
    positions = CursorPositions(Position(1, 0), (), ((7, words),))
    found = positions.acknowledged
    assert {e for a, b in found for e in range(a.entry_id, b.entry_id + 1)} == acknowledged
    ends = [each.entry_id for pair in found for each in pair]
    assert all(ends[at + 1] > ends[at] + 1 for at in range(1, len(ends) - 1, 2)), "they touch"
