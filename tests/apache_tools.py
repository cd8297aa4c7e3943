"""Apache Pulsar's command-line tools, from the jars that `make conformance` fetches."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from counterpoise.app.clusters import die_with_parent
from counterpoise.app.clusters.java import find_java
from tests.conformance.jars import pulsar_lib

ADMIN = "org.apache.pulsar.admin.cli.PulsarAdminTool"
PERF = "org.apache.pulsar.testclient.PulsarPerfTestTool"

LIB = pulsar_lib(fetch=False)

needs_tools = pytest.mark.skipif(
    LIB is None or not any(LIB.glob("pulsar-testclient-*.jar")),
    reason="Apache Pulsar's jars are not here: `make conformance` fetches them",
)


def run_tool(main: str, folder: Path, service_url: str, admin_url: str, *words: str) -> str:
    """Run one command and give what it printed; fails the test with what it complained."""
    conf = folder / "client.conf"
    conf.write_text(f"brokerServiceUrl={service_url}\nwebServiceUrl={admin_url}\n")
    java = [str(find_java()), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{LIB}/*"]
    done = subprocess.run(
        [*java, main, str(conf), *words], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


class AdminTool:
    """``pulsar-admin`` for many commands, in one JVM of its own process."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def __call__(self, *words: str) -> Any:
        """Run a command, which has to work, and give what it printed, as JSON if it is that."""
        worked, text = self.run(*words)
        assert worked, text
        try:
            return json.loads(text)
        except ValueError:
            return text

    def run(self, *words: str) -> tuple[bool, str]:
        """Run a command and give whether it worked, and what it printed."""
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answers is not None
        asked.write(json.dumps(words) + "\n")
        asked.flush()
        found = json.loads(answers.readline())
        return found["worked"], found["text"]

    def commands(self) -> dict[str, list[str]]:
        """The commands that the tool has, by their group."""
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answers is not None
        asked.write("null\n")
        asked.flush()
        found: dict[str, list[str]] = json.loads(answers.readline())
        return found


@contextmanager
def admin_tool(admin_url: str) -> Iterator[AdminTool]:
    """Start it; it ends with its standard input, or with this thread."""
    words = [sys.executable, die_with_parent.__file__, str(os.getpid())]
    words += [sys.executable, "-m", "tests.apache_admin", str(LIB), admin_url]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield AdminTool(process)
