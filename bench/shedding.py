"""Shedding against size: ours beside Pulsar's own classes, each from its own form in memory.

Those classes are 4.0.7's, but for AvgShedder 4.2.4's: the older one throws on large clusters.
"""

import gc
import subprocess
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from tests.conformance.jars import AVG_SHEDDER_VERSION, MAIN_VERSION, pulsar_lib

from bench._shedding_clusters import cluster, load_stores
from bench.figures import Figure
from counterpoise.app.java import find_java
from counterpoise.decide.shedding import SHEDDERS

MODULAR = ("OverloadShedder", "ThresholdShedder", "UniformLoadShedder", "AvgShedder")
SHEDDERS_TIMED = (*MODULAR, "TransferShedder")
SQUARE = ("OverloadShedder", "ThresholdShedder")
"""Strategies whose Java class goes through all bundles for each broker."""
BIG = (1000, 100)
MILLION = (1000, 1000)
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
    views: dict[str, Any] = dict.fromkeys(MODULAR, cluster(*size))
    views["TransferShedder"] = load_stores(size[0])
    for name, view in views.items():
        shedder = SHEDDERS[name]
        settings: dict[str, Any] = {"AvgShedder": {"low_hits": 2}}.get(name, {})
        if name == "TransferShedder":
            settings["hit_count_threshold"] = 0
        options = shedder.options(**settings)
        key_size = size if name in MODULAR else (size[0], 10)
        memory = shedder.initial_memory()
        for call in (1, 2) if name == "AvgShedder" else (1,):
            best, made = _best(partial(shedder.plan, view, memory, options, 0), rounds)
            times[name, key_size, call] = Timed(best * 1000, len(made.decisions))
            memory = made.memory
    return times


def _best(plan: Callable[[Random], Any], rounds: int) -> tuple[float, Any]:
    """Best seconds of one call, and its answer; making the generator is not part of the call."""
    best, made = float("inf"), None
    gc.collect()
    for _ in range(rounds):
        rng = Random(0)
        began = time.perf_counter()
        made = plan(rng)
        best = min(best, time.perf_counter() - began)
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
