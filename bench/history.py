"""What a history costs: to land a poll, bytes a month, and the time of three questions asked of it.

A day of 100 brokers and 10,000 bundles, measured once a minute, is generated and written by the
hour, as the compaction leaves it; the month is thirty of it. The log of half a million polls is
written by hand (`_played_log.py`): a commit lists it, and keeps a day of it.
"""

import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from bench import pipeline_fold
from bench._played_log import EVERY_MS, log_bytes, play_polls
from bench.figures import Figure
from counterpoise.load.rows import BUNDLE, ReportRows
from counterpoise.pipeline.backtest.synthetic import SyntheticTrace
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.tables.compaction import PER_LEVEL, compact
from counterpoise.pipeline.tables.data_files import write_file
from counterpoise.pipeline.tables.history import TablesWriter, take_over
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.ownership import BundleOwners
from counterpoise.pipeline.tables.reports import land
from counterpoise.pipeline.tables.schema import OWNERSHIP_CHANGES, REPORTS, rows_to_arrow
from counterpoise.pipeline.tables.views import sql

BROKERS, BUNDLES = 100, 10_000
DAYS = 30
BAR_GB = 25.0
QUERY_S = 1.0
POLLS, POLLS_A_DAY = 500_000, 17_280
BAR_LOG_MB = 200.0
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
    minutes = 6 if quick else 24 * 60
    figures = _landing(2 if quick else 7) + _kept_log(1_000 if quick else POLLS)
    with TemporaryDirectory(prefix="counterpoise-bench-") as home:
        writer = take_over(open_location(home))
        size = _generated(writer, minutes)
        times = DAYS * 24 * 60 / minutes
        month, span = size * times / 1e9, f"{minutes / 60:g} h"
        note = f"{span} of {BROKERS} brokers and {BUNDLES:,} bundles generated"
        figures.append(
            Figure(
                "a month of history",
                month,
                "GB",
                bar=f"<= {BAR_GB:g} GB",
                holds=month <= BAR_GB,
                note=f"{note}, times {times:g}",
            )
        )
        with duckdb.connect() as database:
            database.execute(sql(writer, "parquet"))
            for name, question in QUESTIONS.items():
                took, cpu = _timed(partial(_answer, database, question))
                each = note + f"; {cpu:.1f} s of processor"
                figures.append(
                    Figure(
                        f"{name}: {span}",
                        took,
                        "s",
                        bar="" if quick else f"< {QUERY_S:g} s",
                        holds=None if quick else took < QUERY_S,
                        note=each,
                    )
                )
    return figures


def _landing(polls: int) -> list[Figure]:
    """What landing a poll of 100,000 reports costs, beside writing its rows as a Parquet file."""
    rng, landed, written = np.random.default_rng(1), list[float](), list[float]()
    with TemporaryDirectory(prefix="counterpoise-bench-") as home:
        writer = take_over(open_location(f"{home}/history"))
        for number in range(1, polls + 1):
            rows = pipeline_fold.poll(number * 1000, rng, 100_000, 100)
            landed.append(_timed(partial(land, writer, rows))[1])
            plain = f"{home}/plain.parquet"
            write = partial(pq.write_table, rows_to_arrow(rows), plain, compression="zstd")
            written.append(_timed(write)[1])
    return [
        Figure(
            "landing a poll of 100,000 reports",
            statistics.median(landed) * 1000,
            "ms",
            anchor="pyarrow writes its rows",
            anchor_value=statistics.median(written) * 1000,
            note=f"time of the processor, median of {polls}",
        )
    ]


def _kept_log(polls: int) -> list[Figure]:
    """How large the log is after so many polls, and what a commit on it costs."""
    a_day, now_ms = min(polls // 2, POLLS_A_DAY), wall_clock_ms()
    with TemporaryDirectory(prefix="counterpoise-bench-") as home:
        new = _commit_s(home)
        began_ms = now_ms - a_day * EVERY_MS
        # Of days that are forgotten it does not matter how often they were compacted.
        play_polls(Path(home), polls - a_day, began_ms, at_once=20 * PER_LEVEL)
        play_polls(Path(home), a_day, now_ms, at_once=PER_LEVEL)
        size, late = log_bytes(Path(home)) / 1e6, _commit_s(home)
    note = f"{polls:,} polls each {EVERY_MS / 1000:g} s, of which the log keeps {a_day:,}"
    return [
        Figure(
            "the log of the reports",
            size,
            "MB",
            bar=f"<= {BAR_LOG_MB:g} MB",
            holds=size <= BAR_LOG_MB,
            note=note,
        ),
        Figure(
            "a commit",
            late * 1000,
            "ms",
            anchor="one on a new table",
            anchor_value=new * 1000,
            note=f"{note}; time of the processor",
        ),
    ]


def _commit_s(home: str) -> float:
    """Processor time of a commit, the median of 20; its clock ticks in hundredths of a second."""
    writer = take_over(open_location(home))
    each = [_timed(lambda: writer.commit(REPORTS, []))[1] for _ in range(20)]
    return round(statistics.median(each), 3)


def _generated(writer: TablesWriter, minutes: int) -> int:
    """Write polls of so many minutes, a file for each hour, and compact them; gives the bytes."""
    trace = SyntheticTrace("diurnal", count_of_brokers=BROKERS, count_of_bundles=BUNDLES)
    base = pipeline_fold.poll(0, np.random.default_rng(1), BUNDLES, BROKERS)
    owners = BundleOwners()
    for first in range(0, minutes, 60):
        began, last = time.monotonic(), min(first + 60, minutes)
        polls = [_poll(base, trace, minute) for minute in range(first, last)]
        parts = {
            REPORTS: [rows_to_arrow(rows) for rows in polls],
            OWNERSHIP_CHANGES: [owners.changes(rows.columns) for rows in polls],
        }
        for table, rows in parts.items():
            writer.commit(table, [write_file(writer.location, table, pa.concat_tables(rows))])
        print(f"   minute {last} of {minutes}: {time.monotonic() - began:.1f} s", flush=True)
    for table in (OWNERSHIP_CHANGES, REPORTS):
        compact(writer, table, up_to_poll=_at(minutes), at_least=2)
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


def _answer(database: duckdb.DuckDBPyConnection, question: str) -> list[tuple[object, ...]]:
    return database.execute(question).fetchall()


def _timed(work: Callable[[], object]) -> tuple[float, float]:
    process = psutil.Process()
    before, began = process.cpu_times(), time.perf_counter()
    work()
    took, after = time.perf_counter() - began, process.cpu_times()
    return took, after.user + after.system - before.user - before.system
