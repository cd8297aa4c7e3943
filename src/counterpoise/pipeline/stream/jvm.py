"""The JVM of a Spark session: its output goes to a file, and it ends without leftovers.

The JVM and the Python processes that it starts write warnings and tracebacks to the terminal, which
are of no use to an operator: an error that ends a stream is reported in a sentence.
"""

import contextlib
import logging
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext

STOP_WITHIN_S = 15.0
NOTICED_WITHIN_S = 2.0
"""Seconds to wait for the JVM's exit status: when it is killed, its connections break first."""


def launch(settings: Mapping[str, str]) -> Path | None:
    """Start the JVM for the next Spark session; returns the file with its output.

    Returns None if there is a JVM already. `settings` are Spark's, some of which only have an
    effect when the JVM starts.
    """
    from pyspark import SparkConf, SparkContext, java_gateway

    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_not_by_py4j)
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return None
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    handle, name = tempfile.mkstemp(prefix="counterpoise-spark-", suffix=".log")
    printed = Path(name)
    try:
        into = {"stdout": handle, "stderr": subprocess.STDOUT}
        start: Any = java_gateway.launch_gateway
        gateway = start(conf, popen_kwargs=into)
    except BaseException:
        if not printed.stat().st_size:
            printed.unlink()
        raise
    finally:
        os.close(handle)
    gateway.printed = printed
    SparkContext._ensure_initialized(gateway=gateway)
    return printed


def _not_by_py4j(record: logging.LogRecord) -> bool:
    """Whether a log record is not by Py4J, whose tracebacks only repeat the call's own error."""
    return f"{os.sep}py4j{os.sep}" not in record.pathname


def hush(spark: "SparkContext") -> None:
    """Keep PySpark's callback server from printing a traceback when its JVM ends first."""
    server = spark._accumulatorServer
    server.handle_error = lambda request, client_address: None  # type: ignore[method-assign]


def ended() -> str:
    """A sentence on how this process's JVM ended; empty while it runs, or if none was started."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return ""
    try:
        status = process.wait(NOTICED_WITHIN_S)
    except subprocess.TimeoutExpired:
        return ""
    if status == -signal.SIGKILL:
        return (
            "Spark's JVM was killed (where the machine ran out of memory, the kernel's log says so)"
        )
    return f"Spark's JVM has ended with status {status}"


def end() -> None:
    """End the JVM, wait until it is gone, and close PySpark's connections to it."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if gateway is None or process is None:
        return
    for close in (gateway.shutdown, gateway._gateway_client.close):
        with contextlib.suppress(Exception):
            close()
    # The JVM ends when its standard input does.
    process.stdin.close()
    try:
        process.wait(STOP_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    SparkContext._gateway = SparkContext._jvm = None
    if printed := gateway.__dict__.get("printed"):
        printed.unlink(missing_ok=True)
