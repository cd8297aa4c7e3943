"""What others read of a history without us: DuckDB, pandas and Spark, new and compacted alike."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest

from counterpoise.app.main import main
from counterpoise.decide.balancing.moves import RoundMemory
from counterpoise.load.rows import COLUMNS
from counterpoise.pipeline.history.compaction import compact
from counterpoise.pipeline.history.ownership import SCHEMA as OWNERSHIP
from counterpoise.pipeline.history.ownership import Owners
from counterpoise.pipeline.history.reports import land
from counterpoise.pipeline.history.sql import views
from counterpoise.pipeline.history.store import Store, open_store
from counterpoise.pipeline.history.tables import SCHEMAS, HistoryTables
from counterpoise.pipeline.history.views import VIEWS, parts
from tests.load.story import START, Loads, poll
from tests.pipeline.duckdb_apart import Ask, Rows, duckdb_apart
from tests.pipeline.fake_cluster import bundle_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOCS = Path(__file__).parents[2] / "docs" / "BALANCER.md"
ONE, TWO = bundle_name(1), bundle_name(2)
DAY_MS = 86_400_000
ASKED = {"bundle-loads": "bundle_loads", "broker-loads": "broker_loads", "gaps": "gaps"}
BY_REPORTS = """
    with seen as (
        select reports.at, bundle, broker,
            lag(broker) over (partition by bundle order by poll_id, seq) as before
        from reports where kind = 'bundle'
    )
    select seen.at, bundle, before, broker from seen where before <> broker order by all"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Two days: a bundle moves and moves back, a broker falls silent; the first is compacted."""
    logged: list[dict[str, Loads | None]] = [
        {"b1:80": {ONE: 10.0, TWO: 20.0}, "b2:80": {}},
        {"b1:80": {ONE: 11.0}, "b2:80": {TWO: 21.0}},
        {"b1:80": {ONE: 12.0}, "b2:80": None},
        {"b1:80": {ONE: 13.0, TWO: 23.0}, "b2:80": {}},
    ]
    made = open_store(tmp_path / "it's a history")
    owners = Owners()
    for number, brokers in enumerate(logged):
        rows = poll(number, brokers, every_ms=DAY_MS // 2)
        owners.land(made, rows)
        land(made, rows)
    compact(made, "reports", up_to_poll=START + DAY_MS // 2, at_least=1)
    HistoryTables(made).record_memory(START, RoundMemory())
    return made


@pytest.fixture(scope="module")
def duckdb() -> Iterator[Ask]:
    with duckdb_apart() as ask:
        yield ask


@pytest.fixture
def asked(store: Store, duckdb: Ask) -> Callable[[str], Rows]:
    """Asks DuckDB of the store's views."""
    return lambda question: duckdb(views(store), question)


def ours(store: Store, view: str) -> list[tuple[Any, ...]]:
    tables = list(parts(store, view, first_ms=0, last_ms=2**53))
    return rows_of(pa.concat_tables(tables))


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.parametrize("view", VIEWS)
def test_duckdb_sees_what_our_own_views_say(
    store: Store, asked: Callable[[str], Rows], view: str
) -> None:
    expected = ours(store, view)
    assert sorted(asked(f"from {ASKED[view]}")) == expected
    assert len(expected) > 0


def test_the_changes_of_hands_are_those_of_the_reports(
    asked: Callable[[str], Rows],
) -> None:
    changes = asked("select * from ownership_changes order by all")
    assert changes == asked(BY_REPORTS)
    assert len(changes) == 2


def test_times_are_times_and_days_are_partitions(asked: Callable[[str], Rows]) -> None:
    [(first, days)] = asked("select min(reports.at), count(distinct day) from reports")
    assert first.timestamp() * 1000 == START
    assert days == 3
    assert asked("select count(*) from memory") == [(1,)]


def test_pandas_reads_a_table_by_its_directory(store: Store) -> None:
    frame = pd.read_parquet(f"{store.root}/reports")
    assert len(frame) == len(frame.drop_duplicates(["poll_id", "seq"])) == 19
    loads = frame[frame.kind == "bundle"].groupby("bundle").msg_throughput_in.mean()
    assert loads[ONE] == pytest.approx((10 + 11 + 12 + 13) / 4)
    assert str(frame["at"].dtype) == "datetime64[ms, UTC]"


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_spark_sees_what_our_own_views_say(spark: "SparkSession", store: Store) -> None:
    for statement in views(store, "spark").split(";\n")[:-1]:
        spark.sql(statement)
    assert spark.sql("select * from ownership_changes").count() == 2
    for view, name in ASKED.items():
        count = spark.sql(f"select * from {name}").count()
        assert count == len(ours(store, view)), view


def test_the_command_says_the_views(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "views", store.root]) == 0
    assert capsys.readouterr().out == views(store)
    assert main(["history", "views", store.root, "--for", "excel"]) == 2
    assert "duckdb, spark" in capsys.readouterr().err


def test_every_column_is_documented() -> None:
    text = DOCS.read_text()
    known = {"reports": list(COLUMNS), "ownership": OWNERSHIP.names}
    known |= {table: each.names for table, each in SCHEMAS.items()}
    for table, columns in known.items():
        section = text.split(f"### `{table}`")[1].split("\n###")[0].split("\n## ")[0]
        missing = [name for name in columns if f"`{name}`" not in section]
        assert not missing, f"{table}: {missing}"
