"""Starts Spark for the balancer: small, quiet, on the loopback interface by default."""

import atexit
import contextlib
import os
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession, is_remote

from counterpoise.pipeline.spark.code import archives
from counterpoise.pipeline.stream.jvm import end, hush, launch

_JAVA = (
    # Threads recurse deeply while planning, and in regular expressions over long plans.
    "-Xss4m",
    # Batches have few rows: to optimise the JVM's code costs more time than it ever saves.
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    # By default Java begins with a 64th of the machine's memory, keeps two fifths of its heap free,
    # and returns none of it while it is idle. Objects here are short-lived or stay for good.
    "-Xms48m",
    "-XX:NewRatio=5",
    "-XX:MinHeapFreeRatio=15",
    "-XX:MaxHeapFreeRatio=30",
    "-XX:-UsePerfData",
    f'"-Dlog4j2.configurationFile={Path(__file__).with_name("log4j2.properties").as_uri()}"',
)
_SETTINGS: Mapping[str, str] = {
    # PySpark's gateway raises the level to WARN, whatever the file says.
    "spark.log.level": "ERROR",
    "spark.driver.extraJavaOptions": " ".join(_JAVA),
    # Generating code costs more than it saves as well: a batch has a row for each shard.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "250000",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}


def start_session(
    master: str,
    *,
    partitions: int,
    conf: Mapping[str, str] | None = None,
    strategies: Iterable[object] = (),
) -> SparkSession:
    """Start a Spark session for data frames, on what `start_context` starts; raises `SessionError`.

    `partitions` is the number of tasks behind a shuffle.
    """
    conf = {"spark.sql.shuffle.partitions": str(partitions), **(conf or {})}
    start_context(master, conf=conf, strategies=strategies)
    return SparkSession.builder.getOrCreate()


def start_context(
    master: str, *, conf: Mapping[str, str] | None = None, strategies: Iterable[object] = ()
) -> SparkContext:
    """Start Spark for tasks in Python; raises `SessionError`.

    Without a session, Spark loads a third less code: it starts sooner and takes less memory.
    Executors get the code of an operator's own `strategies`. `conf` has Spark settings that
    override those of this package. A `local` master stays on the loopback interface. With any
    other, executors get this package from the driver, and run the Python that `python_of` returns.
    """
    given = dict(conf or {})
    if _is_connect(master, given):
        raise SessionError(
            "Spark Connect (sc://, SPARK_REMOTE, spark.remote or spark.api.mode=connect) runs no "
            "job of counterpoise: its JVM belongs to another process, so that nothing here could "
            "say how it ended or whether executors are there; name the cluster's own master, "
            "--master spark://host:7077, yarn or k8s://…, or local[*]"
        )
    local = master.startswith("local")
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if "SPARK_HOME" not in os.environ and (local or master.startswith("spark://")):
        os.environ["SPARK_HOME"] = home_without_zips()
    os.environ["PYSPARK_PYTHON"] = python_of(master, given, os.environ)
    settings = {**_SETTINGS, **given}
    if not local and "spark.driver.bindAddress" not in given:
        del settings["spark.driver.bindAddress"]
    settings |= {"spark.master": patient(master), "spark.app.name": "counterpoise balance"}
    printed = None
    try:
        printed = launch(settings)
        spark = SparkContext.getOrCreate(SparkConf().setAll(list(settings.items())))
    except Exception as error:
        raise SessionError(_why_not(master, str(error), printed)) from error
    if printed:
        atexit.register(printed.unlink, missing_ok=True)
    hush(spark)
    for archive in archives(strategies, elsewhere=not local):
        spark.addPyFile(archive)
    return spark


def register_sources(spark: SparkSession) -> None:
    """Register the data sources `counterpoise` (histories) and `pulsar-load` (live clusters).

    The first source of a session starts two Python processes that stay, so a balancer registers
    none.
    """
    from counterpoise.pipeline.spark.source import HistorySource
    from counterpoise.pipeline.stream.public_source import PulsarLoad

    for source in (PulsarLoad, HistorySource):
        spark.dataSource.register(source)


def _is_connect(master: str, conf: Mapping[str, str]) -> bool:
    named = "spark.remote" in conf or "SPARK_REMOTE" in os.environ or is_remote()
    return named or master.startswith("sc:") or conf.get("spark.api.mode") == "connect"


class SessionError(RuntimeError):
    """Spark could not be started; the message says why, and what to do."""


def python_of(master: str, conf: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """The path of the Python that executors run: this process's own, or on other machines the
    configured one.

    Spark's own default is whatever `python3` is on the path.
    """
    if master.startswith("local"):
        return sys.executable
    return conf.get("spark.pyspark.python") or environ.get("PYSPARK_PYTHON") or sys.executable


def home_without_zips() -> str:
    """A temporary `SPARK_HOME` without Spark's Python packages, so that Python processes start
    faster.

    Spark puts `python/lib/pyspark.zip` first on the path of each Python process it starts.
    Importing from a zip takes a second at each start, and Spark gives up a process that starts
    slowly.
    """
    home = tempfile.mkdtemp(prefix="counterpoise-spark-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for each in Path(pyspark.__file__).parent.iterdir():
        if each.name in ("bin", "jars"):
            (Path(home) / each.name).symlink_to(each)
    return home


def patient(master: str) -> str:
    """A local master with four attempts per task, as on a cluster: `local[2]` as `local[2,4]`."""
    if master == "local":
        return "local[1,4]"
    return re.sub(r"^local\[([^,\]]+)\]$", r"local[\1,4]", master)


def _why_not(master: str, message: str, printed: Path | None) -> str:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    reason = next((line for line in lines if "xception" in line or "rror" in line), message[:200])
    more = f" (what it printed: {printed})" if printed else ""
    return (
        f"Spark did not start on {master}: {reason[:200]}; is that master there, and may this "
        f"machine reach it?{more}"
    )


def stop_spark(spark: SparkSession | SparkContext) -> None:
    """Stop Spark and its JVM, and wait until the JVM is gone."""
    with contextlib.suppress(Exception), warnings.catch_warnings():
        # A signal to the whole process group may have ended the JVM first.
        warnings.simplefilter("ignore", RuntimeWarning)
        spark.stop()
    end()
