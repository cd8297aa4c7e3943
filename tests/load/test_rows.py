"""Rows as columns: names that are looked for among others."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from counterpoise.load.rates import Rates
from counterpoise.load.rows import COLUMNS, TEXT, ReportRows, places


class Twin(str):
    """A name whose hash is that of every other."""

    __slots__ = ()

    def __hash__(self) -> int:
        return 7

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other)  # type: ignore[arg-type]


words = st.text("abc", max_size=3)


@example(["b", "a"], ["a", "b"], Twin, Twin)
@example(["c"], ["a", "b"], Twin, Twin)
@given(
    st.lists(words),
    st.lists(words, unique=True),
    st.sampled_from([str, Twin]),
    st.sampled_from([str, Twin]),
)
def test_each_name_is_found_where_it_stands_or_nowhere(
    names: list[str], among: list[str], one: type[str], other: type[str]
) -> None:
    asked = np.array([*map(one, names), None], TEXT)[:-1]
    there = np.array([*map(other, among), None], TEXT)[:-1]
    found = places(asked, there)
    same = one is other  # else no hash belongs to another row
    expected = [among.index(name) if same and name in among else -1 for name in names]
    assert found.tolist() == expected
    assert found.dtype == np.int64


def test_rows_without_all_of_their_columns_are_none() -> None:
    empty = ReportRows.of([])
    assert len(empty) == 0
    few = {name: column for name, column in empty.columns.items() if name not in ("note", "kind")}
    with pytest.raises(ValueError, match=r"lack the columns \['kind', 'note'\]"):
        ReportRows(few)
    one = ReportRows.of([{"poll_id": 7, "broker": "b:1", "kind": "gap", "note": "no answer"}])
    assert len(one) == 1
    assert one.silent == {"b:1": "no answer"}
    assert one.columns.keys() == COLUMNS.keys()


def test_entries_without_traffic_are_as_many_as_were_asked_for() -> None:
    none = Rates.zeros(3)
    assert len(none) == 3
    assert (none.rate() + none.throughput()).tolist() == [0.0] * 3
