"""Five brokers with their bundles, as TransferShedder is shown them, and what it is to answer."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from counterpoise.decide.plan import StrategyPlan
from counterpoise.decide.shedding.options import TransferOptions
from counterpoise.decide.shedding.transfer import TransferMemory, TransferShedder
from counterpoise.load.extensible import BrokerLoadData, TopBundlesLoadData
from counterpoise.load.report import LocalBrokerData, NamespaceBundleStats, SystemResourceUsage
from counterpoise.load.store_view import LoadStoreView
from counterpoise.load.topk import top_bundles
from counterpoise.load.usage import ResourceUsage

NOW = 1_700_000_000_000

M = 1e6

HALVES = ("0x00000000_0x0FFFFFFF", "0x0FFFFFFF_0xFFFFFFFF")

FIFTHS = (
    "0x00000000_0x1FFFFFFF",
    "0x1FFFFFFF_0x2FFFFFFF",
    "0x2FFFFFFF_0x3FFFFFFF",
    "0x3FFFFFFF_0x4FFFFFFF",
    "0x4FFFFFFF_0x5FFFFFFF",
)

# As in Pulsar's tests: act in the first call, count what comes back (debug mode).
OPTIONS = TransferOptions(hit_count_threshold=0, debug_mode=True)

OVERLOADED, UNDERLOADED = "Overloaded", "Underloaded"


def bundle_name(letter: str, index: int, ranges: Sequence[str] = HALVES) -> str:
    return f"my-tenant/my-namespace{letter}/{ranges[index]}"


A1, B1, C1, D1, E1 = (bundle_name(letter, 0) for letter in "ABCDE")

D2, E2 = bundle_name("D", 1), bundle_name("E", 1)


def top(letter: str, *loads: float) -> TopBundlesLoadData:
    ranges = FIFTHS if len(loads) > 2 else HALVES
    stats = {
        bundle_name(letter, i, ranges): NamespaceBundleStats(msg_throughput_out=load)
        for i, load in enumerate(loads)
    }
    return top_bundles(stats, 5)


def cpu_load(percent: float, bundles: TopBundlesLoadData | None) -> BrokerLoadData:
    """A broker's first measurement: its CPU, 1 byte/s in, and out what its bundles say."""
    out = sum(b.throughput for b in bundles.top_bundles_load_data) if bundles else 2.0
    report = LocalBrokerData().updated(
        SystemResourceUsage(cpu=ResourceUsage(percent, 100.0)),
        {"all": NamespaceBundleStats(3.0, 1.0, 4.0, out, topics=6)},
        NOW,
    )
    return BrokerLoadData().updated(
        replace(report, num_bundles=5),
        weights=np.array([1.0, 0.0, 0.0, 1.0, 1.0]),
        history=0.9,
        now_ms=NOW,
    )


FIVE_TOPS = {
    1: top("A", 1 * M, 2 * M),
    2: top("B", 1 * M, 3 * M),
    3: top("C", 2 * M, 4 * M),
    4: top("D", 2 * M, 6 * M),
    5: top("E", 2 * M, 7 * M),
}


def near(value: float) -> Any:
    """The same but for the last bits: Java sums in the order of a hash table, we by name."""
    return pytest.approx(value, rel=1e-12)


class Setup:
    """Five brokers as Pulsar's test sets them up, or any others; what a test changes, it names."""

    def __init__(
        self,
        cpus: Mapping[int, float] | None = None,
        tops: Mapping[int, TopBundlesLoadData] | None = None,
    ) -> None:
        self.tops = dict(FIVE_TOPS if tops is None else tops)
        cpus = {1: 2, 2: 4, 3: 6, 4: 80, 5: 90} if cpus is None else cpus
        self.loads: dict[int, BrokerLoadData] = {}
        for number, percent in cpus.items():
            self.cpu(number, percent)
        self.more: dict[str, Any] = {}

    def cpu(self, number: int, percent: float) -> None:
        self.loads[number] = cpu_load(percent, self.tops.get(number))

    def view(self) -> LoadStoreView:
        return LoadStoreView.of(
            NOW,
            {name(i): load for i, load in self.loads.items()},
            {name(i): bundles for i, bundles in self.tops.items()},
            **self.more,
        )

    def plan(self, options: TransferOptions = OPTIONS) -> StrategyPlan[TransferMemory]:
        return plan(self.view(), options)


def plan(
    view: LoadStoreView, options: TransferOptions = OPTIONS, hits: int = 0
) -> StrategyPlan[Any]:
    return TransferShedder().plan(view, TransferMemory(hits), options, NOW, Random(0))


def name(number: int) -> str:
    return f"broker{number}:8080"


Found = set[tuple[str, str, str | None, str]]


def found(made: StrategyPlan[Any]) -> Found:
    return {(d.source, d.bundle, d.destination, d.reason) for d in made.decisions}


def move(source: int, bundle: str, to: int | None, reason: str = OVERLOADED) -> Found:
    return {(name(source), bundle, None if to is None else name(to), reason)}


BASE = move(5, E1, 1) | move(4, D1, 2)


def stopped(made: StrategyPlan[Any]) -> list[str]:
    assert not made.decisions
    return [rejection.rule for rejection in made.rejections]
