"""`pulsar-perf produce`, Apache Pulsar's own load generator, as a measuring instrument.

A client in Java that publishes more than a million messages a second when batched, so that with it
too the broker is what is measured.
"""

import os
import re
import subprocess
import tempfile
import uuid
from pathlib import Path

from bench._ours import Ours
from bench._real_pulsar import RealPulsar, log_to_console
from counterpoise.app.clusters.java import find_java

TOOL = "org.apache.pulsar.testclient.PulsarPerfTestTool"
PENDING = {True: 20_000, False: 5_000}
"""Messages under way, batched or not: without a limit the client's own heap is what is measured."""
_TOTAL = re.compile(r"Aggregated throughput stats --- +\d+ records sent --- +([\d.]+) msg/s")


def available(lib: Path) -> bool:
    """Whether the tool is among Pulsar's jars."""
    return any(lib.glob("pulsar-testclient-*.jar"))


def produce(
    lib: Path, server: Ours | RealPulsar, *, batched: bool, seconds: int
) -> dict[str, float]:
    """Messages of 100 bytes a second, over about ``seconds``, the client's warming up included."""
    topic = f"persistent://public/default/perf-{uuid.uuid4().hex[:8]}"
    with tempfile.TemporaryDirectory(prefix="counterpoise-perf-") as text:
        folder = Path(text)
        # The figures are log lines.
        log_to_console(folder / "log4j2.properties", level="info")
        (folder / "client.conf").write_text(
            f"serviceUrl={server.service_url}\nbrokerServiceUrl={server.service_url}\n"
            f"webServiceUrl={server.admin_url}\n",
            encoding="utf-8",
        )
        done = subprocess.run(
            [
                *(str(find_java()), "-Xmx1g", "-Dlog4j.configurationFile=log4j2.properties"),
                *(TOOL, "client.conf", "produce", "-s", "100", "-r", "10000000", "-m", "0"),
                *("-time", str(seconds), "-i", "1", "-o", str(PENDING[batched])),
                *(() if batched else ("-db",)),
                topic,
            ],
            cwd=folder,
            env={**os.environ, "CLASSPATH": f"{lib}/*"},
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds + 60,
        )
    found = _TOTAL.search(done.stdout)
    if done.returncode or not found:
        raise SystemExit(f"pulsar-perf failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return {"messages_per_second": float(found[1])}
