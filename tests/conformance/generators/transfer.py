"""Sequences of lines for TransferShedder, the extensible manager's strategy (PIP-192)."""

import math
from random import Random
from typing import Any

from tests.conformance.generators.dress import dressed
from tests.conformance.generators.load_data import NOW
from tests.conformance.generators.settings import settings
from tests.conformance.generators.values import MODES, Names, Numbers

_MINUTE = 60_000


def transfer_case(rng: Random) -> dict[str, Any]:
    """One TransferShedder's life: settings and a few lines, each a little after the last."""
    mode = rng.choice(MODES)
    conf = settings(rng, "TransferShedder")
    world = _World(rng, Numbers(rng, mode), conf)
    lines = []
    for step in range(rng.choice((1, 2, 4, 5, 6, 9))):
        if step:
            world.step()
        lines.append(dressed(rng, world.line(NOW + _MINUTE * step)))
    return {"op": "transfer", "strategy": "TransferShedder", "mode": mode, "conf": conf} | {
        "lines": lines
    }


class _World:
    def __init__(self, rng: Random, numbers: Numbers, conf: dict[str, Any]) -> None:
        self._rng = rng
        self._numbers = numbers
        self._names = Names(rng)
        self._ttl = int(conf.get("loadBalancerBrokerLoadDataTTLInSeconds", 1800)) * 1000
        self._delay = int(conf.get("loadBalanceSheddingDelayInSeconds", 180)) * 1000
        self._throughput = 10 ** rng.uniform(2, 8)
        self._honest = rng.random() < 0.7
        self._ruled = rng.random() < 0.3
        self._brokers: dict[str, dict[str, Any]] = {}
        count = rng.choice((1, 2, 2, 3, 3, 4, 5, 5, 6, 8, 12))
        if rng.random() < 0.02:
            count = rng.choice((0, 40))
        for index in range(count):
            self._brokers[self._names.broker(index)] = self._broker()

    def step(self) -> None:
        rng = self._rng
        for name in sorted(self._brokers):
            if rng.random() < 0.5:
                self._brokers[name] = self._broker()

    def line(self, now: int) -> dict[str, Any]:
        rng = self._rng
        made: dict[str, Any] = {"now": now, "brokers": {}, "recentlyUnloadedBundles": {}}
        recent: dict[str, int] = {}
        troubled = rng.random() < 0.2
        for name, broker in self._brokers.items():
            load = dict(broker["load"])
            load["updatedAt"] = now - rng.randrange(10_000)
            if troubled and rng.random() < 0.3:  # two seconds off the limit: Java's clock moves on
                load["updatedAt"] = now - self._ttl - rng.choice((-2000, 2000, 500_000))
            if troubled and rng.random() < 0.3:
                recent[name] = load["updatedAt"] - self._delay - rng.choice((-1, 0, 1, 5000, -5000))
            entry: dict[str, Any] = {"brokerLoadData": load}
            if broker["top"] is not None:
                entry["topBundlesLoadData"] = {"topBundlesLoadData": broker["top"]}
                for bundle in broker["top"]:
                    if rng.random() < self._recent_share():
                        made["recentlyUnloadedBundles"][bundle["bundleName"]] = now - 1000
            made["brokers"][name] = entry
        made["recentlyUnloadedBrokers"] = recent
        return {**made, **self._rules_now()}

    def _rules_now(self) -> dict[str, Any]:
        """Who owns what, which bundles have policies, and which brokers the filters leave."""
        if not self._ruled:
            return {}
        rng = self._rng
        brokers = list(self._brokers)
        bundles = {
            bundle["bundleName"]: name
            for name, broker in self._brokers.items()
            for bundle in broker["top"] or ()
        }
        made: dict[str, Any] = {}
        if rng.random() < 0.5:
            made["owners"] = {b: o for b, o in bundles.items() if rng.random() < 0.85}
        made["bundlesWithPolicies"] = [b for b in bundles if rng.random() < 0.15]
        made["allowedBrokers"] = {
            bundle: rng.sample(brokers, rng.randint(0, len(brokers)))
            for bundle in bundles
            if rng.random() < 0.3
        }
        return made

    def _recent_share(self) -> float:
        return self._rng.choice((0.0, 0.0, 0.0, 0.1, 0.4))

    def _broker(self) -> dict[str, Any]:
        rng, numbers = self._rng, self._numbers
        top = self._top()
        total_in = sum(_finite(b["stats"]["msgThroughputIn"]) for b in top or ())
        total_out = sum(_finite(b["stats"]["msgThroughputOut"]) for b in top or ())
        if not self._honest and rng.random() < 0.4:
            total_in = numbers.amount(self._throughput * 5)
        weighted = numbers.percent() / 100.0
        if rng.random() < 0.4:
            weighted = rng.choice((0.05, 0.1, rng.uniform(0.0, 0.4)))
        load: dict[str, Any] = {
            resource: numbers.usage()
            for resource in ("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut")
        }
        load |= {
            "msgThroughputIn": total_in,
            "msgThroughputOut": total_out,
            "msgRateIn": numbers.amount(100.0),
            "msgRateOut": numbers.amount(100.0),
            "bundleCount": len(top or ()),
            "topics": rng.randrange(100),
            "maxResourceUsage": weighted,
            "weightedMaxEMA": weighted,
            "msgThroughputEMA": total_in + total_out
            if rng.random() < 0.8
            else numbers.amount(self._throughput),
            "reportedAt": NOW,
        }
        return {"load": load, "top": top}

    def _top(self) -> list[dict[str, Any]] | None:
        rng, numbers = self._rng, self._numbers
        if rng.random() < 0.05:
            return None
        count = rng.choice((0, 1, 2, 2, 3, 4, 6, 10))
        made: dict[str, dict[str, Any]] = {}
        for _ in range(count):
            name = self._names.bundle()
            if self._ruled and not 2 <= name.count("/") <= 3:
                continue  # with rules, Pulsar parses the namespace
            made[name] = {
                "msgRateIn": numbers.amount(10.0),
                "msgRateOut": numbers.amount(10.0),
                "msgThroughputIn": numbers.amount(self._throughput),
                "msgThroughputOut": numbers.amount(self._throughput),
                "consumerCount": rng.randrange(10),
                "producerCount": rng.randrange(10),
                "topics": rng.randrange(50),
                "cacheSize": 0,
            }
        top = [{"bundleName": name, "stats": stats} for name, stats in made.items()]
        if rng.random() < 0.8:  # as TopKBundles stores them; any order is possible all the same
            top.sort(key=lambda b: _finite(b["stats"]["msgThroughputIn"]))
        return top


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0
