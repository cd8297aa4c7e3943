"""A Spark session for the balancer: small, quiet, on the loopback interface unless told otherwise."""

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The driver's threads recurse deeply while planning: without -Xss4m a plan of this width overflows.
_SETTINGS: Mapping[str, str] = {
    "spark.driver.extraJavaOptions": "-Xss4m -XX:+UseSerialGC",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "250000",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.pollingDelay": "100",
    "spark.sql.streaming.minBatchesToRetain": "20",
    "spark.sql.streaming.stopTimeout": "30s",
    # One statistics job less for each batch; nobody looks at them.
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.log.level": "ERROR",
}


def start_session(master: str, *, partitions: int) -> "SparkSession":
    """The session; `partitions` is how many shards of the state are folded side by side."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if master.startswith("local"):
        # Spark's own choice is whatever `python3` is on the path.
        os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("counterpoise balance")
    for name, value in _SETTINGS.items():
        if master.startswith("local") or not name.startswith("spark.driver.bind"):
            builder = builder.config(name, value)
    return builder.config("spark.sql.shuffle.partitions", str(partitions)).getOrCreate()
