"""One Spark job, run in a thread and watched from another by Spark's public status API."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final
from uuid import uuid4

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import DataFrame

EXECUTORS_WITHIN_S: Final = 30.0
"""How many seconds Spark may take to start an executor; it logs nothing while it waits for one."""
LOOK_EVERY_S: Final = 1.0


class JobWatch:
    """Watches Spark jobs: counts their tasks, and on `close` cancels those that still run."""

    def __init__(self, spark: SparkContext, name: str) -> None:
        self._spark = spark
        self._tag = f"counterpoise-{name}-{uuid4().hex}"

    def __enter__(self) -> "JobWatch":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Cancel the watched jobs that still run."""
        with suppress(Exception):  # a context that is gone has no job left
            self._spark.cancelJobsWithTag(self._tag)

    @property
    def master(self) -> str:
        """The master's URL, such as ``local[2]``."""
        return str(self._spark.master)

    @property
    def is_local(self) -> bool:
        """Whether tasks run on this machine, by Spark's own threads."""
        return self.master.startswith("local")

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch the jobs that this thread starts during the block."""
        self._spark.addJobTag(self._tag)
        try:
            yield
        finally:
            self._spark.removeJobTag(self._tag)

    def run(self, frame: DataFrame) -> pa.Table:
        """Run the job that computes a frame's rows, and return them."""
        with self.watched():
            return frame.toArrow()

    def done(self) -> int:
        """The number of finished tasks of the stages that run now."""
        tracker = self._spark.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        return sum(stage.numCompletedTasks for stage in stages if stage is not None)

    def is_alone(self) -> bool:
        """Whether no executor has registered yet."""
        return not has_executors(self._spark)


def has_executors(spark: SparkContext) -> bool:
    """Whether an executor has registered; a local master needs none."""
    if str(spark.master).startswith("local"):
        return True
    # The list of executors includes the driver.
    return len(spark.statusTracker().getExecutorInfos()) > 1


def no_executor(master: str, idle: str) -> str:
    """The text for missing executors; `idle` says what does not happen until one registers."""
    return (
        f"no executor has come from {master} yet, {idle} until one does; spark.executor.memory and "
        "spark.executor.cores have to fit a worker"
    )
