"""What a writer was notified of survives a loss of power: data, log and directories are synced."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from counterpoise.decide.balancing.moves import RoundMemory
from counterpoise.load.fold import FoldState
from counterpoise.pipeline.tables.data_files import write_file
from counterpoise.pipeline.tables.faults import HistoryFaultError
from counterpoise.pipeline.tables.history import TablesWriter, take_over
from counterpoise.pipeline.tables.journal import JournalWriter
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.plain_files import read_plain, write_plain
from counterpoise.pipeline.tables.schema import REPORTS, rows_to_arrow
from counterpoise.pipeline.tables.states import commit_states, write_parts
from tests.load.story import START, poll
from tests.pipeline.tables.test_compaction import landed


def lands(writer: TablesWriter) -> None:
    landed(writer, 1, 5000)


def saves_a_state(writer: TablesWriter) -> None:
    files = write_parts(writer.location, FoldState.empty(), up_to=START, shards=2)
    commit_states(writer, files, START)


def keeps_a_memory(writer: TablesWriter) -> None:
    JournalWriter(writer).record_memory(START, RoundMemory())


def says_a_word(writer: TablesWriter) -> None:
    write_plain(writer.location, "control", b"pause")


@pytest.mark.parametrize("writes", [lands, saves_a_state, keeps_a_memory, says_a_word])
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

    def unsynced(paths: set[Path]) -> list[Path]:
        return [path for path in paths if path.stat().st_ino not in synced]

    def there() -> set[Path]:
        return {path for path in [root, *root.rglob("*")] if path.name != "_last_checkpoint"}

    writer = take_over(open_location(root))
    before = there()
    assert len(before) > 10
    assert unsynced(before) == []
    synced.clear()
    writes(writer)
    new = there() - before
    assert new
    assert unsynced(new | {path.parent for path in new}) == []


def test_a_write_that_fails_leaves_what_was_there_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one makes the directories that it needs."""
    root = tmp_path / "new" / "history"
    location = open_location(root)
    write_plain(location, "control", b"pause")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(HistoryFaultError, match="the disk is full"):
        write_plain(location, "control", b"go")
    assert read_plain(location, "control") == b"pause"
    assert [path.name for path in root.iterdir()] == ["control"]
    with pytest.raises(HistoryFaultError, match="the disk is full"):
        write_file(location, REPORTS, rows_to_arrow(poll(1, {"a:1": {}})))
