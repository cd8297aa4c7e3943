"""The balancer of the command line without Spark: its tasks run here, all else is what it is."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from counterpoise.pipeline import runner
from counterpoise.pipeline.stream.fold import FoldBatch, fold_shard
from counterpoise.pipeline.tables.data_files import DataFile


class LocalTasks:
    """A batch's tasks, one after the other in this process."""

    def __init__(self, spark: Any, job: Any) -> None:
        del spark, job

    def run(self, batch: FoldBatch) -> Sequence[DataFile]:
        return [fold_shard(batch, shard) for shard in range(batch.shards)]


class NoJob:
    """No job of Spark's to watch."""

    def __init__(self, spark: Any, name: str) -> None:
        del spark, name

    def close(self) -> None:
        """There is nothing to cancel."""


def fold_without_spark() -> None:
    """From now on, in this process."""
    context = SimpleNamespace(version="none", master="local")
    runner.start_context = lambda *_, **__: context  # type: ignore[assignment, return-value]
    runner.stop_spark = lambda _: None
    runner.SparkTasks = LocalTasks  # type: ignore[assignment, misc]
    runner.JobWatch = NoJob  # type: ignore[assignment, misc]
