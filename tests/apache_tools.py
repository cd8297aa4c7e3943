"""Apache Pulsar's command-line tools, from the jars that `make conformance` fetches."""

import subprocess
from pathlib import Path

import pytest

from counterpoise.app.java import find_java
from tests.conformance.jars import pulsar_lib

ADMIN = "org.apache.pulsar.admin.cli.PulsarAdminTool"
PERF = "org.apache.pulsar.testclient.PulsarPerfTestTool"

_LIB = pulsar_lib(fetch=False)

needs_tools = pytest.mark.skipif(
    _LIB is None or not any(_LIB.glob("pulsar-testclient-*.jar")),
    reason="Apache Pulsar's jars are not here: `make conformance` fetches them",
)


def run_tool(main: str, folder: Path, service_url: str, admin_url: str, *words: str) -> str:
    """Run one command and give what it printed; fails the test with what it complained."""
    conf = folder / "client.conf"
    conf.write_text(f"brokerServiceUrl={service_url}\nwebServiceUrl={admin_url}\n")
    java = [str(find_java()), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{_LIB}/*"]
    done = subprocess.run(
        [*java, main, str(conf), *words], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()
