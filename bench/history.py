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

from bench import pipeline_fold
from bench.figures import Figure
from counterpoise.load.rows import BUNDLE, ReportRows
from counterpoise.pipeline.backtest.synthetic import SyntheticTrace
from counterpoise.pipeline.tables.compaction import compact
from counterpoise.pipeline.tables.history import TablesWriter, take_over
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.ownership import BundleOwners
from counterpoise.pipeline.tables.reports import land
from counterpoise.pipeline.tables.schema import OWNERSHIP_CHANGES, REPORTS
from counterpoise.pipeline.tables.views import sql

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
        writer = take_over(open_location(home))
        size = _generated(writer, hours)
        month = size / hours * 24 * DAYS / 1e9
        note = f"{hours} h of {BROKERS} brokers and {BUNDLES:,} bundles generated"
        figures = [
            Figure("a month of history", month, "GB", bar=f"<= {BAR_GB:g} GB",
                   holds=month <= BAR_GB, note=f"{note}, times {24 * DAYS / hours:g}")
        ]  # fmt: skip
        with duckdb.connect() as database:
            database.execute(sql(writer, "parquet"))
            for name, question in QUESTIONS.items():
                took, cpu = _timed(lambda question=question: database.execute(question).fetchall())
                each = note + f"; {cpu:.1f} s of processor"
                figures.append(Figure(f"{name}: {hours} h", took, "s", note=each))
    return figures


def _generated(writer: TablesWriter, hours: int) -> int:
    """Land so many hours and compact them; gives the bytes."""
    trace = SyntheticTrace("diurnal", count_of_brokers=BROKERS, count_of_bundles=BUNDLES)
    pipeline_fold.BUNDLES, pipeline_fold.BROKERS = BUNDLES, BROKERS
    base = pipeline_fold.poll(0, np.random.default_rng(1))
    owners = BundleOwners()
    for minute in range(hours * 60):
        rows = _poll(base, trace, minute)
        owners.land(writer, rows)
        land(writer, rows)
        if minute % 60 == 59:
            for table in (OWNERSHIP_CHANGES, REPORTS):
                compact(writer, table, up_to_poll=_at(minute), at_least=2)
    files = [*writer.files(REPORTS), *writer.files(OWNERSHIP_CHANGES)]
    return sum(file.size for file in files)


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
