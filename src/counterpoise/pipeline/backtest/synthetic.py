"""Synthetic loads from a seed: the shapes of real clusters, and ones that are hard to balance."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

import numpy as np

from counterpoise.load.rates import Floats, Indices, Rates
from counterpoise.load.view import Integers, Masks
from counterpoise.pipeline.backtest.topic_shares import TopicShares
from counterpoise.pipeline.backtest.trace import Hosts

KINDS = {
    "diurnal": "each bundle swings through the day, at hours of its own",
    "heavy-tailed": "a few bundles carry most of the load",
    "bursty": "bundles that are quiet for hours carry ten times their load for minutes",
    "scale-out": "a third of the brokers join, empty, after a third of the time",
    "rolling-restart": "brokers leave for three minutes each, one after the other",
    "hot-bundle": "one bundle grows until it carries half of what a broker carries",
    "heterogeneous": "a quarter of the brokers are half as large",
    "constant": "each bundle's load is constant, but for noise of 25 % either way",
    "giant-bundle": "one bundle carries more than a broker's share, many hardly anything",
    "outliers": "brokers are even, but for one in thirty that carries far more (P#20059)",
    "even-counts": "all brokers have as many bundles, a fifth of them the hot ones (P#8492)",
    "dominated": "three bundles carry more than a broker each, the others wander for hours",
    "closed-loop": "one bundle carries 1.387 times the mean broker's load, the others wander",
    "system-topics": "a tenth of the bundles is a system namespace's: no traffic, one broker",
}
NOISY = "constant"
DOMINANT = {"dominated": (1.387, 1.2, 1.05), "closed-loop": (1.387,)}
"""The load of each of the largest bundles, as a part of the mean broker's load, by kind of load."""
WANDERS = 0.2
"""The amplitude of each of the three sine waves in the logarithm of a bundle's load."""
SYSTEM_NAMESPACE = "pulsar/system"
START_MS = 1_735_689_600_000
"""When every synthetic trace begins: 2025-01-01, chosen arbitrarily."""
MINUTES_AWAY = 3


