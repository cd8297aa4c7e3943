"""One Spark job, run in a thread and watched from another by Spark's public status API."""

from contextlib import suppress
from typing import Final
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

EXECUTORS_WITHIN_S: Final = 30.0
"""What Spark may take to start one; it awaits them without a word."""
LOOK_EVERY_S: Final = 1.0


class JobWatch:
    """Runs data frames and counts their tasks; interrupts a job that still runs when it is
    closed.
    """

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._spark = spark
        self._tag = f"counterpoise-{name}-{uuid4().hex}"

    def __enter__(self) -> "JobWatch":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Interrupt the jobs that still run."""
        with suppress(Exception):  # a session that is gone has no job left
            self._spark.interruptTag(self._tag)

    @property
    def master(self) -> str:
        """The session's master URL, such as ``local[2]``."""
        return str(self._spark.sparkContext.master)

    def run(self, frame: DataFrame) -> pa.Table:
        """Run the job that computes a frame's rows, and return them."""
        self._spark.addTag(self._tag)
        try:
            return frame.toArrow()
        finally:
            self._spark.removeTag(self._tag)

    def done(self) -> int:
        """The number of finished tasks of the stages that run now."""
        tracker = self._spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        return sum(stage.numCompletedTasks for stage in stages if stage is not None)

    def is_alone(self) -> bool:
        """Whether no executor has registered yet."""
        return not has_executors(self._spark)


def has_executors(spark: SparkSession) -> bool:
    """Whether an executor has registered; a local master needs none."""
    context = spark.sparkContext
    if str(context.master).startswith("local"):
        return True
    # The driver is one of those listed.
    return len(context.statusTracker().getExecutorInfos()) > 1


def no_executor(master: str, idle: str) -> str:
    """The error text for missing executors; `idle` says what does not happen until one
    registers.
    """
    return (
        f"no executor has come from {master} yet, {idle} until one does; spark.executor.memory and "
        "spark.executor.cores have to fit a worker"
    )
