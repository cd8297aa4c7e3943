"""Damage of every kind: a sentence that names the file, `history repair`, and the rest goes on."""

from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from counterpoise.app.main import main
from counterpoise.decide.balancing.moves import Round, RoundMemory
from counterpoise.load.fold import FoldState
from counterpoise.pipeline.clock import CLOCKS_DIFFER_MS
from counterpoise.pipeline.tables import data_files
from counterpoise.pipeline.tables.check import check, repair
from counterpoise.pipeline.tables.data_files import DataFile
from counterpoise.pipeline.tables.faults import HistoryFaultError, OutOfReachError
from counterpoise.pipeline.tables.history import TablesReader, TablesWriter, take_over
from counterpoise.pipeline.tables.journal import JournalWriter
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.reports import newest_poll, read_reports
from counterpoise.pipeline.tables.schema import FOLD_STATE, REPORTS
from counterpoise.pipeline.tables.states import commit_states, current_states, write_parts
from tests.pipeline.tables.test_compaction import DAY_MS, landed

POLLS = 120
"""Enough for a checkpoint of the log."""


def written(root: Path, polls: int = 4) -> list[int]:
    """A history of some polls, a round's memory and a state; gives the polls."""
    writer = take_over(open_location(root))
    made = [landed(writer, number, 5000, bundles=1) for number in range(polls)]
    JournalWriter(writer).record_memory(made[0], RoundMemory())
    files = write_parts(writer.location, FoldState.empty(), up_to=made[-1], shards=2)
    commit_states(writer, files, made[-1])
    return made


class ReplacedMeanwhile(TablesReader):
    """Says which states there are, just before a writer replaces them."""

    replaced = False

    def files(self, table: str, after: int = -1) -> list[DataFile]:
        found = super().files(table, after)
        if table == FOLD_STATE and not self.replaced:
            self.replaced = True
            up_to = found[-1].last_poll + 1
            files = write_parts(self.location, FoldState.empty(), up_to=up_to, shards=2)
            commit_states(take_over(self.location), files, up_to)
        return found


def test_states_that_a_writer_replaces_while_they_are_read_are_not_damaged(tmp_path: Path) -> None:
    polls = written(tmp_path)
    reader = ReplacedMeanwhile(open_location(tmp_path))
    assert check(reader, polls[-1]).is_whole
    assert reader.replaced
    [gone, _] = reader.files(FOLD_STATE)
    (tmp_path / gone.name).unlink()
    assert check(reader, polls[-1]).damaged == (gone,), "a file that is still named is missed"
    log_of(tmp_path)[-1].write_text("")
    assert len(check(reader, polls[-1]).logs) == 1, "nor is an entry without content whole"


def polls_of(root: Path) -> list[int]:
    parts = read_reports(TablesReader(open_location(root)), -1, 2**60, ("poll_id",))
    return sorted({poll_id for part in parts for poll_id in part["poll_id"].to_pylist()})


def data_of(root: Path, table: str) -> list[Path]:
    return sorted((root / table).glob("day=*/*.parquet"))


def log_of(root: Path, table: str = "reports") -> list[Path]:
    return sorted((root / table / "_delta_log").glob("*.json"))


def turn_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0x20
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


