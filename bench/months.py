"""A history of half a million polls: how long the fold takes to start on it, and its batches.

The polls of a month are there in compacted files, all but the last of them folded; more land while
the balancer runs. The other way to begin is on the same history without any state, as the first
balancer does on what `watch` has recorded: its first batch is bounded by rows.
"""

import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from bench import pipeline_fold
from bench.figures import Figure
from counterpoise.load.rows import ReportRows
from counterpoise.pipeline.spark.job import JobWatch
from counterpoise.pipeline.stream.fold import FoldBatch, ReportFold, SparkTasks, fold_shard
from counterpoise.pipeline.stream.session import start_context, stop_spark
from counterpoise.pipeline.tables.data_files import write_file
from counterpoise.pipeline.tables.history import TablesWriter, take_over
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.reports import LANDED, ReportSlice, land
from counterpoise.pipeline.tables.schema import REPORTS, day_of, rows_to_arrow
from counterpoise.pipeline.tables.states import commit_states

EVERY_MS, EACH = 5_000, 720
START_S = 30.0
FIRST_MS = 1_735_689_600_000
BATCHES = 12


def run(*, quick: bool, out: Path) -> list[Figure]:
    del out
    polls = 3_000 if quick else 500_000
    rows = pipeline_fold.poll(0, np.random.default_rng(1), 4, 2)
    with TemporaryDirectory(prefix="counterpoise-bench-") as home:
        writer = take_over(open_location(home))
        last = _recorded(writer, rows, polls)
        print(f"   {polls:,} polls are recorded", flush=True)
        began = time.perf_counter()
        spark = start_context("local[2]")
        try:
            with JobWatch(spark, "fold") as job:
                tasks = SparkTasks(spark, job)
                ReportFold(writer, tasks, shards=2).next()
                first_s = time.perf_counter() - began
                print(f"   the first batch took {first_s:.1f} s", flush=True)
                _fold_the_last(writer, last)
                each = _batches(ReportFold(writer, tasks, shards=2), writer, rows, last)
        finally:
            stop_spark(spark)
    later = each[1:]
    worst, median = max(later), statistics.median(later)
    note = f"{polls:,} polls in the history"
    return [
        Figure(
            "from nothing to the first batch, without a state",
            first_s,
            "s",
            bar=f"<= {START_S:g} s",
            holds=first_s <= START_S,
            note=note,
        ),
        Figure("a batch, median", median, "s", note=note),
        Figure(
            "the longest batch but the first",
            worst,
            "s",
            anchor="the median",
            anchor_value=median,
            bar="<= 2x",
            holds=worst <= 2 * median,
            note=note,
        ),
    ]


def _fold_the_last(writer: TablesWriter, last: int) -> None:
    """A state up to the last poll: of the others it has nothing, which costs a batch nothing."""
    files = tuple(writer.files(REPORTS, after=last - EVERY_MS))
    part = ReportSlice(last - EVERY_MS, last, files, 0)
    batch = FoldBatch(writer.location, part, (), 2)
    commit_states(writer, [fold_shard(batch, shard) for shard in range(2)], last)


def _batches(fold: ReportFold, writer: TablesWriter, rows: ReportRows, last: int) -> list[float]:
    took = []
    for number in range(BATCHES):
        land(writer, _at(rows, last + EVERY_MS * (1 + number)))
        began = time.perf_counter()
        fold.next()
        took.append(time.perf_counter() - began)
    return took


def _recorded(writer: TablesWriter, rows: ReportRows, polls: int) -> int:
    """Commit compacted files of so many polls, none over midnight; gives the last poll."""
    poll_id, written, files = FIRST_MS, 0, []
    polls_of_a_file = pa.concat_tables([rows_to_arrow(rows)] * EACH).combine_chunks()
    while written < polls:
        ids = [poll_id + EVERY_MS * n for n in range(min(EACH, polls - written))]
        ids = [each for each in ids if day_of(each) == day_of(ids[0])]
        # The polls say the same: only their number and time differ.
        numbered = _numbered(polls_of_a_file, len(rows), ids)
        files.append(write_file(writer.location, REPORTS, numbered))
        written += len(ids)
        poll_id = ids[-1] + EVERY_MS
    writer.commit(REPORTS, files, transactions={LANDED: poll_id - EVERY_MS})
    return poll_id - EVERY_MS


def _numbered(polls_of_a_file: pa.Table, each: int, ids: list[int]) -> pa.Table:
    whole = polls_of_a_file.slice(0, each * len(ids))
    polls = pa.array(np.repeat(ids, each))
    for name in ("poll_id", "fetched_at_ms", "report_at_ms", "at", "report_at"):
        index = whole.schema.get_field_index(name)
        field = whole.schema.field(index)
        whole = whole.set_column(index, field, polls.cast(field.type))
    return whole


def _at(rows: ReportRows, poll_id: int) -> ReportRows:
    columns = {name: column.copy() for name, column in rows.columns.items()}
    for name in ("poll_id", "fetched_at_ms", "report_at_ms"):
        columns[name][:] = poll_id
    return ReportRows(columns)
