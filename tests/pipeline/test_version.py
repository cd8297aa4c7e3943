"""Histories of other versions: a sentence, and a way on that keeps all that is in them."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from counterpoise.app.main import main
from counterpoise.decide.balancing.moves import RoundMemory
from counterpoise.pipeline.history.compaction import compact
from counterpoise.pipeline.history.reports import land
from counterpoise.pipeline.history.store import Store, open_store
from counterpoise.pipeline.history.tables import HistoryTables, read_table
from counterpoise.pipeline.history.version import NAME, expect_version, migrate, version_of
from counterpoise.pipeline.tables.faults import HistoryFaultError
from tests.load.story import START, poll
from tests.pipeline.fake_cluster import bundle_name

DAY_MS = 86_400_000


def tables(store: Store) -> dict[str, list[dict[str, object]]]:
    return {table: read_table(store, table) for table in ("reports", "memory")}


@pytest.fixture
def old(tmp_path: Path) -> tuple[Store, dict[str, list[dict[str, object]]]]:
    """A history as the first version kept it, and what is in it."""
    new = open_store(tmp_path / "new")
    for number in range(4):
        land(new, poll(number, {"b1:80": {bundle_name(0): 10.0 * number}}, every_ms=DAY_MS // 2))
    HistoryTables(new).record_memory(START, RoundMemory(decided_at_ms=START))
    expected = tables(new)
    home = tmp_path / "old"
    compact(new, "reports", up_to_poll=START + DAY_MS // 2, at_least=1)
    for file in (tmp_path / "new").rglob("*.parquet"):
        table = file.relative_to(tmp_path / "new").parts[0]
        archived = file.stem.count("-") == 1
        place = home / "archive" / table if archived else home / table
        place.mkdir(parents=True, exist_ok=True)
        pq.write_table(pq.ParquetFile(file).read().drop_columns(["at"]), place / file.name)
    return open_store(home), expected


def test_a_new_history_is_marked(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    expect_version(store)
    expect_version(store)
    assert (tmp_path / NAME).read_text() == "3\n"


def test_a_history_of_the_version_before_is_gone_on_with(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("2\n")
    expect_version(open_store(tmp_path))
    assert (tmp_path / NAME).read_text() == "3\n"


def test_a_newer_history_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("4\n")
    with pytest.raises(HistoryFaultError, match=r"newer counterpoise.*version 4"):
        expect_version(open_store(tmp_path))


def test_an_older_history_is_brought_to_this_version_by_repair(
    old: tuple[Store, dict[str, list[dict[str, object]]]], capsys: pytest.CaptureFixture[str]
) -> None:
    store, expected = old
    assert version_of(store) == 1
    with pytest.raises(HistoryFaultError, match="counterpoise history repair"):
        expect_version(store)
    assert main(["history", "repair", store.root]) == 0
    assert "files of an older layout" in capsys.readouterr().out
    expect_version(store)
    seen = tables(store)
    assert sorted(map(repr, seen["reports"])) == sorted(map(repr, expected["reports"]))
    assert seen["memory"] == expected["memory"]
    assert migrate(store) == 0


def test_an_old_file_that_is_damaged_is_set_aside(
    old: tuple[Store, dict[str, list[dict[str, object]]]],
) -> None:
    store, _ = old
    damaged = Path(store.root) / "memory" / f"{START:015d}.parquet"
    damaged.write_bytes(b"half")
    assert main(["history", "repair", store.root]) == 0
    assert (Path(store.root) / "damaged" / "memory" / damaged.name).read_bytes() == b"half"
    assert read_table(store, "reports")
