"""Rows as columns: names that are looked for among others."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.load.rows import TEXT, places


class Twin(str):
    """A name whose hash is that of every other."""

    __slots__ = ()

    def __hash__(self) -> int:
        return 7

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other)  # type: ignore[arg-type]


words = st.text("abc", max_size=3)


@given(
    st.lists(words), st.lists(words, unique=True), st.sampled_from([str, Twin]),
    st.sampled_from([str, Twin]),
)  # fmt: skip
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
