"""How long until an embedded cluster of three brokers acknowledged its first message.

Each round is a process of its own, because what a test run feels is a cold one: the clock starts
at the call of ``counterpoise.Cluster(brokers=3)`` and stops at the first receipt, client included.
Bytecode is there, as pip leaves it: without it a process compiles the package's sources first. What
a first test costs is the time of a pytest run with it, less that of one whose test does nothing. A
hundred tests, each with a client and a message, are one run: on one cluster with a namespace each,
and with a cluster each.
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
MANY = 100
MANY_BARS_S = {"namespaces": 10.0, "clusters": 15.0}
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
MANY_TESTS = {
    "namespaces": (
        "pulsar_cluster_session, pulsar_namespace",
        "pulsar_cluster_session",
        "f'{pulsar_namespace}/first'",
    ),
    "clusters": ("pulsar_cluster", "pulsar_cluster", "'first'"),
}
"""Fixtures of a test, the one that is the cluster, and its topic."""
TEST = """
import pulsar, pytest

@pytest.mark.parametrize("number", range({many}))
def test_one(number, {fixtures}):
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client({cluster}.service_url, logger=logger)
    client.create_producer({topic}).send(b"x")
    client.close()
"""
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
        if not quick:
            environment["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
        for name, text in TESTS.items():
            (folder / f"test_{name}.py").write_text(text)
        # The first of several writes the bytecode.
        rounds = [_round(folder, environment) for _ in range(1 if quick else 10)][-9:]
        many = {
            name: _many(folder, environment, name, 10 if quick else MANY) for name in MANY_TESTS
        }
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
        *(
            Figure(
                f"embedded: {MANY} tests, {name} of their own",
                took,
                "s",
                bar=f"<= {MANY_BARS_S[name]:g} s",
                holds=took <= MANY_BARS_S[name],
                note="ten of them, times ten" if quick else "the whole run of pytest",
            )
            for name, took in many.items()
        ),
    ]


def _many(folder: Path, environment: dict[str, str], name: str, tests: int) -> float:
    """Seconds of a run of pytest with so many tests, for `MANY` of them."""
    fixtures, cluster, topic = MANY_TESTS[name]
    text = TEST.format(many=tests, fixtures=fixtures, cluster=cluster, topic=topic)
    (folder / f"test_{name}.py").write_text(text)
    began = time.perf_counter()
    _pytest(folder, environment, f"test_{name}.py")
    return (time.perf_counter() - began) * MANY / tests


def _pytest(folder: Path, environment: dict[str, str], file: str) -> None:
    options = ["-q", "-p", "no:cacheprovider", "-c", os.devnull]
    _process(folder, environment, "-m", "pytest", *options, file)


def _process(folder: Path, environment: dict[str, str], *words: str) -> str:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout


def _round(folder: Path, environment: dict[str, str]) -> dict[str, float]:
    found: dict[str, float] = json.loads(_process(folder, environment, "-c", ROUND))
    took = {}
    for name in TESTS:
        began = time.perf_counter()
        _pytest(folder, environment, f"test_{name}.py")
        took[name] = time.perf_counter() - began
    return {**found, "empty test": took["empty"], "first test": took["first"] - took["empty"]}
