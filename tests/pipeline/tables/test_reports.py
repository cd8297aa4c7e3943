"""Landing polls, and reading on behind one: every shard gets its rows, each once."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from counterpoise.load.fold import Batch, FoldState, fold, merged
from counterpoise.load.rows import ReportRows
from counterpoise.pipeline.clock import EVER
from counterpoise.pipeline.tables.compaction import compact
from counterpoise.pipeline.tables.history import take_over
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.reports import (
    land,
    newest_poll,
    next_slice,
    read_reports,
    read_shard,
)
from counterpoise.pipeline.tables.schema import ADDED, FOLD_STATE, REPORTS, rows_to_arrow
from counterpoise.pipeline.tables.states import (
    commit_states,
    current_states,
    read_state,
    resharded,
    state_from_bytes,
    state_to_bytes,
    write_state,
)
from counterpoise.pipeline.tables.views import parts
from tests.load.story import poll
from tests.load.test_fold import assert_same


def a_poll(number: int, bundles: int) -> ReportRows:
    broker_of = {f"b{n % 3}:8080": {} for n in range(3)}
    for index in range(bundles):
        name = f"public/default/0x{index:08x}_0x{index + 1:08x}"
        broker_of[f"b{index % 3}:8080"][name] = 100.0 + index + number
    return poll(number, dict(broker_of))


def test_a_poll_with_more_rows_than_a_slice_is_a_slice_by_itself(tmp_path: Path) -> None:
    writer = take_over(open_location(tmp_path))
    for number in range(3):
        land(writer, a_poll(number, 10))
    rows = writer.files(REPORTS)[0].rows
    after, slices = 0, list[int]()
    while (part := next_slice(writer, after, most_rows=rows - 1)) is not None:
        slices.append(len(part.files))
        after = part.up_to
    assert slices == [1, 1, 1]
    pair = next_slice(writer, 0, most_rows=2 * rows)
    assert pair is not None
    assert len(pair.files) == 2, "so many rows, and no more"


@pytest.mark.parametrize("bundles", [30, 20_000])
@pytest.mark.parametrize("shards", [1, 3])
def test_shards_fold_to_what_the_whole_folds_to(tmp_path: Path, bundles: int, shards: int) -> None:
    location = open_location(tmp_path)
    writer = take_over(location)
    polls = [a_poll(number, bundles) for number in range(3)]
    for rows in polls:
        land(writer, rows)
    states = [FoldState.empty()] * shards
    after = 0
    while (part := next_slice(writer, after, most_rows=bundles * 2)) is not None:
        batches = [read_shard(location, part, shard, shards) for shard in range(shards)]
        assert sum(len(batch.samples["bundle"]) for batch in batches) <= bundles * 2
        states = [fold(state, batch) for state, batch in zip(states, batches, strict=True)]
        files = [
            write_state(location, state, up_to=part.up_to, shard=shard, shards=shards)
            for shard, state in enumerate(states)
        ]
        commit_states(writer, files, part.up_to)
        after = part.up_to
    assert after == newest_poll(writer)

    whole = FoldState.empty()
    for rows in polls:
        whole = fold(whole, Batch.of(rows))
    kept = current_states(writer)
    assert kept is not None
    assert_same(merged([read_state(location, file) for file in kept.files]), merged([whole]))

    divided = resharded(writer, 2)
    assert divided is not None
    assert current_states(writer) == divided, "and no other states beside it"
    assert len(writer.files(FOLD_STATE)) == 2
    assert_same(merged([read_state(location, file) for file in divided.files]), merged([whole]))
    # And each part goes on with its own: a row in another's would be there twice from then on.
    more = a_poll(3, bundles)
    land(writer, more)
    part = next_slice(writer, after)
    assert part is not None
    states = [
        fold(read_state(location, file), read_shard(location, part, shard, 2))
        for shard, file in enumerate(divided.files)
    ]
    assert_same(merged(states), merged([fold(whole, Batch.of(more))]))


def test_a_history_from_before_a_column_goes_on_with_it(tmp_path: Path) -> None:
    """Older rows have zero in it, and null for other engines; newer ones are beside them."""
    location = open_location(tmp_path)
    old = rows_to_arrow(a_poll(1, 30)).drop_columns(list(ADDED))
    days = pa.array(["2023-11-14"] * len(old))
    write_deltalake(location.table_uri(REPORTS), old.append_column("day", days), partition_by="day")
    writer = take_over(location)
    newer = a_poll(2, 30)
    newer["load_average"][newer["kind"] == "broker"] = 0.5
    land(writer, newer)
    part = next_slice(writer, 0)
    assert part is not None
    state = fold(FoldState.empty(), read_shard(location, part, 0, 1))
    assert state.brokers["load_average"].tolist() == [0.5] * 3
    found = pa.concat_tables(read_reports(writer, 0, EVER, ["load_average", "kind"], ["broker"]))
    assert found.column("load_average").to_pylist() == [0.0] * 3 + [0.5] * 3
    seen = DeltaTable(location.table_uri(REPORTS)).to_pyarrow_table(
        columns=["kind", "load_average"]
    )
    averages = seen.filter(pc.equal(seen["kind"], "broker"))["load_average"].to_pylist()
    assert sorted(averages, key=str) == [0.5] * 3 + [None] * 3
    assert compact(writer, REPORTS, up_to_poll=part.up_to, at_least=2) == 2
    exported = pa.concat_tables(parts(writer, REPORTS, first_ms=0, last_ms=EVER))
    assert pc.sum(exported["load_average"]).as_py() == 1.5
    assert take_over(location).version(REPORTS) == writer.version(REPORTS) + 1, "it stays as it is"


def test_a_state_from_before_a_column_goes_on_with_it() -> None:
    state = fold(FoldState.empty(), Batch.of(a_poll(1, 3)))
    old = {name: each for name, each in state.brokers.items() if name not in ADDED}
    blob = state_to_bytes(FoldState(state.averages, state.served, old))
    assert state_from_bytes(blob).brokers["load_average"].tolist() == [0.0] * 3


def test_a_poll_is_landed_once(tmp_path: Path) -> None:
    writer = take_over(open_location(tmp_path))
    land(writer, a_poll(1, 5))
    with pytest.raises(FileExistsError, match="already been landed"):
        land(writer, a_poll(1, 5))
    assert sum(file.rows for file in writer.files("reports")) == len(a_poll(1, 5))
