"""Landing polls, and reading on behind one: every shard gets its rows, each once."""

from pathlib import Path

import pytest

from counterpoise.load.fold import Batch, FoldState, fold, merged
from counterpoise.load.rows import ReportRows
from counterpoise.pipeline.tables.history import take_over
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.reports import land, newest_poll, next_slice, read_shard
from counterpoise.pipeline.tables.states import (
    commit_states,
    current_states,
    read_state,
    resharded,
    write_state,
)
from tests.load.story import poll
from tests.load.test_fold import assert_same


def a_poll(number: int, bundles: int) -> ReportRows:
    broker_of = {f"b{n % 3}:8080": {} for n in range(3)}
    for index in range(bundles):
        name = f"public/default/0x{index:08x}_0x{index + 1:08x}"
        broker_of[f"b{index % 3}:8080"][name] = 100.0 + index + number
    return poll(number, dict(broker_of))


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
    assert_same(merged([read_state(location, file) for file in divided.files]), merged([whole]))


def test_a_poll_is_landed_once(tmp_path: Path) -> None:
    writer = take_over(open_location(tmp_path))
    land(writer, a_poll(1, 5))
    with pytest.raises(FileExistsError, match="already been landed"):
        land(writer, a_poll(1, 5))
    assert sum(file.rows for file in writer.files("reports")) == len(a_poll(1, 5))
