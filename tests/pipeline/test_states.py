"""The shards' states: whole or not there, only complete ones count, and only the newest stay."""

from pathlib import Path

import pytest

from counterpoise.load.fold import Batch, FoldState, fold, merged
from counterpoise.pipeline.history.store import Store, open_store
from counterpoise.pipeline.stream import states
from counterpoise.pipeline.stream.states import (
    KEPT,
    begin,
    complete,
    forget,
    read_state,
    state_name,
    write_state,
)
from counterpoise.pipeline.tables.faults import HistoryFaultError
from tests.load.story import poll
from tests.load.test_fold import assert_same
from tests.pipeline.fake_cluster import bundle_name


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path)


def some_state(number: int, bundles: int = 1) -> FoldState:
    loads = {bundle_name(index): 1.0 + index for index in range(bundles)}
    return fold(FoldState.empty(), Batch.of(poll(number, {"b1:80": loads})))


def test_what_was_written_is_read_back(store: Store) -> None:
    name = state_name(7, 3, 4)
    write_state(store, name, some_state(1))
    assert_same(read_state(store, name), some_state(1))


def test_a_write_that_is_cut_off_leaves_nothing(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(self: Path, target: Path) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(Path, "replace", cut_off)
    with pytest.raises(HistoryFaultError, match="the disk is full"):
        write_state(store, state_name(7, 0, 1), some_state(1))
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []


def test_the_stream_goes_on_behind_the_newest_state_that_is_complete(store: Store) -> None:
    assert begin(store, 2) == 0
    for poll_id in (5, 9):
        for shard in range(2):
            write_state(store, state_name(poll_id, shard, 2), some_state(poll_id))
    write_state(store, state_name(12, 0, 2), some_state(12))
    assert complete(store) == [(5, 2), (9, 2)]
    assert begin(store, 2) == 9


def test_another_number_of_shards_deals_the_bundles_out_anew(store: Store) -> None:
    whole = some_state(1, bundles=20)
    for shard in range(2):
        write_state(store, state_name(5, shard, 2), states._part(whole, shard, 2))
    assert begin(store, 3) == 5
    assert complete(store) == [(5, 3)]
    parts = [read_state(store, state_name(5, shard, 3)) for shard in range(3)]
    assert min(len(part.averages["bundle"]) for part in parts) > 0
    assert_same(merged(parts), merged([whole]))


def test_only_the_newest_states_stay_and_what_was_left_half_way_goes(store: Store) -> None:
    write_state(store, state_name(1, 0, 2), some_state(1))
    for poll_id in range(2, 8):
        for shard in range(2):
            write_state(store, state_name(poll_id, shard, 2), some_state(poll_id))
    forget(store)
    assert [poll_id for poll_id, _ in complete(store)] == [5, 6, 7][-KEPT:]
    assert len(store.directories("states")) == KEPT
