"""Many items at once: the same as one after the other."""

import pytest

from counterpoise.load.lookup_many import lookup_many


@pytest.mark.parametrize("keys", [[], ["b"], ["c", "a"], ("a", "b", "a")])
def test_items_come_in_the_order_asked(keys: list[str]) -> None:
    table = {"a": 1, "b": 2, "c": 3}
    assert lookup_many(table, keys) == tuple(table[key] for key in keys)


@pytest.mark.parametrize("places", [[], [2], [2, 0]])
def test_a_tuple_is_a_table_of_its_places(places: list[int]) -> None:
    assert lookup_many(("x", "y", "z"), places) == tuple("xyz"[place] for place in places)


@pytest.mark.parametrize("keys", [["d"], ["a", "d"]])
def test_what_is_not_there_is_an_error(keys: list[str]) -> None:
    with pytest.raises(KeyError):
        lookup_many({"a": 1}, keys)
