"""The files of the shards' states: whole or not there, and no more of them than Spark may want."""

from pathlib import Path

import pytest

from counterpoise.load.fold import Batch, FoldState, fold
from counterpoise.pipeline import states
from counterpoise.pipeline.states import BATCHES_KEPT, read_state, state_path, write_state
from tests.load.story import poll
from tests.load.test_fold import assert_same
from tests.pipeline.fake_cluster import bundle_name


def some_state(number: int) -> FoldState:
    return fold(FoldState.empty(), Batch.of(poll(number, {"b1:80": {bundle_name(0): 1.0}})))


def names(directory: Path) -> set[str]:
    return {file.name for file in directory.iterdir()}


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    path = state_path(tmp_path, 3, 7)
    write_state(path, some_state(1))
    assert_same(read_state(path), some_state(1))
    assert names(path.parent) == {path.name}


def test_a_write_that_is_cut_off_leaves_the_version_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = state_path(tmp_path, 0, 1)
    write_state(path, some_state(1))

    def cut_off(state: FoldState) -> bytes:
        raise OSError("no space left on device")

    monkeypatch.setattr(states, "state_to_bytes", cut_off)
    with pytest.raises(OSError, match="no space"):
        write_state(path, some_state(2))
    assert_same(read_state(path), some_state(1))
    assert names(path.parent) == {path.name}


def test_versions_stay_as_long_as_spark_may_go_back_to_them(tmp_path: Path) -> None:
    """After micro-batch n, Spark can repeat the last twenty: it needs the version before them."""
    last = BATCHES_KEPT + 5
    others = state_path(tmp_path, 1, 1)
    write_state(others, some_state(1))
    second = state_path(tmp_path, 0, 2)
    left_by_a_crash = second.with_name(f".{second.name}.99.tmp")
    left_by_a_crash.parent.mkdir()
    left_by_a_crash.write_bytes(b"half a state")
    for version in range(1, last + 1):
        write_state(state_path(tmp_path, 0, version), some_state(version))
    wanted = range(last - BATCHES_KEPT, last + 1)
    assert names(tmp_path / "0") == {state_path(tmp_path, 0, v).name for v in wanted}
    assert others.exists()
