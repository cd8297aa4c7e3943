"""The fold on Spark: tasks write the state of each shard to files, the driver commits them.

State is kept by shard, not by bundle: a keyed Python state costs half a millisecond a key, while a
shard's thousands of bundles are columns that NumPy folds at once. Columns do not pass through the
JVM. A task reads a shard's rows of the next polls, folds them into the shard's state, and writes
that to a data file with a unique name. Only the names of files go through Spark. The driver commits
the files of all shards at once, with the number of the last poll. A task that was retried,
speculated or killed leaves a file that no commit names.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from counterpoise.load.fold import FoldState, fold
from counterpoise.pipeline.tables import reports, states
from counterpoise.pipeline.tables.data_files import DataFile
from counterpoise.pipeline.tables.location import Location

if TYPE_CHECKING:  # executors do without delta-rs
    from pyspark import SparkContext

    from counterpoise.pipeline.spark.job import JobWatch
    from counterpoise.pipeline.tables.history import TablesWriter

ROWS_OF_A_TASK: Final = 20_000
"""One core folds this many rows of reports in less time than a second Python worker takes to
start."""


@dataclass(frozen=True, slots=True)
class FoldBatch:
    """The input of all tasks that fold one micro-batch; it is serialised and sent to executors."""

    location: Location
    part: reports.ReportSlice
    before: tuple[DataFile, ...]
    """The states before this slice, by shard; none if nothing was folded yet."""
    shards: int


def fold_shard(batch: FoldBatch, shard: int) -> DataFile:
    """Fold a batch's reports into the state of one shard; returns the file with the new state.

    Raises `HistoryFaultError`.
    """
    before = FoldState.empty()
    if batch.before:
        before = states.read_state(batch.location, batch.before[shard])
    rows = reports.read_shard(batch.location, batch.part, shard, batch.shards)
    after = fold(before, rows)
    up_to = batch.part.up_to
    return states.write_state(batch.location, after, up_to=up_to, shard=shard, shards=batch.shards)


class SparkTasks:
    """Runs a batch's tasks as one Spark job; a job that still runs on closing is cancelled."""

    def __init__(self, spark: "SparkContext", job: "JobWatch") -> None:
        self._spark = spark
        self._job = job

    def run(self, batch: FoldBatch) -> Sequence[DataFile]:
        """Run a batch's tasks; returns the files that they wrote, by shard.

        Each shard is a task. On a local master, a small batch has fewer tasks, each of several
        shards, since each Python worker takes memory.
        """
        tasks = batch.shards
        if self._job.is_local:
            tasks = min(tasks, 1 + batch.part.rows // ROWS_OF_A_TASK)
        shards = self._spark.parallelize(range(batch.shards), tasks)
        with self._job.watched():
            return shards.map(partial(fold_shard, batch)).collect()


class ReportFold:
    """Folds a history's reports into averages by batches; states are committed to `fold_state`."""

    def __init__(
        self,
        writer: "TablesWriter",
        tasks: SparkTasks,
        *,
        shards: int,
        most_rows: int = reports.ROWS_MOST,
        every_ms: int = 0,
    ) -> None:
        """A batch has at most `most_rows` rows, unless a single file has more.

        Polls less than `every_ms` apart are folded together: a batch costs far more than a poll.
        """
        self._writer = writer
        self._tasks = tasks
        self._shards = shards
        self._most_rows = most_rows
        self._every_ms = every_ms
        self.states = states.resharded(writer, shards)
        """The newest states; None if nothing was folded yet."""

    def next(self) -> states.FoldedStates | None:
        """Fold the polls that landed since the last call, and commit the states; None if there are
        none.

        Raises `HistoryFaultError`, and Spark's errors.
        """
        after = self.states.up_to if self.states else 0
        if reports.newest_poll(self._writer) < max(after + self._every_ms, after + 1):
            return None
        part = reports.next_slice(self._writer, after, self._most_rows)
        if part is None:
            return None
        before = self.states.files if self.states else ()
        batch = FoldBatch(self._writer.location, part, before, self._shards)
        files = self._tasks.run(batch)
        states.commit_states(self._writer, files, part.up_to)
        self.states = states.FoldedStates(part.up_to, tuple(files))
        return self.states