@dataclass(frozen=True)
class SyntheticTrace:
    """A generated load trace of one of `KINDS`, determined by its parameters and seed."""

    kind: str
    seed: int = 1
    count_of_brokers: int = 100
    count_of_bundles: int = 10_000
    hours: float = 24.0
    step_ms: int = 60_000
    usage: float = 0.35
    """The part of its network that a broker uses on average."""
    bytes_most: float = 1.25e9
    start_ms: int = field(default=START_MS)

    def open(self) -> "SyntheticTrace":
        """Return this object, which is the trace itself."""
        return self

    @property
    def name(self) -> str:
        """The text by which an operator names it on the command line, with its parameters."""
        return (
            f"synthetic:{self.kind},brokers={self.count_of_brokers},"
            f"bundles={self.count_of_bundles},hours={self.hours:g},seed={self.seed}"
        )

    @property
    def steps(self) -> int:
        """The number of steps, each with one report of every broker."""
        return round(self.hours * 3_600_000 / self.step_ms)

    @property
    def brokers(self) -> tuple[str, ...]:
        """The names of all brokers, sorted."""
        width = len(str(self.count_of_brokers - 1))
        return tuple(f"broker-{i:0{width}d}:8080" for i in range(self.count_of_brokers))

    @property
    def bundles(self) -> tuple[str, ...]:
        """The names of all bundles, sorted."""
        system = self.count_of_bundles // 10 if self.kind == "system-topics" else 0
        named = _bundle_names(SYSTEM_NAMESPACE, system) if system else ()
        return named + _bundle_names("tenant/ns", self.count_of_bundles - system)

    @property
    def topics(self) -> Integers:
        """The number of topics of each bundle: 10."""
        return np.full(self.count_of_bundles, 10, np.int64)

    @property
    def owners(self) -> Indices:
        """The broker of each bundle at the start: a random one of those present then."""
        there = np.flatnonzero(self.up(0))
        rng = np.random.default_rng((self.seed, 2))
        owners: Indices = rng.permutation(np.resize(there, self.count_of_bundles)).astype(np.intp)
        base = _made(self).base
        if self.kind == "even-counts":
            # Swap bundles until the hottest tenth is on the first fifth of the brokers.
            few = max(1, len(there) // 5)
            hot = np.argsort(-base, kind="stable")[: self.count_of_bundles // 10]
            others = np.setdiff1d(np.flatnonzero(owners < few), hot)[: len(hot)]
            away = hot[owners[hot] >= few][: len(others)]
            here = np.setdiff1d(others, hot)[: len(away)]
            owners[away[: len(here)]], owners[here] = owners[here], owners[away[: len(here)]]
        if self.kind == "outliers":
            owners = _evenly(base, there)
            few = max(1, len(there) // 30)
            given = rng.permutation(np.flatnonzero(owners >= few))
            share = base.sum() / len(there)
            taken = given[np.cumsum(base[given]) < 1.2 * share * few]
            owners[taken] = np.resize(there[:few], len(taken))
        if self.kind == "system-topics":
            owners[: self.count_of_bundles // 10] = there[0]
        return owners

    @property
    def hosts(self) -> Hosts:
        """Hosts of equal capacity; in the kind `heterogeneous` every fourth has half of it."""
        size = np.full(self.count_of_brokers, self.bytes_most)
        if self.kind == "heterogeneous":
            size[::4] /= 2
        return Hosts(size, np.full(len(size), 5.0), 60.0 / (size / 1000.0))

    def loads(self, step: int) -> Rates:
        """The load of each bundle at a step: bytes as the kind prescribes, in messages of 1,000
        bytes that are each read once.
        """
        made = _made(self)
        minute = step * self.step_ms / 60_000
        factor = made.noise(self.seed, step, 0.25 if self.kind == NOISY else 0.1)
        if self.kind in ("diurnal", "rolling-restart", "scale-out", "heterogeneous"):
            swing = 0.8 if self.kind == "diurnal" else 0.2
            factor = factor * (1 + swing * np.sin(2 * np.pi * (minute / 1440 + made.phase)))
        if self.kind == "bursty":
            # Each bundle bursts for ten minutes, at times of its own, twice a day on average.
            turn = np.floor(minute / 10)
            hits = np.modf(made.phase * 1e4 + turn * made.stride)[0]
            factor = factor * np.where(hits < 1 / 72, 10.0, 0.9)
        if self.kind in DOMINANT:
            factor = factor * made.wandering(minute)
        through = made.base * factor
        if self.kind == "hot-bundle":
            share = 0.5 * made.base.sum() / self.count_of_brokers
            through[made.hottest] = share * min(1.0, (step + 1) / max(1, self.steps) * 3)
        messages = through / 1000.0
        return Rates(messages, messages, through, through)

    def measured(self, step: int) -> Masks | None:
        """Return None: all brokers measure at each step."""
        return None

    def moved(self, step: int) -> Sequence[tuple[int, int, int]]:
        """Return no moves: a synthetic trace has no recorded ones."""
        return ()

    def topic_shares(self, bundles: Collection[str]) -> Mapping[str, TopicShares]:
        """Return an empty mapping: the topics of a synthetic trace have no names."""
        return {}

    def up(self, step: int) -> Masks:
        """The brokers present at a step: all, except in kinds in which brokers join and leave."""
        there = np.ones(self.count_of_brokers, np.bool_)
        if self.kind == "scale-out" and step < self.steps // 3:
            there[self.count_of_brokers * 2 // 3 :] = False
        if self.kind == "rolling-restart":
            away = max(1, MINUTES_AWAY * 60_000 // self.step_ms)
            turn = step // away - 1
            if 0 <= turn < self.count_of_brokers:
                there[turn] = False
        return there


class _Made:
    """The random values from which a synthetic trace is computed; made once per process."""

    def __init__(self, trace: SyntheticTrace) -> None:
        rng = np.random.default_rng((trace.seed, 1))
        count = trace.count_of_bundles
        sigma = {"heavy-tailed": 2.0, "dominated": 1.5, "closed-loop": 1.2}.get(trace.kind, 0.7)
        weight = rng.lognormal(0.0, sigma, count)
        if trace.kind == "giant-bundle":
            weight = rng.permutation(1.0 / np.arange(1, count + 1))
        if trace.kind == "system-topics":
            weight[: count // 10] = 0.0
        # In most kinds no bundle carries more than a third of a broker's share: brokers with
        # larger ones could not be made even.
        if trace.kind == "giant-bundle":
            weight[weight.argmax()] = 0.0
            weight[weight.argmin()] = 1.4 * weight.sum() / (trace.count_of_brokers - 1.4)
        elif trace.kind in DOMINANT:
            # The largest bundles carry fixed parts of the mean broker's load, so the largest part
            # is the least possible largest ÷ mean.
            shares = DOMINANT[trace.kind]
            few = rng.choice(count, len(shares), replace=False)
            weight[few] = 0.0
            weight *= (trace.count_of_brokers - sum(shares)) / weight.sum()
            weight[few] = shares
        else:
            weight = np.minimum(weight, weight.sum() / trace.count_of_brokers / 3)
        total = trace.usage * trace.bytes_most * trace.count_of_brokers
        self.base: Floats = weight / weight.sum() * total
        self.phase: Floats = rng.random(count)
        self.stride: Floats = rng.random(count)
        self.period: Floats = rng.uniform(90.0, 480.0, (3, count))
        self.start: Floats = rng.random((3, count))
        self.small: Masks = weight < weight.sum() / trace.count_of_brokers
        self.hottest = int(np.argsort(weight)[count // 2])

    def wandering(self, minute: float) -> Floats:
        """Each bundle's load ÷ its mean at a minute: three slow waves; 1 for dominant bundles."""
        waves = np.sin(2 * np.pi * (minute / self.period + self.start)).sum(axis=0)
        found: Floats = np.exp(WANDERS * waves * self.small)
        rest = self.base[self.small]
        found[self.small] *= rest.sum() / (rest * found[self.small]).sum()
        return found

    def noise(self, seed: int, step: int, size: float) -> Floats:
        rng = np.random.default_rng((seed, 3, step))
        if size == 0.1:
            return 1 + size * rng.standard_normal(len(self.base)).clip(-3, 3)
        return 1 + rng.uniform(-size, size, len(self.base))


def _evenly(base: Floats, brokers: Indices) -> Indices:
    """Assign bundles to brokers by Graham's rule: the largest bundle first, each to the least
    loaded broker.
    """
    carried = np.zeros(len(brokers))
    owners = np.zeros(len(base), np.intp)
    for row in np.argsort(-base, kind="stable").tolist():
        least = int(carried.argmin())
        owners[row] = brokers[least]
        carried[least] += base[row]
    return owners


@lru_cache(maxsize=4)
def _made(trace: SyntheticTrace) -> _Made:
    return _Made(trace)


@lru_cache(maxsize=4)
def _bundle_names(namespace: str, count: int) -> tuple[str, ...]:
    width = -(-(2**32) // count)
    bounds = [min(i * width, 2**32 - 1) for i in range(count + 1)]
    return tuple(f"{namespace}/0x{low:08x}_0x{high:08x}" for low, high in pairwise(bounds))
