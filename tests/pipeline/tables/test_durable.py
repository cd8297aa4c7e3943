"""What a writer was notified of survives a loss of power: data, log and directories are synced."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from counterpoise.decide.balancing.moves import RoundMemory
from counterpoise.load.fold import FoldState
from counterpoise.pipeline.tables.history import TablesWriter, take_over
from counterpoise.pipeline.tables.journal import JournalWriter
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.states import commit_states, write_parts
from tests.load.story import START
from tests.pipeline.tables.test_compaction import landed


def lands(writer: TablesWriter) -> None:
    landed(writer, 1, 5000)


def saves_a_state(writer: TablesWriter) -> None:
    files = write_parts(writer.location, FoldState.empty(), up_to=START, shards=2)
    commit_states(writer, files, START)


def keeps_a_memory(writer: TablesWriter) -> None:
    JournalWriter(writer).record_memory(START, RoundMemory())


@pytest.mark.parametrize("writes", [lands, saves_a_state, keeps_a_memory])
def test_every_new_file_and_directory_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: Callable[[TablesWriter], None]
) -> None:
    synced: set[int] = set()
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    root = tmp_path / "new" / "history"
    writer = take_over(open_location(root))
    writes(writer)
    there = [path for path in [root, *root.rglob("*")] if path.name != "_last_checkpoint"]
    assert len(there) > 10
    assert [path for path in there if path.stat().st_ino not in synced] == []
