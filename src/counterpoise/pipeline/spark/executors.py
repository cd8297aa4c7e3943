"""Whether executors have come, which Spark awaits without a word."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXECUTORS_WITHIN_S: Final = 30.0


def has_executors(spark: "SparkSession") -> bool:
    """Whether an executor has come; a local master needs none, and Spark Connect does not say."""
    from pyspark.sql import is_remote

    if is_remote():
        return True
    context = spark.sparkContext
    if str(context.master).startswith("local"):
        return True
    # The driver is one of those listed.
    return len(context.statusTracker().getExecutorInfos()) > 1


def no_executor(master: str, idle: str) -> str:
    """The sentence that no executor has come; `idle` says what does not happen until then."""
    return (
        f"no executor has come from {master} yet, {idle} until one does; spark.executor.memory and "
        "spark.executor.cores have to fit a worker"
    )