DAMAGE: dict[str, tuple[Callable[[Path], object], Callable[[Path], Path]]] = {
    "a byte of a data file": (turn_a_byte, lambda root: data_of(root, "reports")[1]),
    "a data file cut off": (cut, lambda root: data_of(root, "reports")[1]),
    "a data file removed": (Path.unlink, lambda root: data_of(root, "reports")[1]),
    "the journal cut off": (cut, lambda root: data_of(root, "journal")[0]),
    "a byte of a state": (turn_a_byte, lambda root: data_of(root, "fold_state")[0]),
    "the newest entry of a log cut off": (cut, lambda root: log_of(root)[-1]),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_named_and_repaired(
    tmp_path: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    polls = written(tmp_path)
    damage, choose = DAMAGE[what]
    bad = choose(tmp_path)
    damage(bad)
    assert main(["history", "check", str(tmp_path)]) == 1
    assert bad.name in capsys.readouterr().out
    assert main(["history", "repair", str(tmp_path)]) == 0
    capsys.readouterr()
    assert main(["history", "check", str(tmp_path)]) == 0
    assert "every file can be read" in capsys.readouterr().out
    aside = {path.name for path in (tmp_path / "damaged").rglob("*")}
    assert (bad.name in aside) == ("removed" not in what), "nothing is thrown away"
    left = polls_of(tmp_path)
    assert left in (polls, [*polls[:1], *polls[2:]], polls[:-1])
    writer = take_over(open_location(tmp_path))
    assert newest_poll(writer) in (left[-1], polls[-1])
    landed(writer, POLLS, 5000)
    if "state" in what:
        assert current_states(writer) is None
        files = write_parts(writer.location, FoldState.empty(), up_to=polls[0], shards=1)
        commit_states(writer, files, polls[0])
        assert current_states(writer) is not None


def test_reading_what_is_damaged_says_the_file_and_the_way_on(tmp_path: Path) -> None:
    written(tmp_path)
    bad = data_of(tmp_path, "reports")[1]
    turn_a_byte(bad)
    with pytest.raises(HistoryFaultError, match=f"{bad.name} is damaged.*history repair"):
        list(read_reports(TablesReader(open_location(tmp_path)), -1, 2**60))
    cut(log_of(tmp_path)[-1])
    with pytest.raises(HistoryFaultError, match=r"_delta_log is damaged.*history repair"):
        polls_of(tmp_path)


def test_a_damaged_checkpoint_is_worked_out_again(tmp_path: Path) -> None:
    polls = written(tmp_path, POLLS)
    [checkpoint] = (tmp_path / "reports" / "_delta_log").glob("*.checkpoint.parquet")
    checkpoint.write_bytes(b"PAR1 what is this PAR1")
    assert main(["history", "check", str(tmp_path)]) == 1
    assert main(["history", "repair", str(tmp_path)]) == 0
    assert polls_of(tmp_path) == polls


def test_a_log_that_lost_an_entry_is_not_guessed_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path)
    cut(log_of(tmp_path)[-2])
    assert main(["history", "repair", str(tmp_path)]) == 2
    assert "put back a copy" in capsys.readouterr().err


def test_what_is_dated_in_the_future_is_set_aside(tmp_path: Path) -> None:
    polls = written(tmp_path)
    writer = take_over(open_location(tmp_path))
    ahead = landed(writer, 10**9, 5000)
    JournalWriter(writer).record_round(Round(ahead, "any", 1.0, 2, 3, (), (), RoundMemory()))
    assert main(["history", "repair", str(tmp_path)]) == 0
    assert polls_of(tmp_path) == polls
    assert len(list((tmp_path / "ahead").rglob("*.parquet"))) == 2
    assert not (tmp_path / "damaged").exists()
    again = take_over(open_location(tmp_path))
    assert newest_poll(again) == polls[-1] < ahead
    landed(again, 99, 5000)
    journal = JournalWriter(again)
    assert journal.is_complete(polls[0])
    assert journal.is_decided(polls[-1])
    assert not journal.is_decided(ahead)
    assert journal.interrupted() is None


@pytest.mark.parametrize(
    ("ahead_ms", "is_ahead"), [(CLOCKS_DIFFER_MS, 0), (CLOCKS_DIFFER_MS + 1, 1)]
)
def test_what_is_ahead_by_no_more_than_clocks_differ_is_no_future(
    tmp_path: Path, ahead_ms: int, is_ahead: int
) -> None:
    writer = take_over(open_location(tmp_path))
    newest = landed(writer, 1, 5000)
    assert len(check(writer, newest - ahead_ms).ahead) == is_ahead
    repair(writer, newest - ahead_ms)
    assert len(writer.files(REPORTS)) == 1 - is_ahead


def test_what_may_not_be_read_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path)
    writer = take_over(open_location(tmp_path))
    before = data_of(tmp_path, REPORTS)

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(data_files.pq, "ParquetFile", refused)
    with pytest.raises(OutOfReachError, match="let this user read there"):
        repair(writer, 2**41)
    assert data_of(tmp_path, REPORTS) == before


def test_the_size_of_a_table_is_what_its_files_have(tmp_path: Path) -> None:
    writer = take_over(open_location(tmp_path))
    polls = [landed(writer, number, DAY_MS // 2, bundles=number) for number in range(3)]
    reports = next(each for each in check(writer, polls[-1]).sizes if each.table == REPORTS)
    assert (reports.days, reports.files) == (2, 3)
    assert reports.rows == 3 * 3 + 0 + 1 + 2
    assert reports.size == sum(path.stat().st_size for path in data_of(tmp_path, REPORTS))


def test_tables_of_a_later_version_are_left_alone(tmp_path: Path) -> None:
    written(tmp_path)
    table = DeltaTable(str(tmp_path / "journal"))
    table.alter.set_table_properties({"counterpoise.layout": "5"}, raise_if_not_exists=False)
    with pytest.raises(HistoryFaultError, match=r"newer counterpoise.*version 5"):
        take_over(open_location(tmp_path))


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    writer: TablesWriter = take_over(open_location(tmp_path))
    (tmp_path / "reports").rename(tmp_path / "gone")
    (tmp_path / "reports").write_text("a file")
    with pytest.raises(HistoryFaultError, match="a file is where a directory is wanted"):
        landed(writer, 1, 5000)
