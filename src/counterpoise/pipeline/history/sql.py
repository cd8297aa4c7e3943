"""A history's tables and views as SQL, for engines that read Parquet without us.

DuckDB and Spark differ in how a directory of Parquet is named; what is asked of it is the same.
"""

from collections.abc import Callable, Mapping, Sequence

from counterpoise.load.rows import BROKER, BUNDLE, GAP
from counterpoise.pipeline.history.layout import days
from counterpoise.pipeline.history.names import TABLES
from counterpoise.pipeline.history.store import Store
from counterpoise.pipeline.history.views import BROKER_LOADS, BUNDLE_LOADS
from counterpoise.pipeline.history.views import GAPS as OF_GAPS


def _duckdb(at: str) -> str:
    quoted = at.replace("'", "''")
    options = "hive_partitioning = true, union_by_name = true"
    return f"from read_parquet('{quoted}/*/*.parquet', {options})"


def _spark(at: str) -> str:
    quoted = at.replace("`", "``")
    return f"select * from parquet.`{quoted}`"  # noqa: S608  no value of anybody's


_FROM: Mapping[str, Callable[[str], str]] = {"duckdb": _duckdb, "spark": _spark}
ENGINES: Sequence[str] = tuple(_FROM)

_CHANGES = "select ownership.at, bundle, source, destination from ownership where source <> ''"


def views(store: Store, engine: str = "duckdb") -> str:
    """Statements that make a view of each table there is, and those worked out from `reports`."""
    at = f"{store.local or store.address}".rstrip("/")
    there = [table for table in TABLES if days(store, table)]
    made = {table: _FROM[engine](f"{at}/{table}") for table in there}
    if "reports" in there:
        made["bundle_loads"] = _of(BUNDLE, BUNDLE_LOADS)
        made["broker_loads"] = _of(BROKER, BROKER_LOADS)
        made["gaps"] = _of(GAP, OF_GAPS)
    if "ownership" in there:
        made["ownership_changes"] = _CHANGES
    create = "create or replace temporary view" if engine == "spark" else "create or replace view"
    return "".join(f"{create} {name} as {query};\n" for name, query in made.items())


def _of(kind: str, columns: Sequence[str]) -> str:
    # Qualified, as DuckDB has a keyword `at`.
    listed = ", ".join(f"reports.{column}" for column in columns)
    return f"select {listed} from reports where kind = '{kind}'"  # noqa: S608  our own names
