"""What Spark is started with, and what is said when it fails."""

import os
import re
import signal
import subprocess
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext, java_gateway
from pyspark.errors import PySparkException

from counterpoise.pipeline.stream import jvm, session
from counterpoise.pipeline.stream.running import TRIES, PatientFold, StreamFailedError
from counterpoise.pipeline.stream.session import (
    SessionError,
    patient,
    python_of,
    start_session,
    stop_spark,
)
from counterpoise.pipeline.stream.trouble import sentence_of
from counterpoise.pipeline.tables.faults import DamagedError, SupersededError, damaged
from counterpoise.pipeline.tables.states import FoldedStates
from tests.pipeline.histories import writer_of

_FRAMES = "\n".join(f"\tat org.apache.spark.Frame{number}(F.scala:1)" for number in range(300))


def test_executors_elsewhere_run_the_python_that_was_named_for_them() -> None:
    named, environ = {"spark.pyspark.python": "/opt/python"}, {"PYSPARK_PYTHON": "/usr/python"}
    assert python_of("spark://host:7077", named, environ) == "/opt/python"
    assert python_of("k8s://https://host", {}, environ) == "/usr/python"
    here = python_of("yarn", {}, {})
    assert here == python_of("local[2]", named, environ), "this process's own"


@pytest.mark.parametrize(
    ("master", "remote", "conf"),
    [
        ("sc://host:15002", "", {}),
        ("local[2]", "sc://host", {}),
        ("local[2]", "", {"spark.api.mode": "connect"}),
        ("local[2]", "", {"spark.remote": "sc://host"}),
    ],
)
def test_spark_connect_is_refused_before_any_jvm_is_started(
    master: str, remote: str, conf: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if remote:
        monkeypatch.setenv("SPARK_REMOTE", remote)
    monkeypatch.setattr(session, "launch", lambda _: pytest.fail("a JVM is started"))
    with pytest.raises(SessionError, match=r"Spark Connect .*--master spark://"):
        start_session(master, partitions=2, conf=conf)


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


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a session sets in this process's environment goes with the test."""
    for name in ("SPARK_LOCAL_IP", "SPARK_HOME", "PYSPARK_PYTHON"):
        monkeypatch.setenv(name, "set")


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize(
    ("master", "conf", "address"),
    [
        ("local[2]", {}, "127.0.0.1"),
        ("spark://host:7077", {}, None),
        ("spark://host:7077", {"spark.driver.bindAddress": "10.0.0.1"}, "10.0.0.1"),
        ("local[2]", {"spark.driver.memory": "4g"}, "127.0.0.1"),
    ],
)
def test_an_operators_settings_win_and_other_machines_reach_the_driver(
    monkeypatch: pytest.MonkeyPatch, master: str, conf: dict[str, str], address: str | None
) -> None:
    asked: dict[str, str] = {}

    def refuses(settings: dict[str, str]) -> None:
        asked.update(settings)
        raise RuntimeError("java.io.IOException: no Java here")

    monkeypatch.setattr(session, "launch", refuses)
    with pytest.raises(SessionError, match=rf"on {re.escape(master)}: .*no Java here; is that"):
        start_session(master, partitions=2, conf=conf)
    assert asked.get("spark.driver.bindAddress") == address
    assert asked["spark.driver.memory"] == conf.get("spark.driver.memory", "1g")


@pytest.mark.usefixtures("environment")
def test_a_start_that_fails_names_the_file_of_what_the_jvm_printed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(session, "launch", lambda _: tmp_path / "printed.log")
    refuses = Mock(side_effect=RuntimeError("java.net.ConnectException: refused"))
    monkeypatch.setattr(SparkContext, "getOrCreate", refuses)
    with pytest.raises(SessionError, match=r"refused; .*\(what it printed: .*printed\.log\)"):
        start_session("spark://host:7077", partitions=2)


@pytest.mark.parametrize("printed", [b"", b"no room for its heap"])
def test_a_jvm_that_never_was_leaves_what_it_printed_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, printed: bytes
) -> None:
    def fails(_: object, popen_kwargs: dict[str, int]) -> None:
        os.write(popen_kwargs["stdout"], printed)
        raise RuntimeError("no Java here")

    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(java_gateway, "launch_gateway", fails)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(RuntimeError, match="no Java"):
        jvm.launch({})
    assert [file.read_bytes() for file in tmp_path.iterdir()] == ([printed] if printed else [])


