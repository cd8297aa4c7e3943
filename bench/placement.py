"""Placement against the number of brokers: ours beside Pulsar's own classes, one call each.

Every placement looks at every candidate, so its time decides how fast a restarted cluster's bundles
find their brokers. A view keeps what follows from it alone, so the first call on a new view is
timed apart; Java's figure is the same beside both, and holds the way into the JVM (about 3 us).
"""

import time
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from tests.conformance.jars import pulsar_lib
from tests.conformance.worker import Judge

from bench.figures import Figure
from counterpoise.decide.placement import PLACEMENTS, PlacementOptions
from counterpoise.load.view import ClusterView

STRATEGIES = (
    "LeastLongTermMessageRate",
    "LeastResourceUsageWithWeight",
    "RoundRobinBrokerSelector",
)
SIZES = (10, 100, 1000)
BUNDLE = "t/ns/0x00000000_0xffffffff"
ROUNDS = 200


def run(*, quick: bool, out: Path) -> list[Figure]:
    del out
    sizes = SIZES[:1] if quick else SIZES
    lines = {size: load_data(size) for size in sizes}
    theirs = time_java(lines)
    figures = []
    for name in STRATEGIES:
        for size, line in lines.items():
            java = theirs.get((name, size))
            for which, new_view in (("", False), (", new view", True)):
                figures.append(
                    Figure(
                        f"{name}, {size:,} brokers{which}",
                        time_ours(name, line, new_view=new_view) * 1e6,
                        "us",
                        anchor="Pulsar" if java is not None else "",
                        anchor_value=None if java is None else java * 1e6,
                    )
                )
    return figures


def load_data(brokers: int) -> dict[str, Any]:
    """A line of load data with this many brokers and one bundle to place."""
    rng = Random(1)
    average = {"msgThroughputIn": 1e5, "msgThroughputOut": 1e5, "msgRateIn": 100.0}
    average |= {"msgRateOut": 100.0, "maxSamples": 10, "numSamples": 10}
    data = {"shortTermData": average, "longTermData": average, "topics": 5}
    return {
        "now": 1_700_000_000_000,
        "brokerData": {f"broker-{i}:8080": _broker(rng) for i in range(brokers)},
        "bundleData": {BUNDLE: data},
        "recentlyUnloadedBundles": {},
    }


def _broker(rng: Random) -> dict[str, Any]:
    resources = ("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut")
    report: dict[str, Any] = {
        name: {"usage": rng.uniform(5, 80), "limit": 100.0} for name in resources
    }
    traffic = ("msgThroughputIn", "msgThroughputOut", "msgRateIn", "msgRateOut")
    report |= {name: rng.uniform(1e3, 1e5) for name in traffic}
    report |= {"bundles": [f"t/n/0x{rng.getrandbits(32):08x}_0xffffffff"], "numTopics": 10}
    averages = {
        f"{term}Msg{what}": rng.uniform(1e3, 1e5)
        for term in ("shortTerm", "longTerm")
        for what in ("ThroughputIn", "ThroughputOut", "RateIn", "RateOut")
    }
    return {"localData": report, "timeAverageData": averages, "preallocatedBundleData": {}}


def time_ours(name: str, line: dict[str, Any], *, new_view: bool) -> float:
    """Best seconds of a call on a view in memory: one asked before, or one never asked."""
    view = ClusterView.from_load_data(line)
    strategy = PLACEMENTS[name]
    candidates = tuple(line["brokerData"])
    memory, options, rng = strategy.initial_memory(), PlacementOptions(), Random(0)
    best = float("inf")
    for _ in range(ROUNDS):
        view = replace(view) if new_view else view
        started = time.perf_counter()
        placed = strategy.place(BUNDLE, candidates, view, memory, options, rng)
        best = min(best, time.perf_counter() - started)
        memory = placed.memory
    return best


def time_java(lines: dict[int, dict[str, Any]]) -> dict[tuple[str, int], float]:
    """Best seconds of a call of Pulsar's classes; empty without their jars."""
    lib = pulsar_lib()
    if lib is None:
        return {}
    keys = [(name, size) for name in STRATEGIES for size in lines]
    with Judge(lib) as judge:
        answers = judge.ask(
            [
                {
                    "op": "placement-time",
                    "strategy": name,
                    "loadData": lines[size],
                    "rounds": 10 * ROUNDS,
                }
                for name, size in keys
            ]
        )
    return {key: answer["seconds"] for key, answer in zip(keys, answers, strict=True)}
