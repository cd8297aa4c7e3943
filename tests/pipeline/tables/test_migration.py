"""A history that layout 3 left, by its own code: three writers, one of which wrote late.

`expected.json` is what that code read of it.
"""

import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from counterpoise.app.main import main
from counterpoise.pipeline.tables.control import Wish, read_control
from counterpoise.pipeline.tables.faults import HistoryFaultError
from counterpoise.pipeline.tables.history import TablesReader, take_over
from counterpoise.pipeline.tables.journal import Journal
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.reports import newest_poll
from counterpoise.pipeline.tables.views import parts

LEFT = Path(__file__).with_name("layout-3.tar.xz")
NAMES = {"ownership": "ownership_changes"}
OLD_NAMES = {"action": "kind"}


@pytest.fixture
def left(tmp_path: Path) -> Path:
    with tarfile.open(LEFT) as archive:
        archive.extractall(tmp_path / "left", filter="data")
    return tmp_path / "left"


def rows_of(reader: TablesReader, name: str) -> list[dict[str, Any]]:
    found = parts(reader, name, first_ms=0, last_ms=2**60)
    return [row for part in found for row in part.to_pylist()]


def plain(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A row as the older code named its columns, times in milliseconds."""
    return {
        OLD_NAMES.get(key, key) if name == "decisions" else key: int(value.timestamp() * 1000)
        if hasattr(value, "timestamp")
        else value
        for key, value in row.items()
    }


def test_all_that_was_there_is_there(left: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    (left / "history" / "action-1-2.json").write_text("{}")
    assert main(["history", "migrate", str(left / "history"), "--to", str(new)]) == 0
    expected = json.loads((left / "expected.json").read_text())
    reader = TablesReader(open_location(new))
    reports = rows_of(reader, "reports")
    columns = ("poll_id", "seq", "broker", "bundle", "msg_throughput_in")
    found = sorted([row[column] for column in columns] for row in reports)
    assert found == expected.pop("reports")
    for name, rows in expected.items():
        said = [plain(row, name) for row in rows_of(reader, NAMES.get(name, name))]
        assert sorted(map(str, said)) == sorted(
            str({key: row.get(key) for key in said[0]}) for row in rows
        ), name
    assert [path.name for path in new.glob("action-*")] == ["action-1-2.json"]
    assert read_control(reader.location).wish is Wish.PAUSE
    assert newest_poll(reader) == max(row["poll_id"] for row in reports)
    journal = Journal(reader)
    cut_off = journal.interrupted()
    assert cut_off is not None
    assert cut_off.poll_id == max(row["poll_id"] for row in expected["rounds"])
    assert main(["history", "check", str(new)]) == 0


def test_an_older_history_is_not_written_and_a_copy_is_not_made_twice(
    left: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(HistoryFaultError, match="older counterpoise: `counterpoise history"):
        take_over(open_location(left / "history"))
    command = ["history", "migrate", str(left / "history"), "--to", str(tmp_path / "new")]
    assert main(command) == 0
    assert main(command) == 2
    assert "has reports already" in capsys.readouterr().err
    assert main(["history", "migrate", str(tmp_path / "new"), "--to", str(tmp_path / "x")]) == 2
    assert "has no history of an older" in capsys.readouterr().err
