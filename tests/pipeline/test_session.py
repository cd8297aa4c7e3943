"""What Spark is started with, and what is said when it fails."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext

from counterpoise.pipeline.stream import jvm
from counterpoise.pipeline.stream.running import TRIES, Stream, StreamFailedError, jvm_at_hand
from counterpoise.pipeline.stream.session import patient, python_of
from counterpoise.pipeline.stream.trouble import sentence_of
from counterpoise.pipeline.tables.faults import HistoryFaultError, damaged

_FRAMES = "\n".join(f"\tat org.apache.spark.Frame{number}(F.scala:1)" for number in range(300))


def test_executors_elsewhere_run_the_python_that_was_named_for_them() -> None:
    named, environ = {"spark.pyspark.python": "/opt/python"}, {"PYSPARK_PYTHON": "/usr/python"}
    assert python_of("spark://host:7077", named, environ) == "/opt/python"
    assert python_of("k8s://https://host", {}, environ) == "/usr/python"
    here = python_of("yarn", {}, {})
    assert here == python_of("local[2]", named, environ), "this process's own"


@pytest.mark.parametrize(
    ("master", "asked"),
    [
        ("local", "local[1,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2]", "local[2,4]"),
        ("local[2,1]", "local[2,1]"),
        ("spark://host:7077", "spark://host:7077"),
    ],
)
def test_a_task_that_was_killed_is_tried_again_on_one_machine_too(master: str, asked: str) -> None:
    assert patient(master) == asked


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (f"HistoryFaultError: {damaged('s3://b/x', 's3://b', OSError('torn'))}", "history repair"),
        ("ModuleNotFoundError: No module named 'pyarrow'", "has no pyarrow: install"),
        ('java.io.IOException: Cannot run program "/opt/py": error=2', "have no /opt/py"),
        ("[PYTHON_VERSION_MISMATCH] Python in worker", "another version of Python"),
        ("java.lang.OutOfMemoryError: Java heap space", "spark.driver.memory"),
        ("ZeroDivisionError: float division by zero", "ZeroDivisionError: float division by zero"),
    ],
)
def test_hundreds_of_lines_become_a_sentence(said: str, sentence: str) -> None:
    whole = f"An error occurred while calling o1.run\n{_FRAMES}\nCaused by: x\n{said}\n{_FRAMES}"
    assert sentence in sentence_of(whole)
    assert "\n" not in sentence_of(whole)


def test_of_what_names_no_error_the_first_line_is_given() -> None:
    assert sentence_of(f"the query was cancelled\n{_FRAMES}") == "the query was cancelled"


@dataclass
class EndedQuery:
    """A query that has ended, or runs where nothing ended it."""

    ended_by: str = ""
    lastProgress: Any = None  # noqa: N815  Spark's own name

    @property
    def isActive(self) -> bool:
        return not self.ended_by

    def exception(self) -> str:
        return self.ended_by


BUSY = "org.apache.spark.SparkException: Python worker failed to connect back."


def stream(*queries: EndedQuery) -> tuple[Stream, list[str]]:
    coming: Iterator[EndedQuery] = iter(queries)
    logged: list[str] = []
    return Stream(lambda: next(coming), logged.append), logged  # type: ignore[arg-type, return-value]


def test_a_stream_that_a_busy_machine_ended_is_started_again() -> None:
    running, logged = stream(EndedQuery(BUSY), EndedQuery())
    running.mind()
    running.mind()
    assert running.query.isActive
    assert len(logged) == 1


def test_what_ends_a_stream_again_and_again_is_said() -> None:
    running, logged = stream(*[EndedQuery(BUSY)] * TRIES)
    for _ in range(TRIES - 1):
        running.mind()
    with pytest.raises(StreamFailedError, match="connect back"):
        running.mind()
    assert len(logged) == TRIES - 1


def test_a_stream_that_got_further_in_between_has_all_its_tries_again() -> None:
    queries = [EndedQuery(BUSY, {"batchId": 1})] * (2 * TRIES)
    running, _ = stream(*queries, EndedQuery())
    for _ in queries:
        running.mind()
    assert running.query.isActive


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("ZeroDivisionError: float division by zero", StreamFailedError),
        (f"HistoryFaultError: {damaged('a/b', 'a', OSError('torn'))}", HistoryFaultError),
    ],
)
def test_a_stream_that_something_lasting_ended_is_not(said: str, error: type[Exception]) -> None:
    running, logged = stream(EndedQuery(said))
    with pytest.raises(error):
        running.mind()
    assert logged == []


@pytest.mark.parametrize("killed", [True, False])
def test_a_jvm_that_was_killed_ends_the_stream_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, *, killed: bool
) -> None:
    """Its connections break then, as they may without that."""
    process = subprocess.Popen(["sleep", "60"])
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
    monkeypatch.setattr(jvm, "NOTICED_WITHIN_S", 0.01 if not killed else 10.0)
    try:
        if killed:
            process.kill()
        expected, says = (
            (StreamFailedError, "JVM was killed") if killed else (Py4JNetworkError, "refused")
        )
        with pytest.raises(expected, match=says), jvm_at_hand():
            raise Py4JNetworkError("refused")
    finally:
        process.kill()
        process.wait()
