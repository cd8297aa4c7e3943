"""Sequences of LoadData lines for the modular manager's strategies."""

import copy
import math
from random import Random
from typing import Any

from tests.conformance.generators.dress import dressed
from tests.conformance.generators.settings import settings
from tests.conformance.generators.values import MODES, Names, Numbers

Line = dict[str, Any]
NOW = 1_700_000_000_000
_RESOURCES = ("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut")


def shedding_case(rng: Random, strategy: str) -> dict[str, Any]:
    """One strategy instance's life: settings and a few lines, each a little after the last."""
    mode = rng.choice(MODES)
    conf = settings(rng, strategy)
    length = rng.choice((1, 1, 2, 3, 5, 9, 20)) if strategy != "OverloadShedder" else 1
    world = LoadDataWorld(rng, Numbers(rng, mode))
    lines = []
    for step in range(length):
        if step:
            world.step()
        lines.append(dressed(rng, world.line(NOW + 60_000 * step)))
    return {"op": "shed", "strategy": strategy, "mode": mode, "conf": conf, "lines": lines}


class LoadDataWorld:
    """Brokers and bundles that change from line to line."""

    def __init__(self, rng: Random, numbers: Numbers, *, placement: bool = False) -> None:
        self._rng = rng
        self._numbers = numbers
        self._names = Names(rng)
        self._placement = placement
        roll = rng.random()
        count = rng.choice((1, 2, 2, 3, 3, 4, 5, 6, 8, 10, 13))
        if roll < 0.02:
            count = 0
        elif roll > 0.97:
            count = rng.choice((rng.randrange(14, 60), rng.randrange(60, 250)))
        self._per_broker = rng.choice((0, 1, 2, 3, 5, 8, 12))
        if roll > 0.995:
            self._per_broker = rng.randrange(300, 1500)
            count = min(count, 3)
        elif roll > 0.97:
            self._per_broker = min(self._per_broker, 5)
        self._throughput = 10 ** rng.uniform(3, 8)
        self._rate = 10 ** rng.uniform(0.5, 4.5)
        self._hot = rng.random() < 0.6
        self._loads: dict[str, dict[str, Any]] = {}
        self._averages: dict[str, dict[str, Any]] = {}
        self._next = 0
        for _ in range(count):
            self._join()

    def step(self) -> None:
        rng = self._rng
        if rng.random() < 0.1 and self._loads:
            del self._loads[rng.choice(sorted(self._loads))]
        if rng.random() < 0.1:
            self._join()
        for name in sorted(self._loads):
            if rng.random() < 0.5:
                self._report(name, self._loads[name]["bundles"])
        for name in sorted(self._averages):
            if rng.random() < 0.2:
                self._averages[name] = self._bundle_data()
            elif rng.random() < 0.02:
                del self._averages[name]

    def line(self, now: int) -> Line:
        rng = self._rng
        recent = {
            bundle: now - rng.randrange(60_000)
            for bundle in sorted(self._averages)
            if rng.random() < self._recent_share()
        }
        order = sorted(self._loads)
        rng.shuffle(order)
        gone = {"activeBrokers": sorted(self._loads)} if rng.random() < 0.1 else {}
        return {
            **gone,
            "now": now,
            "brokerData": {
                name: {"localData": self._loads[name], **self._leader_knows()} for name in order
            },
            "bundleData": dict(self._averages),
            "recentlyUnloadedBundles": recent,
        }

    def _leader_knows(self) -> dict[str, Any]:
        """What the leader adds to a broker's own report; only placement reads it."""
        rng, amount = self._rng, self._numbers.amount
        averages = {}
        preallocated = {}
        if self._placement or rng.random() < 0.05:
            averages = {
                f"{term}Msg{kind}{way}": amount(self._rate * 10)
                for term in ("shortTerm", "longTerm")
                for kind in ("Throughput", "Rate")
                for way in ("In", "Out")
            }
            count = rng.choice((0, 0, 1, 3))
            preallocated = {self._names.bundle(): self._bundle_data() for _ in range(count)}
        return {"timeAverageData": averages, "preallocatedBundleData": preallocated}

    def _recent_share(self) -> float:
        return self._rng.choice((0.0, 0.0, 0.1, 0.5))

    def _join(self) -> None:
        rng = self._rng
        name = self._names.broker(self._next)
        self._next += 1
        few = rng.random() < 0.2
        count = rng.randrange(3) if few else rng.randint(0, 2 * self._per_broker)
        bundles = sorted({self._names.bundle() for _ in range(count)})
        rng.shuffle(bundles)
        for bundle in bundles:
            if rng.random() < 0.95:
                self._averages[bundle] = self._bundle_data()
        if rng.random() < 0.1:
            self._averages[self._names.bundle()] = self._bundle_data()
        if rng.random() < 0.1 and self._averages:
            bundles = [*bundles, rng.choice(sorted(self._averages))]
        self._report(name, list(dict.fromkeys(bundles)))

    def _report(self, name: str, bundles: list[str]) -> None:
        rng, numbers = self._rng, self._numbers
        report: dict[str, Any] = {resource: numbers.usage() for resource in _RESOURCES}
        if self._hot and rng.random() < 0.7:  # mostly calm, so that one hot broker stands out
            for resource in _RESOURCES:
                report[resource] = numbers.usage(rng.choice((10.0, 20.0, rng.uniform(5, 40))))
        sums = self._sums(bundles)
        honest = rng.random() < 0.7
        for field, total in sums.items():
            scale = self._throughput if "Throughput" in field else self._rate
            report[field] = total if honest else numbers.amount(scale * max(len(bundles), 1))
        report["bundles"] = bundles
        report["numBundles"] = len(bundles)
        report["numTopics"] = rng.randrange(1000)
        report["lastUpdate"] = NOW
        report["webServiceUrl"] = f"http://{name}"
        self._loads[name] = report

    def _sums(self, bundles: list[str]) -> dict[str, float]:
        out = {}
        for field in ("msgThroughputIn", "msgThroughputOut", "msgRateIn", "msgRateOut"):
            values = [
                self._averages[b]["shortTermData"][field] for b in bundles if b in self._averages
            ]
            out[field] = sum(value for value in values if not math.isnan(value))
        return out

    def _bundle_data(self) -> dict[str, Any]:
        """A bundle's averages; now and then those of another, equal but for a count or not at all.

        AvgShedder knows bundles by their averages, the number of samples among them.
        """
        rng = self._rng
        if self._averages and rng.random() < 0.15:
            twin: dict[str, Any] = copy.deepcopy(self._averages[rng.choice(sorted(self._averages))])
            if rng.random() < 0.5:
                twin[rng.choice(("shortTermData", "longTermData"))]["numSamples"] += 1
            return twin
        return {
            "shortTermData": self._average(10),
            "longTermData": self._average(1000),
            "topics": self._rng.randrange(100),
        }

    def _average(self, samples: int) -> dict[str, Any]:
        amount = self._numbers.amount
        return {
            "maxSamples": samples,
            "numSamples": self._rng.randint(0, samples),
            "msgThroughputIn": amount(self._throughput),
            "msgThroughputOut": amount(self._throughput),
            "msgRateIn": amount(self._rate),
            "msgRateOut": amount(self._rate),
        }
