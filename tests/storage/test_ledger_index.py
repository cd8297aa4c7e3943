"""The index of a log's entries against a list of their positions."""

from hypothesis import given
from hypothesis import strategies as st

from counterpoise.storage.ledger_index import LedgerIndex

LEDGERS = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4)), min_size=1, max_size=8)
"""How far each ledger's id is from the one before it, and how many entries it has."""


@given(LEDGERS, st.integers(0, 40))
def test_it_agrees_with_a_list_of_positions(steps: list[tuple[int, int]], before: int) -> None:
    ledgers, ledger_id = [], -1
    for gap, entries in steps:
        ledger_id += gap
        ledgers.append((ledger_id, entries, 10 * entries))
    index = LedgerIndex(ledgers)
    positions = [(ledger, entry) for ledger, entries, _ in ledgers for entry in range(entries)]
    assert (index.begin, index.end) == (0, len(positions))
    assert index.size == 10 * len(positions)
    for at, position in enumerate(positions):
        assert index.position(at) == position
        assert index.index(position) == at
    last, entries, _ = ledgers[-1]
    for more in range(3):
        assert index.position(index.end + more) == (last, entries + more)
        assert index.index((last, entries + more)) == index.end + more
    base = dict.fromkeys(range(ledger_id + 1), 0)
    for ledger in base:
        base[ledger] = sum(position[0] < ledger for position in positions)
    for ledger, count, _ in ledgers[:-1]:
        # Beyond a closed ledger's end comes the next ledger's first entry.
        assert index.index((ledger, count + 5)) == base[ledger] + count
        assert index.index((ledger, -1)) == base[ledger]
    for ledger in base.keys() - {each for each, _, _ in ledgers}:
        assert index.index((ledger, 3)) == base[ledger], "it is deleted: the next one counts"
    assert index.index((ledger_id + 1, 0)) == index.end
    closed = [each for each, count, _ in ledgers[:-1] if base[each] + count <= before]
    assert [each.ledger_id for each in index.trimmable(before)] == closed
    index.drop(len(closed))
    kept = ledgers[len(closed) :]
    assert index.begin == base[kept[0][0]]
    assert [(it.ledger_id, it.entries, it.is_open) for it in index.infos()] == [
        (ledger, count, ledger == last) for ledger, count, _ in kept
    ]
