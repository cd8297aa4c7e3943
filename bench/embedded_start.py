"""How long until an embedded cluster of three brokers acknowledged its first message.

Each round is a process of its own, because what a test run feels is a cold one: the clock starts
at the call of ``counterpoise.Cluster(brokers=3)`` and stops at the first receipt, client included.
"""

import json
import statistics
import subprocess
import sys
from pathlib import Path

from bench.figures import Figure

BAR_S = 0.5
ROUND = """
import json, time
imports = time.perf_counter()
import counterpoise, pulsar
Cluster = counterpoise.Cluster
called = time.perf_counter()
with Cluster(brokers=3) as cluster:
    ready = time.perf_counter()
    client = pulsar.Client(
        cluster.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    )
    client.create_producer("first").send(b"x")
    acknowledged = time.perf_counter()
    client.close()
stopped = time.perf_counter()
print(json.dumps({
    "imports": called - imports, "ready": ready - called,
    "acknowledged": acknowledged - called, "all": acknowledged - imports,
}))
"""


def run(*, quick: bool, out: Path) -> list[Figure]:
    """Median of several cold processes."""
    rounds = [_round() for _ in range(3 if quick else 9)]
    (out / "embedded_start.json").write_text(json.dumps(rounds, indent=1))

    def median(what: str) -> float:
        return statistics.median(each[what] for each in rounds)

    first = median("acknowledged")
    return [
        Figure(
            "embedded: first acknowledged message after the call",
            first,
            "s",
            bar=f"<= {BAR_S} s",
            holds=first <= BAR_S,
            note="three brokers, official client, cold process",
        ),
        Figure("embedded: ready after the call", median("ready"), "s"),
        Figure("embedded: imports before the call", median("imports"), "s"),
        Figure("embedded: first message after the interpreter started on it", median("all"), "s"),
    ]


def _round() -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", ROUND], capture_output=True, text=True, check=True, timeout=120
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found
