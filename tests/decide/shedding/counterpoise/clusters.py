"""Clusters whose rounds are made one after the other, a minute apart, and their loads."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np

from counterpoise.decide.plan import StrategyPlan
from counterpoise.decide.shedding.registry import SHEDDERS
from counterpoise.load.rates import Floats, Rates
from counterpoise.load.store_view import BundleRules
from counterpoise.load.view import BrokerColumns, BundleColumns, ClusterView

MINUTE = 60_000
START = 1_700_000_000_000
SIZE = 1e9
COUNTERPOISE = SHEDDERS["Counterpoise"]

Load = Callable[[int], Floats]


@dataclass
class Cluster:
    """Brokers whose bundles carry bytes/s in; moves are carried out at once."""

    owners: list[int]
    load: Load
    brokers: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    rules: BundleRules = field(default_factory=BundleRules)
    memory: Any = field(default_factory=COUNTERPOISE.initial_memory)
    minute: int = 0
    gone: frozenset[int] = frozenset()
    moved: list[tuple[int, int]] = field(default_factory=list)
    """Minute and bundle of every move."""

    @property
    def names(self) -> list[str]:
        return [f"b{row:02}:8080" for row in range(self.brokers)]

    def crowd(self) -> None:
        """Put all on the first half of the brokers."""
        self.owners = [owner // 2 for owner in self.owners]

    def view(self) -> ClusterView:
        load = self.load(self.minute)
        there = [row for row in range(self.brokers) if row not in self.gone]
        place = {row: number for number, row in enumerate(there)}
        owners = np.array([place[owner] for owner in self.owners], np.intp)
        carried = np.bincount(owners, load, len(there)).astype(np.float64)
        nothing = np.zeros(len(there))
        usage = np.zeros((len(there), 5), np.float32)
        usage[:, 3] = 100.0 * carried / SIZE
        bundles = [f"t/ns/0x{row:08x}_0x{row + 1:08x}" for row in range(len(load))]
        sample = Rates(np.zeros(len(load)), np.zeros(len(load)), load, np.zeros(len(load)))
        return replace(
            ClusterView.from_columns(
                now_ms=START + self.minute * MINUTE,
                brokers=[self.names[row] for row in there],
                broker=BrokerColumns.of(
                    usage,
                    Rates(nothing, nothing, carried, nothing),
                    np.bincount(owners, minlength=len(there)),
                ),
                bundles=bundles,
                bundle=BundleColumns.of(bundles, sample, sample),
                reported=(owners, np.arange(len(load))),
            ),
            rules=self.rules,
        )

    def round(self) -> StrategyPlan[Any]:
        view = self.view()
        options = COUNTERPOISE.options(**self.settings)
        plan = COUNTERPOISE.plan(view, self.memory, options, view.now_ms, Random(0))
        for each in plan.decisions:
            row = view.bundle_index(each.bundle)
            assert row is not None
            self.owners[row] = self.names.index(each.destination or "")
            self.moved.append((self.minute, row))
        self.memory = COUNTERPOISE.memory_from_json(json.loads(json.dumps(plan.memory.to_json())))
        assert self.memory.to_json() == plan.memory.to_json()
        self.minute += 1
        return plan

    def rounds(self, count: int) -> StrategyPlan[Any]:
        """So many rounds, a minute apart; the plan of the last."""
        for _ in range(count):
            plan = self.round()
        return plan

    def ratio(self, minute: int = 0) -> float:
        carried = np.bincount(self.owners, self.load(minute), self.brokers)
        return float(carried.max() / carried.mean())


def with_rates(view: ClusterView, usage: Floats, of: Callable[[Rates], Rates]) -> ClusterView:
    """A view with other rates of its brokers and bundles, and another use of the brokers."""
    sample = of(view.bundle.short)
    broker = replace(view.broker, usage=usage, traffic=of(view.broker.traffic))
    return replace(view, broker=broker, bundle=replace(view.bundle, short=sample, long=sample))


@dataclass
class OneHost(Cluster):
    """Brokers that share a processor, half of it in use; each may report its own part of that."""

    each_its_own: bool = False

    @property
    def names(self) -> list[str]:
        return [f"b.example.com:{8080 + row}" for row in range(self.brokers)]

    def view(self) -> ClusterView:
        view = super().view()
        usage = np.zeros_like(view.broker.usage)
        usage[:, 0] = 50.0
        if self.each_its_own:
            carried = view.broker.traffic.throughput()
            usage[:, 0] *= (carried / carried.sum()).astype(np.float32)
        return with_rates(view, usage, lambda it: replace(it, rate_in=it.throughput_in / 1000))


def constant(loads: Floats, noise: float = 0.0) -> Load:
    def at(minute: int) -> Floats:
        rng = np.random.default_rng(minute)
        made: Floats = loads * (1 + rng.uniform(-noise, noise, len(loads)))
        return made

    return at


def changing(loads: Floats, factor: Callable[[int], float], bundle: int = 0) -> Load:
    """Loads of which that of one bundle is so many times as large, by the minute."""

    def at(minute: int) -> Floats:
        made = loads.copy()
        made[bundle] *= factor(minute)
        return made

    return at


def random_cluster(seed: int, *, noise: float = 0.0, brokers: int = 6, each: int = 15) -> Cluster:
    rng = np.random.default_rng(seed)
    loads = rng.lognormal(0, 0.7, brokers * each) * 1e7
    return Cluster(rng.integers(0, brokers, len(loads)).tolist(), constant(loads, noise), brokers)


@dataclass
class Unmeasured(Cluster):
    """Brokers that report no use of anything, and send on what they receive."""

    def view(self) -> ClusterView:
        view = super().view()
        usage = np.zeros_like(view.broker.usage)
        return with_rates(view, usage, lambda it: replace(it, throughput_out=it.throughput_in))


@dataclass
class Averaged(Cluster):
    """Brokers whose first report is a mean of several samples."""

    count: int = 1

    def view(self) -> ClusterView:
        view = super().view()
        samples = view.bundle.samples.copy()
        samples[:, :2] = 10, self.count
        return replace(view, bundle=replace(view.bundle, samples=samples))
