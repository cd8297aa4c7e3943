"""Placement against the number of brokers: ours beside Pulsar's own classes, one call each.

Every placement looks at every candidate, so its time decides how fast a restarted cluster's bundles
find their brokers. Each side starts from its own form of the load data in memory, tables by name
included: once about all brokers, as the view lists them (the usual question), once about nine in
ten of them in any order, and once when all are alike because no report has any traffic yet. Java's
figure holds the way into the JVM (1 to 3 us).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tests.conformance.jars import AVG_SHEDDER_VERSION, MAIN_VERSION, pulsar_lib
from tests.conformance.worker import Judge

from bench.figures import Figure
from counterpoise.decide.placement.least_resource_usage import place_by_store_usage
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.registry import PLACEMENTS
from counterpoise.load.view import ClusterView

MODULAR = {
    "LeastLongTermMessageRate": MAIN_VERSION,
    "LeastResourceUsageWithWeight": MAIN_VERSION,
    "RoundRobinBrokerSelector": MAIN_VERSION,
    "AvgShedder": AVG_SHEDDER_VERSION,
}
"""The modular manager's strategies, and which of Pulsar's versions has the class each is held to.

AvgShedder is timed on a bundle that it has placed before: its memory outlives a view.
"""
EXTENSIBLE = "extensible LeastResourceUsageWithWeight"
SIZES = (10, 100, 1000)
BUNDLE = "t/ns/0x00000000_0xffffffff"
ROUNDS = 2000


@dataclass(frozen=True)
class Question:
    """Load data, and who of its brokers may have the bundle."""

    strategy: str
    line: dict[str, Any]
    candidates: tuple[str, ...]
    what: str


def run(*, quick: bool, out: Path) -> list[Figure]:
    del out
    asked = [each for size in (SIZES[:1] if quick else SIZES) for each in questions(size)]
    asked.sort(key=lambda each: [*MODULAR, EXTENSIBLE].index(each.strategy))
    theirs = time_java(asked)
    return [
        Figure(
            f"{each.strategy}, {each.what}",
            time_ours(each) * 1e6,
            "us",
            anchor="Pulsar" if java is not None else "",
            anchor_value=None if java is None else java * 1e6,
        )
        for each, java in zip(asked, theirs, strict=True)
    ]


def questions(size: int) -> list[Question]:
    """What is asked of every strategy about this many brokers."""
    line, store = load_data(size), store_data(size)
    silent = load_data(size, traffic=0.0)
    everybody = tuple(sorted(line["brokerData"]))
    most = tuple(Random(2).sample(everybody, size * 9 // 10))
    what = f"{size:,} brokers"
    modular = [
        Question(name, data, candidates, f"{what}{which}")
        for name in MODULAR
        for data, candidates, which in (
            (line, everybody, ""),
            (line, most, ", nine in ten"),
            (silent, everybody, ", no traffic"),
        )
    ]
    return [
        *modular,
        Question(EXTENSIBLE, store, everybody, what),
        Question(EXTENSIBLE, store, most, f"{what}, nine in ten"),
    ]


def load_data(brokers: int, traffic: float = 1.0) -> dict[str, Any]:
    """A line of load data with this many brokers and one bundle to place; 0 is no traffic."""
    rng = Random(1)
    average = {"msgThroughputIn": 1e5, "msgThroughputOut": 1e5, "msgRateIn": 100.0}
    average |= {"msgRateOut": 100.0, "maxSamples": 10, "numSamples": 10}
    data = {"shortTermData": average, "longTermData": average, "topics": 5}
    return {
        "now": 1_700_000_000_000,
        "brokerData": {f"broker-{i}:8080": _broker(rng, traffic) for i in range(brokers)},
        "bundleData": {BUNDLE: data},
        "recentlyUnloadedBundles": {},
    }


def _broker(rng: Random, traffic: float) -> dict[str, Any]:
    resources = ("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut")
    report: dict[str, Any] = {
        name: {"usage": rng.uniform(5, 80), "limit": 100.0} for name in resources
    }
    rates = ("msgThroughputIn", "msgThroughputOut", "msgRateIn", "msgRateOut")
    report |= {name: traffic * rng.uniform(1e3, 1e5) for name in rates}
    report |= {"bundles": [f"t/n/0x{rng.getrandbits(32):08x}_0xffffffff"], "numTopics": 10}
    averages = {
        f"{term}Msg{what}": traffic * rng.uniform(1e3, 1e5)
        for term in ("shortTerm", "longTerm")
        for what in ("ThroughputIn", "ThroughputOut", "RateIn", "RateOut")
    }
    return {"localData": report, "timeAverageData": averages, "preallocatedBundleData": {}}


def store_data(brokers: int) -> dict[str, Any]:
    """What this many brokers publish under the extensible manager, as far as placement reads it."""
    rng = Random(1)
    return {
        "brokers": {
            f"broker-{i}:8080": {"brokerLoadData": {"weightedMaxEMA": rng.uniform(0.05, 0.8)}}
            for i in range(brokers)
        }
    }


def time_ours(asked: Question) -> float:
    """Best seconds of a call on what is in memory."""
    return time_store(asked) if asked.strategy == EXTENSIBLE else time_view(asked)


def time_store(asked: Question) -> float:
    """Best seconds over the table of published usage."""
    usage = {
        name: records["brokerLoadData"]["weightedMaxEMA"]
        for name, records in asked.line["brokers"].items()
    }
    options, rng = PlacementOptions(), Random(0)

    def place() -> float:
        started = time.perf_counter()
        place_by_store_usage(asked.candidates, usage, options, rng)
        return time.perf_counter() - started

    return _best(place)


def time_view(asked: Question) -> float:
    """Best seconds on a view."""
    view = ClusterView.from_load_data(asked.line)
    strategy = PLACEMENTS[asked.strategy]
    memory, options, rng = strategy.initial_memory(), PlacementOptions(), Random(0)

    def place() -> float:
        nonlocal memory
        started = time.perf_counter()
        placed = strategy.place(BUNDLE, asked.candidates, view, memory, options, rng)
        seconds = time.perf_counter() - started
        memory = placed.memory
        return seconds

    return _best(place)


def _best(timed: Callable[[], float]) -> float:
    return min(timed() for _ in range(ROUNDS))


def time_java(asked: list[Question]) -> list[float | None]:
    """Best seconds of a call of Pulsar's classes on each; None without their jars."""
    versions = [MODULAR.get(each.strategy, MAIN_VERSION) for each in asked]
    theirs: dict[int, float] = {}
    for version in sorted(set(versions)):
        places = [i for i, each in enumerate(versions) if each == version]
        theirs |= zip(places, _time_version(version, [asked[i] for i in places]), strict=False)
    return [theirs.get(i) for i in range(len(asked))]


def _time_version(version: str, asked: list[Question]) -> list[float]:
    lib = pulsar_lib(version)
    if lib is None:
        return []
    with Judge(lib) as judge:
        answers = judge.ask(
            [
                {
                    "op": "placement-time",
                    "strategy": each.strategy,
                    "loadData": each.line,
                    "candidates": each.candidates,
                    "rounds": ROUNDS,
                }
                for each in asked
            ]
        )
    return [float(answer["seconds"]) for answer in answers]
