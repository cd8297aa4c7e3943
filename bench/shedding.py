"""Shedding against size: ours beside Pulsar's own classes, each from its own form in memory.

Those classes are 4.0.7's, but for AvgShedder 4.2.4's: the older one throws on large clusters.
"""

import gc
import subprocess
import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import repeat
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from tests.conformance.jars import AVG_SHEDDER_VERSION, MAIN_VERSION, pulsar_lib

from bench._shedding_clusters import cluster, load_stores
from bench.figures import Figure
from counterpoise.app.clusters.java import find_java
from counterpoise.broker.load.change import MINUTE_MS
from counterpoise.decide.plan import StrategyPlan
from counterpoise.decide.shedding.registry import SHEDDERS
from counterpoise.load.store_view import LoadStoreView

MODULAR = ("OverloadShedder", "ThresholdShedder", "UniformLoadShedder", "AvgShedder")
OURS = "Counterpoise"
SHEDDERS_TIMED = (*MODULAR, "TransferShedder")
SQUARE = ("OverloadShedder", "ThresholdShedder")
"""Strategies whose Java class goes through all bundles for each broker."""
BIG = (1000, 100)
MILLION = (1000, 1000)
TRANSFER_ROUNDS = 500
"""As many as Java's TransferShedder has."""
TIMER = Path(__file__).parent / "java" / "SheddingTime.java"

Size = tuple[int, int]


class Timed(NamedTuple):
    """Best milliseconds of one call, and how many bundles it chose."""

    milliseconds: float
    chosen: int


Times = dict[tuple[str, Size, int], Timed]


def run(*, quick: bool, out: Path) -> list[Figure]:
    compared = [(20, 20), (100, 20)] if quick else [(10, 100), (100, 100), BIG]
    alone = [] if quick else [(1000, 10), MILLION]
    theirs = time_java(MAIN_VERSION, [n for n in SHEDDERS_TIMED if n != "AvgShedder"], compared)
    theirs |= time_java(AVG_SHEDDER_VERSION, ["AvgShedder"], compared)
    ours: Times = {}
    for size in [*compared, *alone]:
        ours |= time_ours(size, rounds=3 if quick else 15)
    for key, java in theirs.items():
        assert ours[key].chosen == java.chosen, (key, ours[key], java)
    if not quick:
        plot(ours, theirs, out / "shedding.png")
    return [*_beside(ours, theirs), *_growth(ours)]


def time_ours(size: Size, rounds: int) -> Times:
    """Every strategy on a cluster of this size; the second call of those that wait for one."""
    times: Times = {}
    view = cluster(*size)
    for name in (*MODULAR, OURS):
        shedder: Any = SHEDDERS[name]
        options = shedder.options(low_hits=2) if name == "AvgShedder" else shedder.options()
        memory = shedder.initial_memory()
        for call in (1, 2) if name in ("AvgShedder", OURS) else (1,):
            best, made = _best(
                partial(shedder.plan, view, memory, options, MINUTE_MS * call, Random(0))
                for _ in range(rounds)
            )
            times[name, size, call] = Timed(best * 1000, len(made.decisions))
            memory = made.memory
    return times | time_transfer(size[0], rounds)


def time_transfer(brokers: int, rounds: int) -> Times:
    """TransferShedder on the load stores: seen before, and new."""
    shedder: Any = SHEDDERS["TransferShedder"]
    options = shedder.options(hit_count_threshold=0)
    memory, rng = shedder.initial_memory(), Random(0)

    def call(view: LoadStoreView) -> StrategyPlan[Any]:
        made: StrategyPlan[Any] = shedder.plan(view, memory, options, 0, rng)
        return made

    ways: dict[str, Iterable[Callable[[], StrategyPlan[Any]]]] = {
        "": repeat(partial(call, load_stores(brokers)), TRANSFER_ROUNDS),
        " on new data": (partial(call, load_stores(brokers)) for _ in range(rounds)),
    }
    times: Times = {}
    for way, calls in ways.items():
        best, made = _best(calls)
        times["TransferShedder" + way, (brokers, 10), 1] = Timed(best * 1000, len(made.decisions))
    return times


