"""Placement by racks: every write set on enough racks wherever any choice of bookies has that."""

import itertools
from collections.abc import Iterator, Sequence
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.bookkeeper.client.rack_placement import (
    DEFAULT_RACK,
    RackPolicy,
    place,
    place_by_policy,
    read_racks,
)

BOOKIES = [f"b{number}" for number in range(6)]
SETUPS = st.tuples(
    st.integers(1, 5).flatmap(lambda size: st.tuples(st.just(size), st.integers(1, size))),
    st.lists(st.sampled_from(["/a", "/b", "/c", ""]), min_size=6, max_size=6),
    st.integers(1, 3),
    st.sets(st.integers(0, 4)),
    st.randoms(use_true_random=False),
)


def is_spread(ensemble: Sequence[str], racks: dict[str, str], write: int, wanted: int) -> bool:
    twice = [racks.get(each, DEFAULT_RACK) for each in (*ensemble, *ensemble)]
    return all(
        len(set(twice[first : first + write])) >= min(write, wanted)
        for first in range(len(ensemble))
    )


def choices(kept: Sequence[str | None], candidates: Sequence[str]) -> Iterator[list[str]]:
    """Every way to fill the places."""
    holes = [place for place, bookie in enumerate(kept) if bookie is None]
    for chosen in itertools.permutations(candidates, len(holes)):
        filled = dict(zip(holes, chosen, strict=True))
        yield [bookie or filled[place] for place, bookie in enumerate(kept)]


@settings(max_examples=300)
@given(SETUPS)
def test_write_sets_are_on_enough_racks_where_any_choice_has_that(
    setup: tuple[tuple[int, int], list[str], int, set[int], Random],
) -> None:
    (size, write), names, wanted, holes, rng = setup
    racks = {bookie: rack for bookie, rack in zip(BOOKIES, names, strict=True) if rack}
    drawn = rng.sample(BOOKIES, len(BOOKIES))
    kept = [None if place in holes else bookie for place, bookie in enumerate(drawn[:size])]
    candidates = [each for each in drawn if each not in kept]
    found = place(kept, candidates, racks, write, wanted)
    assert found is not None
    assert len(set(found.ensemble)) == size
    for before, after in zip(kept, found.ensemble, strict=True):
        assert before in (None, after)
    assert set(found.ensemble) <= {*candidates, *(each for each in kept if each)}
    assert found.is_spread == is_spread(found.ensemble, racks, write, wanted)
    if not found.is_spread:
        assert not any(is_spread(it, racks, write, wanted) for it in choices(kept, candidates))


def test_where_it_cannot_be_neighbours_differ_as_far_as_possible() -> None:
    racks = dict(zip(BOOKIES, ["/a", "/a", "/b", "/b", "/b", "/b"], strict=True))
    found = place([None] * 3, BOOKIES, racks, 2, 2)
    assert found is not None
    assert not found.is_spread
    assert [racks[each] for each in found.ensemble[:2]] == ["/a", "/b"]
    beside = place([None, "b3", None], ["b4", "b0", "b1"], racks, 2, 2)
    assert beside is not None
    assert beside.ensemble[:2] == ("b0", "b3")


def test_no_more_racks_are_asked_for_than_there_are_unless_that_is_enforced() -> None:
    one_rack = dict.fromkeys(BOOKIES, "/a")

    def spread(policy: RackPolicy, racks_there: int) -> bool | None:
        found = place_by_policy(policy, [None] * 2, BOOKIES, one_rack, 2, racks_there)
        return None if found is None else found.is_spread

    assert spread(RackPolicy(), racks_there=1)
    assert spread(RackPolicy(), racks_there=2) is False
    assert spread(RackPolicy(is_enforced=True), racks_there=1) is None
    assert spread(RackPolicy(is_enabled=False, is_enforced=True), racks_there=2)


def test_without_racks_the_first_candidates_are_taken_and_too_few_are_none() -> None:
    found = place([None, "b5", None], ["b3", "b1", "b0"], {}, 2, 2)
    assert found is not None
    assert (found.ensemble, found.is_spread) == (("b3", "b5", "b1"), False)
    assert place([None, "b5", None], ["b3"], {}, 2, 2) is None


def test_pulsars_map_names_bookies_by_id_or_address() -> None:
    value = b'{"g": {"b1": {"rack": "eu/r1"}, "10.0.0.2:3181": {"rack": "/r2"}}, "h": {"b3": {}}}'
    addresses = {"b1": "10.0.0.1:3181", "b2": "10.0.0.2:3181", "b3": "10.0.0.3:3181"}
    assert read_racks(value, addresses) == {"b1": "/eu/r1", "b2": "/r2"}
    for nonsense in (b"", b"{", b"[]", b'{"g": 1}', b'{"g": {"b1": 1}}'):
        assert read_racks(nonsense, addresses) == {}


def test_more_racks_are_not_wanted_than_bookies_store_an_entry() -> None:
    racks = {"b0": "/a", "b1": "/a"}
    alone = place([None, None], ["b0", "b1"], racks, 1, 3)
    assert alone is not None
    assert alone.is_spread
    pair = place([None, None], ["b0", "b1"], racks, 2, 3)
    assert pair is not None
    assert not pair.is_spread
    assert place([None, None, None], ["b0", "b1"], racks, 1, 1) is None
