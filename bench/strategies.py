"""How even each strategy keeps a cluster, and with how many moves: families, seeds, sizes.

Every strategy of Pulsar's places as Pulsar's own leader does with its own placement, at its
defaults and at each setting of a small grid. Results are appended to a file as they come, and what
is in it is not played again, unless it is ours and our strategy's code has changed: stop it and
start it as often as you like.
"""

import argparse
import hashlib
import itertools
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bench.figures import Figure
from counterpoise.app.strategies import as_pulsar, strategy_from
from counterpoise.decide.balancing.round import Strategy
from counterpoise.decide.shedding import counterpoise as our_code
from counterpoise.names.properties import Properties
from counterpoise.pipeline.backtest.simulate import BacktestCandidate, simulate
from counterpoise.pipeline.backtest.synthetic import KINDS, SyntheticTrace

OURS = "Counterpoise"
GRIDS: Mapping[str, tuple[str, Mapping[str, tuple[str, ...]]]] = {
    "OverloadShedder": (
        "LeastLongTermMessageRate",
        {"loadBalancerBrokerOverloadedThresholdPercentage": ("85", "70", "55")},
    ),
    "ThresholdShedder": (
        "LeastLongTermMessageRate",
        {
            "loadBalancerBrokerThresholdShedderPercentage": ("10", "5"),
            "loadBalancerHistoryResourcePercentage": ("0.9", "0.5"),
            "lowerBoundarySheddingEnabled": ("false", "true"),
        },
    ),
    "UniformLoadShedder": (
        "LeastLongTermMessageRate",
        {
            "loadBalancerMsgRateDifferenceShedderThreshold": ("50", "20"),
            "maxUnloadPercentage": ("0.2", "0.5"),
        },
    ),
    "AvgShedder": (
        "AvgShedder",
        {
            "loadBalancerAvgShedderLowThreshold": ("15", "5"),
            "loadBalancerAvgShedderHitCountLowThreshold": ("8", "3"),
            "maxUnloadPercentage": ("0.2", "0.5"),
        },
    ),
    "TransferShedder": (
        "LeastResourceUsageWithWeight",
        {
            "loadBalancerBrokerLoadTargetStd": ("0.25", "0.1", "0.05"),
            "loadBalancerSheddingConditionHitCountThreshold": ("3", "1"),
        },
    ),
}
SIZES: Mapping[int, int] = {10: 200, 30: 600, 100: 2000}
"""Bundles by brokers."""


@dataclass(frozen=True)
class Play:
    """One strategy with its settings on one trace."""

    strategy: str
    settings: tuple[tuple[str, str], ...]
    trace: SyntheticTrace

    @property
    def key(self) -> str:
        """What it is found by among the results."""
        words = " ".join(f"{name}={value}" for name, value in self.settings)
        version = version_of_ours() if self.strategy == OURS else ""
        return f"{self.strategy}{version} {words} | {self.trace.name}"

    def made(self) -> Strategy:
        """The strategy."""
        conf = Properties(dict(self.settings))
        if self.strategy in GRIDS:
            placement = GRIDS[self.strategy][0]
            return as_pulsar(conf, shedder=self.strategy, placement=placement)
        return strategy_from(conf, shedder=self.strategy)


@cache
def version_of_ours() -> str:
    """A word that changes with the code of our strategy."""
    files = sorted(Path(our_code.__path__[0]).glob("*.py"))
    whole = b"".join(path.read_bytes() for path in files)
    return f"@{hashlib.sha256(whole).hexdigest()[:8]}"


def plays(
    kinds: list[str], sizes: list[int], seeds: int, hours: float, *, grid: bool
) -> Iterator[Play]:
    """Seed by seed, so that whatever is done when time is up has seen every family."""
    for seed, size, kind in itertools.product(range(1, seeds + 1), sizes, kinds):
        trace = SyntheticTrace(kind, seed, size, SIZES[size], hours)
        yield Play(OURS, (), trace)
        for name, (_, settings) in GRIDS.items():
            for values in itertools.product(*(settings.values() if grid else ())):
                yield Play(name, tuple(zip(settings, values, strict=False)), trace)


def played(play: Play) -> dict[str, Any]:
    """The figures of a play."""
    began = time.perf_counter()
    result = simulate(
        BacktestCandidate(play.strategy, play.made()),
        play.trace,
        0,
        play.trace.steps,
        move_s=1.0,
        seed=1,
    )
    return {
        "key": play.key,
        "strategy": play.strategy,
        "settings": dict(play.settings),
        "kind": play.trace.kind,
        "brokers": play.trace.count_of_brokers,
        "seed": play.trace.seed,
        "took": time.perf_counter() - began,
        **result.to_json(),
    }


