"""What others read of a history without us, and `history sql`, `export` and `describe`."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from counterpoise.app.main import main
from counterpoise.decide.balancing.moves import RoundMemory
from counterpoise.pipeline.tables.compaction import compact
from counterpoise.pipeline.tables.history import TablesWriter, take_over
from counterpoise.pipeline.tables.journal import JournalWriter
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.ownership import BundleOwners
from counterpoise.pipeline.tables.reports import land
from counterpoise.pipeline.tables.schema import SCHEMAS
from counterpoise.pipeline.tables.views import VIEWS, parts, sql
from tests.load.story import START, Loads, poll
from tests.pipeline.duckdb_apart import Rows, duckdb_apart
from tests.pipeline.fake_cluster import bundle_name

DOCS = Path(__file__).parents[3] / "docs" / "BALANCER.md"
ONE, TWO = bundle_name(1), bundle_name(2)
DAY_MS = 86_400_000
BY_REPORTS = """
    with seen as (
        select reports.at, bundle, broker,
            lag(broker) over (partition by bundle order by poll_id, seq) as before
        from reports where kind = 'bundle'
    )
    select seen.at, bundle, before, broker from seen where before <> broker order by all"""


@pytest.fixture
def writer(tmp_path: Path) -> TablesWriter:
    """Two days: a bundle moves and moves back, a broker falls silent; the first is compacted."""
    logged: list[dict[str, Loads | None]] = [
        {"b1:80": {ONE: 10.0, TWO: 20.0}, "b2:80": {}},
        {"b1:80": {ONE: 11.0}, "b2:80": {TWO: 21.0}},
        {"b1:80": {ONE: 12.0}, "b2:80": None},
        {"b1:80": {ONE: 13.0, TWO: 23.0}, "b2:80": {}},
    ]
    made = take_over(open_location(tmp_path / "it's a history"))
    owners = BundleOwners.of(made)
    for number, brokers in enumerate(logged):
        rows = poll(number, brokers, every_ms=DAY_MS // 2)
        owners.land(made, [rows.columns])
        land(made, rows)
    compact(made, "reports", up_to_poll=START + DAY_MS, at_least=1)
    JournalWriter(made).record_memory(START, RoundMemory())
    return made


@pytest.fixture
def asked(writer: TablesWriter) -> Iterator[Callable[[str], Rows]]:
    """Asks DuckDB of the views."""
    with duckdb_apart() as ask:
        yield lambda question: ask(sql(writer, "parquet"), question)


def ours(writer: TablesWriter, view: str) -> list[tuple[Any, ...]]:
    table = pa.concat_tables(list(parts(writer, view, first_ms=0, last_ms=2**53)))
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=str)


def test_duckdb_sees_what_our_own_views_say(
    writer: TablesWriter, asked: Callable[[str], Rows]
) -> None:
    for view in VIEWS:
        assert sorted(asked(f"from {view}"), key=str) == ours(writer, view), view
    assert {view for view in VIEWS if ours(writer, view)} == {
        "bundle_loads", "broker_loads", "gaps", "polls", "memory",
    }  # fmt: skip
    changes = "select ownership_changes.at, bundle, source, destination from ownership_changes"
    found = asked(f"{changes} where source <> '' order by all")
    assert found == asked(BY_REPORTS)
    assert len(found) == 2
    [(first, days)] = asked("select min(reports.at), count(distinct day) from reports")
    assert (first.timestamp() * 1000, days) == (START, 3)


def test_the_verbs_name_and_export_what_is_there(
    writer: TablesWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = writer.location.address
    for engine, words in {
        "spark": "create or replace temporary view reports as select * from delta.`",
        "duckdb": "create or replace view reports as select * from delta_scan('",
    }.items():
        assert main(["history", "sql", root, "--for", engine]) == 0
        assert words in capsys.readouterr().out
    assert main(["history", "sql", root, "--for", "excel"]) == 2
    assert "duckdb, parquet, spark" in capsys.readouterr().err
    assert main(["history", "describe", root]) == 0
    assert "reports: version" in capsys.readouterr().out
    out = str(tmp_path / "loads.parquet")
    assert main(["history", "export", root, "bundle-loads", "--out", out]) == 0
    assert sorted((tuple(row.values()) for row in pq.read_table(out).to_pylist()), key=str) == ours(
        writer, "bundle_loads"
    )
    assert main(["history", "export", root, "nothing", "--out", out]) == 2
    assert "bundle_loads" in capsys.readouterr().err


def test_every_column_is_documented() -> None:
    text = DOCS.read_text()
    for table, schema in SCHEMAS.items():
        section = text.split(f"### `{table}`")[1].split("\n###")[0].split("\n## ")[0]
        missing = [name for name in schema.names if f"`{name}`" not in section]
        assert not missing, f"{table}: {missing}"


@pytest.mark.parametrize(("first", "last"), [(0, 0), (0, 2), (1, 3), (2, 1)])
def test_a_span_has_the_polls_of_its_first_and_its_last_moment(
    writer: TablesWriter, first: int, last: int
) -> None:
    polls = [START + number * DAY_MS // 2 for number in range(4)]
    span = {"first_ms": polls[first], "last_ms": polls[last]}
    found = pa.concat_tables(list(parts(writer, "polls", **span))).column("at").to_pylist()
    assert [round(at.timestamp() * 1000) for at in found] == polls[first : last + 1]
    assert [*parts(writer, "polls", **span)][-1].num_rows == 0, "the columns are there in any case"
