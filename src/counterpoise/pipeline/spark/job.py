"""One Spark job, run in a thread and watched from another by Spark's public status API.

Spark Connect has no status API of this kind: there a job runs unwatched.
"""

from contextlib import suppress
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pyarrow as pa

from counterpoise.pipeline.spark.executors import has_executors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOOK_EVERY_S: Final = 1.0


class JobWatch:
    """Runs DataFrames and counts their tasks; a job that still runs at the end is interrupted."""

    def __init__(self, spark: "SparkSession", name: str) -> None:
        from pyspark.sql import is_remote

        self._spark = spark
        self._is_remote = is_remote()
        self._tag = f"counterpoise-{name}-{uuid4().hex}"

    def __enter__(self) -> "JobWatch":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Interrupt what still runs."""
        with suppress(Exception):  # a session that is gone has no job left
            self._spark.interruptTag(self._tag)

    @property
    def master(self) -> str:
        """The session's master."""
        return self._spark.conf.get("spark.master", "") or "Spark Connect"

    def run(self, frame: "DataFrame") -> pa.Table:
        """The rows of a frame."""
        self._spark.addTag(self._tag)
        try:
            return frame.toArrow()
        finally:
            self._spark.removeTag(self._tag)

    def done(self) -> int:
        """How many tasks of the stages that run now are done."""
        if self._is_remote:
            return 0
        tracker = self._spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        return sum(stage.numCompletedTasks for stage in stages if stage is not None)

    def is_alone(self) -> bool:
        """Whether no executor has come."""
        return not has_executors(self._spark)