def read(path: Path) -> dict[str, dict[str, Any]]:
    """What was played before, by key."""
    if not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {row["key"]: row for row in rows}


def play_all(
    wanted: Iterator[Play], path: Path, seconds: float, processes: int = 1
) -> dict[str, dict[str, Any]]:
    """Play what is missing until time is up; returns all results there are of ``wanted``."""
    done, ends = read(path), time.monotonic() + seconds
    asked = {play.key: play for play in wanted}
    missing = [play for key, play in asked.items() if key not in done]
    with path.open("a", encoding="utf-8") as file, ProcessPoolExecutor(processes) as pool:
        # A few at a time, so that little is left to finish once time is up.
        for first in range(0, len(missing), 2 * processes):
            if time.monotonic() > ends:
                break
            for row in pool.map(played, missing[first : first + 2 * processes]):
                done[row["key"]] = row
                file.write(json.dumps(row) + "\n")
            file.flush()
    return {key: done[key] for key in asked if key in done}


def mean(rows: list[dict[str, Any]], name: str) -> float:
    """The mean of a figure."""
    return sum(float(row[name]) for row in rows) / len(rows)


def compared(found: Mapping[str, dict[str, Any]]) -> list[tuple[Any, ...]]:
    """By family and size: ours, and the best of Pulsar's at its best setting, over all seeds."""
    groups: dict[tuple[str, int], dict[str, list[dict[str, Any]]]] = {}
    for row in found.values():
        values = ",".join(f"{value}" for value in row["settings"].values())
        mine = groups.setdefault((row["kind"], row["brokers"]), {})
        mine.setdefault(f"{row['strategy']} {values}".strip(), []).append(row)
    table = []
    for (kind, brokers), by in groups.items():
        ours = by.pop(OURS, None)
        if not ours or not by:
            continue
        seeds = {row["seed"] for row in ours}
        whole = {name: rows for name, rows in by.items() if {r["seed"] for r in rows} == seeds}
        if not whole:
            continue
        best = min(whole, key=lambda name: mean(whole[name], "imbalance"))
        table.append(
            (
                kind, brokers, len(seeds),
                mean(ours, "imbalance"), mean(ours, "moves"), mean(ours, "thrash"),
                best, mean(whole[best], "imbalance"), mean(whole[best], "moves"),
            )
        )  # fmt: skip
    return table


def write(table: list[tuple[Any, ...]]) -> str:
    """The comparison as lines of text; a star where both goals of a family are reached."""
    lines = []
    for kind, brokers, seeds, ours, moves, thrash, best, theirs, their_moves in sorted(table):
        even, few = ours - 1 <= 1.05 * (theirs - 1), moves <= their_moves / 2
        lines.append(
            f"{'*' if even and few else ' '} {kind:16} {brokers:4} {seeds:3} seeds  "
            f"{ours:.3f} {moves:7.1f} thrash {thrash:5.1f}   "
            f"{theirs:.3f} {their_moves:7.1f}  {best}"
        )
    return "\n".join(lines)


def run(*, quick: bool, out: Path) -> list[Figure]:
    """The bench as `python -m bench` runs it: one seed of ten brokers; quick: an hour of it."""
    wanted = plays([*KINDS], [10], 1, 1.0 if quick else 8.0, grid=not quick)
    table = compared(play_all(wanted, out / "strategies.jsonl", 20.0 if quick else 600.0))
    print(write(table))
    return [
        Figure(f"{kind}: imbalance above 1, ours ÷ the best of Pulsar's",
               (ours - 1) / max(theirs - 1, 1e-9), "", note=f"{moves:.0f} moves, {best} {less:.0f}")
        for kind, _, _, ours, moves, _, best, theirs, less in table
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--sizes", default="10")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--hours", type=float, default=8.0)
    parser.add_argument("--grid", action="store_true")
    parser.add_argument("--seconds", type=float, default=500.0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("artifacts/strategies.jsonl"))
    args = parser.parse_args()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    os.nice(15)
    sizes = [int(size) for size in args.sizes.split(",")]
    wanted = plays(args.kinds.split(","), sizes, args.seeds, args.hours, grid=args.grid)
    found = play_all(wanted, args.out, args.seconds, args.processes)
    sys.stdout.write(write(compared(found)) + "\n")


if __name__ == "__main__":
    main()
