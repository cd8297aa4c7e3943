"""Shortens Spark's errors, hundreds of lines, to one sentence with the next step."""

import re

from counterpoise.pipeline.tables.faults import fault_from_spark

_ANOTHER = "or name another with --spark-conf spark.pyspark.python=PATH"
_KNOWN = (
    (
        r"ModuleNotFoundError: No module named '([^']+)'",
        "the Python of Spark's executors has no {0}: install counterpoise[pipeline] for it, "
        + _ANOTHER,
    ),
    (
        r"Cannot run program \"([^\"]+)\"",
        "Spark's executors have no {0}: install that Python there, " + _ANOTHER,
    ),
    (
        r"PYTHON_VERSION_MISMATCH.*?",
        "Spark's executors run another version of Python than this process: make them the same, "
        + _ANOTHER,
    ),
    (
        r"java\.lang\.OutOfMemoryError: ([^\n]+)",
        "Spark's memory is too small ({0}): give it more with --spark-conf "
        "spark.driver.memory=4g, or spark.executor.memory on a cluster",
    ),
)


def sentence_of(message: str) -> str:
    """What a Spark error comes down to, as one sentence: a history's fault, a known failure, …"""
    if fault := fault_from_spark(message):
        return str(fault)
    for pattern, sentence in _KNOWN:
        if found := re.search(pattern, message):
            return sentence.format(*found.groups())
    lines = [line.strip() for line in message.splitlines() if "Error: " in line]
    return (lines[-1] if lines else message.partition("\n")[0])[:300]
