"""What a history has said to hold is there after the power went."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pyarrow import fs

from counterpoise.decide.balancing.moves import RoundMemory
from counterpoise.load.fold import FoldState
from counterpoise.pipeline.history.compaction import compact
from counterpoise.pipeline.history.disk import Disk
from counterpoise.pipeline.history.layout import files
from counterpoise.pipeline.history.names import file_of
from counterpoise.pipeline.history.reports import land
from counterpoise.pipeline.history.store import Store
from counterpoise.pipeline.history.tables import HistoryTables
from counterpoise.pipeline.stream.states import state_name, write_state
from tests.load.story import START, poll
from tests.pipeline.fake_cluster import bundle_name
from tests.pipeline.forgetful_disk import ForgetfulDisk


def made(root: Path) -> tuple[Store, ForgetfulDisk]:
    disk = ForgetfulDisk()
    return Store(fs.LocalFileSystem(), str(root), str(root), disk), disk


def lands(store: Store, number: int) -> str:
    return land(store, poll(number, {"b1:80": {bundle_name(0): 10.0}}))


def saves_a_state(store: Store, number: int) -> str:
    name = state_name(START + number, 0, 1)
    write_state(store, name, FoldState.empty())
    return name


def keeps_a_memory(store: Store, number: int) -> str:
    HistoryTables(store).record_memory(START + number, RoundMemory())
    return file_of("memory", START + number)


@pytest.mark.parametrize("writes", [lands, saves_a_state, keeps_a_memory])
def test_a_file_and_every_directory_above_it_survive(
    tmp_path: Path, writes: Callable[[Store, int], str]
) -> None:
    root = tmp_path / "new" / "history"
    store, disk = made(root)
    for number in range(2):  # the first one makes the directories
        assert disk.survives(root / writes(store, number))
    assert disk.too_early == []


def test_small_files_go_when_the_one_that_replaces_them_survives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, disk = made(tmp_path)
    for number in range(3):
        lands(store, number)
    durable: list[bool] = []
    delete = Store.delete

    def deleted(self: Store, name: str) -> None:
        [archive] = files(self, "reports")
        durable.append(disk.survives(tmp_path / archive))
        delete(self, name)

    monkeypatch.setattr(Store, "delete", deleted)
    assert compact(store, "reports", up_to_poll=START * 2, at_least=1) == 3
    assert durable == [True] * 3


def test_a_file_that_is_there_is_replaced_by_a_durable_one_only(tmp_path: Path) -> None:
    store, disk = made(tmp_path)
    name = saves_a_state(store, 1)
    saves_a_state(store, 1)
    assert disk.too_early == []
    assert disk.survives(tmp_path / name)


def test_the_kernel_is_asked_for_both_the_file_and_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        asked.append(os.fstat(descriptor).st_ino)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    path = tmp_path / "day" / "file"
    with Disk().appearing(path) as file:
        file.write(b"all of it")
    assert asked == [each.stat().st_ino for each in (tmp_path, path, path.parent)]
