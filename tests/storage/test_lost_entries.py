"""Ranges of lost entries against sets of them."""

from hypothesis import given
from hypothesis import strategies as st

from counterpoise.storage.lost_entries import empty_chunk, lost_from, merged
from counterpoise.storage.port import Lost

RANGES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(0, 5)), max_size=8)


@given(RANGES)
def test_they_are_merged_and_found(ranges: list[tuple[int, int, int]]) -> None:
    lost = [Lost(ledger, first, first + more) for ledger, first, more in ranges]
    entries = {(it.ledger_id, entry) for it in lost for entry in range(it.first, it.last + 1)}
    found = merged(lost)
    assert sum(each.entries for each in found) == len(entries)
    assert {(it.ledger_id, n) for it in found for n in range(it.first, it.last + 1)} == entries
    # None touches the next one: each run of lost entries is one range.
    assert not any((it.ledger_id, it.last + 1) in entries for it in found)
    assert list(found) == sorted(found)
    for ledger in range(3):
        for entry in range(20):
            run = 0
            while (ledger, entry + run) in entries:
                run += 1
            assert lost_from(found, ledger, entry) == run


def test_a_chunk_in_place_of_very_many_is_bounded() -> None:
    for count, size in ((1, 1), (10_000, 10_000), (1 << 40, 10_000)):
        chunk = empty_chunk(7, count)
        assert (chunk.first, len(chunk.entries), len(chunk.messages)) == (7, size, size)
        assert not any(chunk.entries)
        assert not any(chunk.messages)
