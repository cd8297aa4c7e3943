"""A history of half a million polls: how long the stream takes to start on it, and its batches.

The polls of a month are there in compacted files, all but the last of them folded; more land while
the stream runs.
"""

import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench import pipeline_fold
from bench.figures import Figure
from counterpoise.load.fold import DEFAULT_OPTIONS
from counterpoise.load.rows import ReportRows
from counterpoise.pipeline.history.disk import Disk
from counterpoise.pipeline.history.layout import files
from counterpoise.pipeline.history.names import archive_of, day_of
from counterpoise.pipeline.history.reports import land
from counterpoise.pipeline.history.store import Store, open_store
from counterpoise.pipeline.stream.fold import Shard, fold_shard, start_fold
from counterpoise.pipeline.stream.session import start_session, stop_session
from counterpoise.pipeline.tables.rows_codec import REPORTS_SCHEMA, rows_to_arrow, write_reports

EVERY_MS, EACH = 5_000, 720
START_S = 30.0
FIRST_MS = 1_735_689_600_000
BATCHES = 12


def run(*, quick: bool, out: Path) -> list[Figure]:
    del out
    polls = 20_000 if quick else 500_000
    pipeline_fold.BUNDLES, pipeline_fold.BROKERS = 4, 2
    rows = pipeline_fold.poll(0, np.random.default_rng(1))
    with TemporaryDirectory(prefix="counterpoise-bench-") as home:
        store = open_store(home)
        # What is made here need not survive a power cut, and a thousand syncs take minutes.
        quick = Store(store.filesystem, store.root, store.uri, Unsynced())
        last = _recorded(quick, rows, polls)
        for shard in range(2):
            names = tuple(files(store, "reports", after=last - EVERY_MS))
            fold_shard(store, Shard(shard, 0, last, names), 2, DEFAULT_OPTIONS)
        for number in range(BATCHES):
            land(store, _at(rows, last + EVERY_MS * (1 + number)))
        began, took = time.perf_counter(), list[float]()
        spark = start_session("local[2]", partitions=2)
        try:
            query = start_fold(
                spark, home, lambda up_to, names: took.append(time.perf_counter() - began),
                shards=2, checkpoint=f"{home}/checkpoint", files=1,
            )  # fmt: skip
            query.processAllAvailable()
            each = [one["durationMs"]["triggerExecution"] / 1000 for one in query.recentProgress]
            query.stop()
        finally:
            stop_session(spark)
    later = each[1:]
    worst, median = max(later), statistics.median(later)
    note = f"{polls:,} polls in the history"
    return [
        Figure("from nothing to the first micro-batch", took[0], "s",
               bar=f"<= {START_S:g} s", holds=took[0] <= START_S, note=note),
        Figure("a micro-batch, median", median, "s", note=note),
        Figure("the longest micro-batch but the first", worst, "s", anchor="the median",
               anchor_value=median, bar="<= 2x", holds=worst <= 2 * median, note=note),
    ]  # fmt: skip


class Unsynced(Disk):
    """A disk that is believed."""

    def sync(self, file: BinaryIO) -> None:
        """Nothing."""

    def sync_directory(self, path: Path) -> None:
        """Nothing."""


def _recorded(store: Store, rows: ReportRows, polls: int) -> int:
    """Write compacted files of so many polls, none over midnight; gives the last poll."""
    poll_id, written = FIRST_MS, 0
    polls_of_a_file = pa.concat_tables([rows_to_arrow(rows)] * EACH).combine_chunks()
    while written < polls:
        ids = [poll_id + EVERY_MS * n for n in range(min(EACH, polls - written))]
        ids = [each for each in ids if day_of(each) == day_of(ids[0])]
        with (
            store.writing(archive_of("reports", ids[0], ids[-1])) as file,
            pq.ParquetWriter(file, REPORTS_SCHEMA, compression="zstd") as writer,
        ):
            # The polls say the same: only their number and time differ.
            write_reports(writer, _numbered(polls_of_a_file, len(rows), ids))
        written += len(ids)
        poll_id = ids[-1] + EVERY_MS
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
