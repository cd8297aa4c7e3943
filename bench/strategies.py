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
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bench.figures import Figure
from counterpoise.app.strategies import as_pulsar, strategy_from
from counterpoise.decide.balancing.round import BalancingStrategy
from counterpoise.decide.shedding import counterpoise as our_code
from counterpoise.names.properties import Properties
from counterpoise.pipeline.backtest.optimum.floor import windows_of
from counterpoise.pipeline.backtest.optimum.players import PRICES, frontier
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
USAGE: Mapping[str, float] = {"closed-loop": 0.45}
"""By family: the part of its network that a broker uses; so much lets OverloadShedder act, too."""
PLAYER = "player"
"""Local search that sees past loads alone, at one of its prices (`optimum/players.py`)."""
FLOOR = "floor"
"""What no assignment beats at an instant."""


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

    def made(self) -> BalancingStrategy:
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


def settings_of(name: str) -> list[tuple[tuple[str, str], ...]]:
    """Every setting of a strategy's grid, its defaults first."""
    if name == PLAYER:
        return [(("price", str(price)),) for price in PRICES]
    grid = GRIDS[name][1] if name in GRIDS else {}
    return [tuple(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def plays(
    kinds: Sequence[str],
    sizes: Sequence[int],
    seeds: Sequence[int],
    hours: float,
    chosen: Mapping[tuple[str, int, str], Collection[tuple[tuple[str, str], ...]]] | None,
    names: Sequence[str] = (OURS, FLOOR, *GRIDS),
) -> Iterator[Play]:
    """Seed by seed, so that whatever is done when time is up has seen every family.

    Of the grids all settings, or those ``chosen`` by family, size and strategy, and the defaults.
    """
    for seed, size, kind in itertools.product(seeds, sizes, kinds):
        usage = USAGE.get(kind, SyntheticTrace.usage)
        trace = SyntheticTrace(kind, seed, size, SIZES[size], hours, usage=usage)
        for name in names:
            defaults, *others = settings_of(name)
            yield Play(name, defaults, trace)
            for settings in others:
                if chosen is None or settings in chosen.get((kind, size, name), ()):
                    yield Play(name, settings, trace)


def played(play: Play) -> dict[str, Any]:
    """The figures of a play."""
    began = time.process_time()
    figures = figures_of(play)
    return {
        "key": play.key,
        "strategy": play.strategy,
        "settings": dict(play.settings),
        "kind": play.trace.kind,
        "brokers": play.trace.count_of_brokers,
        "seed": play.trace.seed,
        "took": time.process_time() - began,
        **figures,
    }


def figures_of(play: Play) -> dict[str, Any]:
    """How even it was, with how many moves; and what else a backtest measures."""
    if play.strategy == FLOOR:
        return {"imbalance": float(windows_of(play.trace, 16).least.mean()), "moves": 0}
    if play.strategy == PLAYER:
        price = float(dict(play.settings)["price"])
        [point] = frontier(play.trace, foresees=False, prices=[price])
        return {"imbalance": point.imbalance, "moves": point.moves, "moved": point.moved}
    made = BacktestCandidate(play.strategy, play.made())
    return simulate(made, play.trace, 0, play.trace.steps, move_s=1.0, seed=1).to_json()


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


@dataclass(frozen=True)
class Line:
    """A family at a size over its seeds: means of imbalance and moves."""

    kind: str
    brokers: int
    seeds: int
    ours: tuple[float, float]
    floor: float
    player: tuple[float, float] | None
    """The player's price that is evenest with no more moves than ours, else of fewest moves."""
    defaults: tuple[str, float, float]
    """The evenest of Pulsar's at its defaults."""
    best: tuple[str, float, float]
    """The evenest of Pulsar's at the setting that is evenest over these seeds."""

    def holds(self, theirs: tuple[str, float, float]) -> str:
        """``e`` where ours is as even as 1.05 times the other, ``f`` with half of its moves."""
        even = self.ours[0] - 1 <= 1.05 * (theirs[1] - 1)
        return ("e" if even else "-") + ("f" if self.ours[1] <= theirs[2] / 2 else "-")


def compared(found: Mapping[str, dict[str, Any]]) -> list[Line]:
    """By family and size: ours beside the best of Pulsar's, over the seeds that all were played."""
    groups: dict[tuple[str, int], dict[tuple[str, str], dict[int, dict[str, Any]]]] = {}
    for row in found.values():
        values = ",".join(row["settings"].values())
        mine = groups.setdefault((row["kind"], row["brokers"]), {})
        mine.setdefault((row["strategy"], values), {})[row["seed"]] = row
    table = []
    for (kind, brokers), by in groups.items():
        first = {name: ",".join(v for _, v in settings_of(name)[0]) for name in GRIDS}
        needed = [(OURS, ""), (FLOOR, ""), *first.items()]
        if not all(each in by for each in needed):
            continue
        seeds = set.intersection(*(set(by[each]) for each in needed))
        means = {
            each: (
                mean([rows[seed] for seed in seeds], "imbalance"),
                mean([rows[seed] for seed in seeds], "moves"),
            )
            for each, rows in by.items()
            if seeds and seeds <= set(rows)
        }
        if not seeds:
            continue
        ours = means[(OURS, "")]
        players = [found for (name, _), found in means.items() if name == PLAYER]
        as_few = [each for each in players if each[1] <= ours[1]]
        pulsars = {" ".join(key): each for key, each in means.items() if key[0] in GRIDS}
        at_first = {name: pulsars[" ".join((name, values))] for name, values in first.items()}
        best, plain = (min(each, key=lambda name: each[name][0]) for each in (pulsars, at_first))
        table.append(
            Line(
                kind,
                brokers,
                len(seeds),
                ours,
                means[(FLOOR, "")][0],
                min(as_few or players, key=lambda each: each[not as_few], default=None),
                (plain, *at_first[plain]),
                (best, *pulsars[best]),
            )
        )
    return table


def evenest(
    found: Mapping[str, dict[str, Any]],
) -> dict[tuple[str, int, str], list[tuple[tuple[str, str], ...]]]:
    """By family, size and strategy: the two settings that were evenest over all that was played."""
    by: dict[tuple[str, int, str], dict[tuple[tuple[str, str], ...], list[dict[str, Any]]]] = {}
    for row in found.values():
        key = row["kind"], row["brokers"], row["strategy"]
        by.setdefault(key, {}).setdefault(tuple(row["settings"].items()), []).append(row)
    evenest = {}
    for key, rows in by.items():
        imbalance = {settings: mean(played, "imbalance") for settings, played in rows.items()}
        evenest[key] = sorted(imbalance, key=imbalance.__getitem__)[:2]
    return evenest


def write(table: list[Line]) -> str:
    """The comparison as lines of text."""
    lines = []
    for line in sorted(table, key=lambda each: (each.brokers, each.kind)):
        player = f"{line.player[0]:.3f} {line.player[1]:6.1f}" if line.player else " " * 12
        rivals = "  ".join(
            f"{line.holds(each)} {each[1]:.3f} {each[2]:6.1f} {each[0]}"
            for each in (line.defaults, line.best)
        )
        lines.append(
            f"{line.kind:16} {line.brokers:4} {line.seeds:3} seeds  {line.ours[0]:.3f} "
            f"{line.ours[1]:6.1f}  floor {line.floor:.3f}  player {player}  {rivals}"
        )
    return "\n".join(lines)


def run(*, quick: bool, out: Path) -> list[Figure]:
    """The bench as `python -m bench` runs it: one seed of ten brokers; quick: an hour of it."""
    wanted = plays([*KINDS], [10], [1], 1.0 if quick else 8.0, {} if quick else None)
    table = compared(play_all(wanted, out / "strategies.jsonl", 20.0 if quick else 600.0))
    print(write(table))
    return [
        Figure(
            f"{line.kind}: imbalance above 1, ours ÷ the best of Pulsar's",
            (line.ours[0] - 1) / max(line.best[1] - 1, 1e-9),
            "",
            note=f"{line.ours[1]:.0f} moves, {line.best[0]} {line.best[2]:.0f}",
        )
        for line in table
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--sizes", default="10")
    parser.add_argument("--seeds", default="1-3", help="the first and the last")
    parser.add_argument("--hours", type=float, default=8.0)
    parser.add_argument("--names", default=",".join((OURS, FLOOR, *GRIDS)))
    parser.add_argument(
        "--settings",
        choices=("default", "evenest", "all"),
        default="default",
        help="of Pulsar's grids: evenest: those that were evenest over all in the file",
    )
    parser.add_argument("--seconds", type=float, default=500.0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("artifacts/strategies.jsonl"))
    args = parser.parse_args()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    sizes = [int(size) for size in args.sizes.split(",")]
    first, last = (int(seed) for seed in args.seeds.split("-"))
    chosen = {"default": {}, "all": None, "evenest": evenest(read(args.out))}[args.settings]
    wanted = plays(
        args.kinds.split(","),
        sizes,
        range(first, last + 1),
        args.hours,
        chosen,
        args.names.split(","),
    )
    play_all(wanted, args.out, args.seconds, args.processes)
    version = version_of_ours()
    found = {
        key: row
        for key, row in read(args.out).items()
        if row["strategy"] != OURS or key.startswith(OURS + version)
    }
    sys.stdout.write(write(compared(found)) + "\n")


if __name__ == "__main__":
    main()