def _best(calls: Iterable[Callable[[], StrategyPlan[Any]]]) -> tuple[float, StrategyPlan[Any]]:
    """Best seconds of a call, and its answer.

    Making what it is called with, and dropping the answer before, are not part of it.
    """
    best, made = float("inf"), None
    gc.collect()
    for call in calls:
        made = None
        began = time.perf_counter()
        made = call()
        best = min(best, time.perf_counter() - began)
    assert made is not None
    return best, made


def time_java(version: str, names: Iterable[str], sizes: Iterable[Size]) -> Times:
    """Pulsar's classes on the same clusters, in a Java process of their own; empty without jars."""
    lib = pulsar_lib(version)
    if lib is None:
        return {}
    command = [
        str(find_java()),
        "-Xmx4g",
        "-Dlog4j2.contextSelector=org.apache.logging.log4j.core.selector.BasicContextSelector",
        "-cp",
        f"{lib}/*",
        str(TIMER),
        ",".join(names),
        *(f"{brokers}x{each}" for brokers, each in sizes),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=1800)
    times: Times = {}
    for line in done.stdout.splitlines():
        name, brokers, each, call, best, chosen = line.split()
        key = (name, (int(brokers), int(each)), int(call))
        times[key] = Timed(float(best), int(chosen))
    return times


def _beside(ours: Times, theirs: Times) -> list[Figure]:
    figures = []
    for key, mine in ours.items():
        name, (brokers, each), call = key
        java = theirs.get(key)
        bar, holds = "", None
        if java is not None and name in SQUARE and (brokers, each) == BIG:
            bar, holds = "<= 1/500", mine.milliseconds <= java.milliseconds / 500
        elif java is not None and name not in SQUARE and brokers >= 100:
            bar, holds = "<= 1", mine.milliseconds <= java.milliseconds
        elif (brokers, each) == MILLION:
            bar, holds = "<= 1,000 ms", mine.milliseconds <= 1000
        label = f"{name}, {brokers:,} x {each:,}" + (", 2nd call" if call == 2 else "")
        figures.append(
            Figure(
                label,
                mine.milliseconds,
                "ms",
                anchor="Pulsar" if java else "",
                anchor_value=java.milliseconds if java else None,
                bar=bar,
                holds=holds,
                note=f"{mine.chosen} bundles chosen",
            )
        )
    return figures


def _growth(ours: Times) -> list[Figure]:
    figures = []
    for name in SQUARE:
        small, large = ours.get((name, BIG, 1)), ours.get((name, MILLION, 1))
        if small and large:
            times = large.milliseconds / small.milliseconds
            figures.append(
                Figure(f"{name}: 10 times the bundles", times, "x", bar="<= 12", holds=times <= 12)
            )
    return figures


def plot(ours: Times, theirs: Times, path: Path) -> None:
    """Time against the number of bundles, both sides, as a picture."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 5))
    for color, name in zip(("C0", "C1", "C2", "C3"), MODULAR, strict=True):
        call = 2 if name == "AvgShedder" else 1
        for times, style, who in ((ours, "o-", "Counterpoise"), (theirs, "x--", "Pulsar")):
            points = sorted(
                (size[0] * size[1], timed.milliseconds)
                for (which, size, number), timed in times.items()
                if (which, number) == (name, call)
            )
            if points:
                axes.plot(*zip(*points, strict=True), style, color=color, label=f"{name}, {who}")
    axes.set(xscale="log", yscale="log", xlabel="bundles", ylabel="ms a call")
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend(fontsize="small")
    figure.savefig(path, dpi=120, bbox_inches="tight")
    plt.close(figure)
