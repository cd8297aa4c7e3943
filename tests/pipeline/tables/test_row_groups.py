"""Which row groups of a data file are read for a part of it."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.load.rows import BUNDLE
from counterpoise.pipeline.tables.row_groups import BY_SLOT, NO_BUNDLES, ReportPart

DIGESTS = st.integers(0, 40)
ROWS = st.lists(st.tuples(st.sampled_from([BUNDLE, "broker", "poll"]), DIGESTS), min_size=1)
PARTS = st.builds(
    lambda others, first, count: ReportPart(others, range(first, first + count)),
    st.booleans(),
    DIGESTS,
    st.integers(0, 20),
)


@given(ROWS, PARTS)
def test_a_row_group_that_has_rows_of_a_part_is_read(
    rows: list[tuple[str, int]], part: ReportPart
) -> None:
    kinds, digests = [kind for kind, _ in rows], [digest for _, digest in rows]
    table = pa.table({"kind": kinds, "digest": pa.array(digests, pa.int64())})
    extents = (min(kinds), max(kinds)), (min(digests), max(digests))
    if part.of(table).num_rows:
        assert part.may_be_in(*extents)
    assert part.may_be_in(None, extents[1]), "what is not known may be there"


def test_a_row_group_of_other_bundles_is_not_read() -> None:
    bundles, brokers = (BUNDLE, BUNDLE), ("broker", "broker")
    part = ReportPart(others=False, digests=range(10, 20))
    assert [part.may_be_in(bundles, each) for each in ((0, 9), (0, 10), (19, 30), (20, 30))] == [
        False,
        True,
        True,
        False,
    ]
    assert (part.may_be_in(brokers, (10, 20)), NO_BUNDLES.may_be_in(brokers, (10, 20))) == (
        False,
        True,
    )


def test_every_digest_is_in_one_slot() -> None:
    assert [each.digests.start for each in BY_SLOT[1:]] == [
        each.digests.stop for each in BY_SLOT[:-1]
    ]
    assert all(each.digests for each in BY_SLOT)
