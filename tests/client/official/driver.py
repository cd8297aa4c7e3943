"""Official clients, each in a process that takes its commands line by line."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pytest

from tests.conformance.jars import cache, pulsar_lib

GO_SOURCE = Path(__file__).with_name("go")
BUILD_S = 900
GO_ABSENT = "Go's client is not built: `make clients` builds it, where Go is installed"
JAVA_ABSENT = "Apache Pulsar's jars are not here: `make conformance` fetches them"


class Refused(Exception):
    """What a client said of what it was not let do."""


class Driver:
    """One client: `connect`, `produce`, `subscribe`, `consume` … as the official API has them."""

    def __init__(self, name: str, command: list[str]) -> None:
        self.name = name
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self("close")
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()
            if kind is not None:
                self._process.kill()

    def __call__(self, verb: str, **how: Any) -> Any:
        """Have it do something; raises `Refused` with what its own error says."""
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answers is not None
        asked.write(json.dumps({"do": verb, **how}) + "\n")
        asked.flush()
        line = answers.readline()
        assert line, f"the client's process ended with {self._process.wait()}"
        answer = json.loads(line)
        if "refused" in answer:
            raise Refused(answer["refused"])
        return answer["value"]


def java_command() -> list[str] | None:
    """How the Java client is started; None without the jars."""
    lib = pulsar_lib(fetch=False)
    if lib is None or not any(lib.glob("pulsar-client-original-*.jar")):
        return None
    return [sys.executable, "-m", "tests.client.official.java_client", str(lib)]


def python_command() -> list[str]:
    """How the Python client is started."""
    return [sys.executable, "-m", "tests.client.official.python_client"]


def go_command(*, build: bool = False) -> list[str] | None:
    """How the Go client is started; None where it is not built and cannot be."""
    digest = hashlib.sha256()
    for file in sorted(GO_SOURCE.iterdir()):
        digest.update(file.read_bytes())
    built = cache() / f"go-client-{digest.hexdigest()[:16]}"
    if not built.is_file():
        go = shutil.which("go")
        if not build or go is None:
            return None
        built.parent.mkdir(parents=True, exist_ok=True)
        made = built.with_suffix(f".{os.getpid()}")
        subprocess.run(
            [go, "build", "-o", str(made), "."], cwd=GO_SOURCE, check=True, timeout=BUILD_S
        )
        made.rename(built)
    return [str(built)]


CLIENTS: Final = {
    "python": (python_command, ""),
    "go": (go_command, GO_ABSENT),
    "java": (java_command, JAVA_ABSENT),
}


@contextmanager
def started(name: str) -> Iterator[Driver]:
    """A client's process; the test is skipped where that client cannot be had."""
    find, absent = CLIENTS[name]
    command = find()
    if command is None:
        pytest.skip(absent)
    with Driver(name, command) as driver:
        yield driver
