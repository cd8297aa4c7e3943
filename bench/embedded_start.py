"""How long until an embedded cluster of three brokers acknowledged its first message.

Each round is a process of its own, because what a test run feels is a cold one: the clock starts
at the call of ``counterpoise.Cluster(brokers=3)`` and stops at the first receipt, client included.
Bytecode is there, as pip leaves it: without it a process compiles the package's sources first. What
a first test costs is the time of a pytest run with it, less that of one whose test does nothing.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.figures import Figure

BAR_S, FIRST_TEST_BAR_S = 0.5, 0.6
TESTS = {
    "empty": "def test_nothing():\n    pass\n",
    "first": """
import pulsar

def test_first(pulsar_cluster):
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(pulsar_cluster.service_url, logger=logger)
    client.create_producer("first").send(b"x")
    client.close()
""",
}
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
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        without = ("PYTHONDONTWRITEBYTECODE",)
        environment = {key: value for key, value in os.environ.items() if key not in without}
        environment["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
        for name, text in TESTS.items():
            (folder / f"test_{name}.py").write_text(text)
        # The first writes the bytecode.
        rounds = [_round(folder, environment) for _ in range(4 if quick else 10)][1:]
    (out / "embedded_start.json").write_text(json.dumps(rounds, indent=1))

    def median(what: str) -> float:
        return statistics.median(each[what] for each in rounds)

    first, in_pytest = median("acknowledged"), median("first test")
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
        Figure(
            "embedded: a first test, above a run of pytest whose test does nothing",
            in_pytest,
            "s",
            bar=f"<= {FIRST_TEST_BAR_S} s",
            holds=in_pytest <= FIRST_TEST_BAR_S,
            note="`pulsar_cluster` of three brokers, a message by the official client; "
            f"that run of pytest takes {median('empty test'):.2f} s",
        ),
    ]


def _round(folder: Path, environment: dict[str, str]) -> dict[str, float]:
    def process(*words: str) -> str:
        command = [sys.executable, *words]
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        return done.stdout

    found: dict[str, float] = json.loads(process("-c", ROUND))
    took = {}
    for name in TESTS:
        began = time.perf_counter()
        process("-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, f"test_{name}.py")
        took[name] = time.perf_counter() - began
    return {
        **found,
        "empty test": took["empty"],
        "first test": took["first"] - took["empty"],
    }
