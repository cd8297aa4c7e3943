"""What a history costs: bytes a month, and the time of three questions that people ask it.

A day of 100 brokers and 10,000 bundles, measured once a minute, is generated and written as the
compaction would leave it; the month is thirty of it.
"""

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from bench import pipeline_fold
from bench.figures import Figure
from counterpoise.load.rows import BUNDLE, ReportRows
from counterpoise.pipeline.backtest.synthetic import SyntheticTrace
from counterpoise.pipeline.history.compaction import GROUP_ROWS, ROWS_MOST
from counterpoise.pipeline.history.names import archive_of
from counterpoise.pipeline.history.ownership import Owners
from counterpoise.pipeline.history.sql import views
from counterpoise.pipeline.history.store import Store, open_store
from counterpoise.pipeline.tables.rows_codec import REPORTS_SCHEMA, rows_to_arrow, write_reports

BROKERS, BUNDLES = 100, 10_000
DAYS = 30
BAR_GB = 25.0
QUESTIONS = {
    "the ten busiest bundles": "select bundle, avg(msg_throughput_in) as load from bundle_loads "
    "group by bundle order by load desc limit 10",
    "imbalance of the brokers by the hour": "select hour, max(load) / avg(load) as imbalance from "
    "(select date_trunc('hour', broker_loads.at) as hour, broker, sum(msg_throughput_in) as load "
    "from broker_loads group by all) group by hour order by hour",
    "the bundles that changed hands most": "select bundle, count(*) as moves "
    "from ownership_changes group by bundle order by moves desc limit 10",
}


def run(*, quick: bool, out: Path) -> list[Figure]:
    del out
    hours = 1 if quick else 24
    with TemporaryDirectory(prefix="counterpoise-bench-") as home:
        store = open_store(home)
        size = _generated(store, hours)
        month = size / hours * 24 * DAYS / 1e9
        note = f"{hours} h of {BROKERS} brokers and {BUNDLES:,} bundles generated"
        figures = [
            Figure("a month of history", month, "GB", bar=f"<= {BAR_GB:g} GB",
                   holds=month <= BAR_GB, note=f"{note}, times {24 * DAYS / hours:g}")
        ]  # fmt: skip
        with duckdb.connect() as database:
            database.execute(views(store))
            for name, question in QUESTIONS.items():
                took, cpu = _timed(lambda question=question: database.execute(question).fetchall())
                each = note + f"; {cpu:.1f} s of processor"
                figures.append(Figure(f"{name}: {hours} h", took, "s", note=each))
    return figures


def _generated(store: Store, hours: int) -> int:
    """Write the archives of so many hours, and give their bytes."""
    trace = SyntheticTrace("diurnal", count_of_brokers=BROKERS, count_of_bundles=BUNDLES)
    pipeline_fold.BUNDLES, pipeline_fold.BROKERS = BUNDLES, BROKERS
    base = pipeline_fold.poll(0, np.random.default_rng(1))
    each = ROWS_MOST // len(base)
    total, minutes = 0, hours * 60
    owners, changed = Owners(), list[pa.Table]()
    for first in range(0, minutes, each):
        last = min(first + each, minutes) - 1
        name = archive_of("reports", _at(first), _at(last))
        with (
            store.writing(name) as file,
            pq.ParquetWriter(file, REPORTS_SCHEMA, compression="zstd") as writer,
        ):
            held: list[pa.Table] = []
            for minute in range(first, last + 1):
                rows = _poll(base, trace, minute)
                changed.append(owners.changes(rows.columns))
                held.append(rows_to_arrow(rows))
                if minute == last or sum(len(table) for table in held) >= GROUP_ROWS:
                    write_reports(writer, pa.concat_tables(held))
                    held = []
        total += store.size(name)
    name = archive_of("ownership", _at(0), _at(minutes - 1))
    with store.writing(name) as file:
        pq.write_table(pa.concat_tables(changed), file, compression="zstd")
    return total + store.size(name)


def _at(minute: int) -> int:
    return SyntheticTrace("diurnal").start_ms + minute * 60_000


def _poll(base: ReportRows, trace: SyntheticTrace, minute: int) -> ReportRows:
    columns = {name: column.copy() for name, column in base.columns.items()}
    bundles = columns["kind"] == BUNDLE
    loads = trace.loads(minute)
    # Messages of some size each, as real ones have: figures that have nothing to do with another.
    rng = np.random.default_rng((7, minute))
    columns["msg_throughput_in"][bundles] = loads.throughput_in
    columns["msg_throughput_out"][bundles] = loads.throughput_out * rng.random(BUNDLES)
    columns["msg_rate_in"][bundles] = loads.rate_in * rng.random(BUNDLES)
    columns["msg_rate_out"][bundles] = loads.rate_out * rng.random(BUNDLES)
    columns["topics"][bundles] = 10
    columns["producers"][bundles] = columns["consumers"][bundles] = 25
    for name in ("poll_id", "fetched_at_ms", "report_at_ms"):
        columns[name][:] = _at(minute)
    # Who owns a bundle changes now and then: a swap of two names of equal length.
    swapped = rng.integers(0, BUNDLES, 2)
    names = columns["bundle"][bundles]
    names[swapped] = names[swapped[::-1]]
    columns["bundle"][bundles] = names
    return ReportRows(columns)


def _timed(work: Callable[[], object]) -> tuple[float, float]:
    process = psutil.Process()
    before, began = process.cpu_times(), time.perf_counter()
    work()
    took, after = time.perf_counter() - began, process.cpu_times()
    return took, after.user + after.system - before.user - before.system