@pytest.mark.parametrize("command", ["cat", "sleep 60"])
def test_a_session_ends_with_its_jvm_and_leaves_no_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    """A JVM ends with its standard input; one that does not is killed."""
    (printed := tmp_path / "printed.log").touch()
    process = subprocess.Popen(command.split(), stdin=subprocess.PIPE)
    gateway = Mock(proc=process)
    gateway.printed = printed
    monkeypatch.setattr(SparkContext, "_gateway", gateway)
    monkeypatch.setattr(SparkContext, "_jvm", None)
    monkeypatch.setattr(jvm, "STOP_WITHIN_S", 60.0 if command == "cat" else 0.01)
    try:
        stop_spark(Mock())
        assert process.returncode == (0 if command == "cat" else -signal.SIGKILL)
        assert not printed.exists()
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (f"HistoryFaultError: {damaged('s3://b/x', 's3://b', OSError('torn'))}", "history repair"),
        ("ModuleNotFoundError: No module named 'pyarrow'", "has no pyarrow: install"),
        ('java.io.IOException: Cannot run program "/opt/py": error=2', "have no /opt/py"),
        ("[PYTHON_VERSION_MISMATCH] Python in worker", "another version of Python"),
        ("java.lang.OutOfMemoryError: Java heap space", "spark.driver.memory"),
        ("ZeroDivisionError: float division by zero", "ZeroDivisionError: float division by zero"),
        ("KeyError: 'a'\nDuring handling, another:\nOSError: no room", "OSError: no room"),
        ("ValueError: " + 1000 * "x", "ValueError: xxx"),
    ],
)
def test_hundreds_of_lines_become_a_sentence(said: str, sentence: str) -> None:
    whole = f"An error occurred while calling o1.run\n{_FRAMES}\nCaused by: x\n{said}\n{_FRAMES}"
    assert sentence in sentence_of(whole)
    assert "\n" not in sentence_of(whole)
    assert len(sentence_of(whole)) <= 300


def test_of_what_names_no_error_the_first_line_is_given() -> None:
    assert sentence_of(f"the query was cancelled\n{_FRAMES}") == "the query was cancelled"


@dataclass
class FailingFold:
    """A fold whose batches fail, each by the next of these errors, until none is left."""

    errors: list[Exception]
    states: FoldedStates | None = None

    def next(self) -> FoldedStates | None:
        if self.errors:
            raise self.errors.pop(0)
        return None


BUSY = PySparkException("org.apache.spark.SparkException: Python worker failed to connect back.")


def patient_fold(
    tmp_path: Path, *errors: Exception, failing: FailingFold | None = None
) -> tuple[PatientFold, list[str]]:
    logged: list[str] = []
    fold = failing or FailingFold(list(errors))
    return PatientFold(fold, writer_of(tmp_path), logged.append), logged  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "said",
    [
        "Python worker failed to connect back.",
        "Python worker exited unexpectedly (crashed)",
        "ExecutorLostFailure (executor 1 exited caused by one of the running tasks)",
        "Lost executor 0: Worker died",
        "java.net.SocketException: Connection reset by peer",
    ],
)
def test_a_batch_that_a_busy_machine_ended_is_run_again(tmp_path: Path, said: str) -> None:
    fold, logged = patient_fold(tmp_path, *[PySparkException(said)] * 2)
    assert fold.next() is None
    assert len(logged) == 2


def test_what_ends_a_batch_again_and_again_is_raised(tmp_path: Path) -> None:
    fold, logged = patient_fold(tmp_path, *[BUSY] * TRIES)
    with pytest.raises(StreamFailedError, match="connect back"):
        fold.next()
    assert len(logged) == TRIES - 1


def test_a_fold_that_got_further_in_between_has_all_its_tries_again(tmp_path: Path) -> None:
    failing = FailingFold([])
    fold, logged = patient_fold(tmp_path, failing=failing)
    for _ in range(2):
        failing.errors += [BUSY] * (TRIES - 1)
        assert fold.next() is None
    assert len(logged) == 2 * (TRIES - 1)


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("ZeroDivisionError: float division by zero", StreamFailedError),
        (f"DamagedError: {damaged('a/b', 'a', OSError('torn'))}", DamagedError),
        (damaged("a/b", "a", OSError("torn")), DamagedError),
    ],
)
def test_a_batch_that_something_lasting_ended_is_not(
    tmp_path: Path, said: str | Exception, error: type[Exception]
) -> None:
    raised = PySparkException(said) if isinstance(said, str) else said
    fold, logged = patient_fold(tmp_path, raised)
    with pytest.raises(error):
        fold.next()
    assert logged == []


def test_a_batch_that_failed_since_another_took_over_says_that(tmp_path: Path) -> None:
    """The states that it goes on from are removed by the balancer that follows."""
    said = f"DamagedError: {damaged('a/b', 'a', OSError('no such file'))}"
    fold, logged = patient_fold(tmp_path, PySparkException(said))
    writer_of(tmp_path)
    with pytest.raises(SupersededError, match="another balancer has taken"):
        fold.next()
    assert logged == []


@pytest.mark.parametrize("killed", [True, False])
def test_a_jvm_that_was_killed_ends_the_fold_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, killed: bool
) -> None:
    """Its connections break then, as they may without that."""
    process = subprocess.Popen(["sleep", "60"])
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
    monkeypatch.setattr(jvm, "NOTICED_WITHIN_S", 0.01 if not killed else 60.0)
    fold, _ = patient_fold(tmp_path, Py4JNetworkError("refused"))
    try:
        if killed:
            process.kill()
        with pytest.raises(StreamFailedError, match="JVM was killed" if killed else "refused"):
            fold.next()
    finally:
        process.kill()
        process.wait()


def test_a_session_whose_jvm_ended_first_is_stopped_without_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when a signal reaches the whole process group."""
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    java = Mock()
    java.stop.side_effect = Py4JNetworkError("refused")
    context = SimpleNamespace(_jsc=java, _accumulatorServer=None)
    started = Mock()
    started.stop.side_effect = lambda: SparkContext.stop(context)  # type: ignore[arg-type]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        stop_spark(started)
    java.stop.assert_called_once()
    assert warned == []
