"""Clusters in a few words, as ``LoadData`` JSON, and strategies run over them."""

from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

from counterpoise.decide.plan import StrategyPlan
from counterpoise.decide.shedding.registry import SHEDDERS
from counterpoise.load.average import BundleData, TimeAverageMessageData
from counterpoise.load.report import LocalBrokerData
from counterpoise.load.usage import ResourceUsage
from counterpoise.names.options import from_conf

MIB = 1024 * 1024

Line = dict[str, Any]


def bundle(
    rate: float = 0.0, throughput: float = 0.0, samples: int = 1, topics: int = 0
) -> dict[str, Any]:
    """A bundle with these messages/s and bytes/s each way, over both terms."""
    average = TimeAverageMessageData(10, samples, throughput, throughput, rate, rate)
    return BundleData(average, average, topics).to_json()


def broker(
    bundles: Iterable[str] = (),
    *,
    cpu: float = 0.0,
    bandwidth: float = 0.0,
    rate: float = 0.0,
    throughput: float = 0.0,
    **more: ResourceUsage,
) -> dict[str, Any]:
    """A broker with usages in percent, and messages/s and bytes/s each way."""
    local = LocalBrokerData(
        cpu=ResourceUsage(cpu, 100.0),
        bandwidth_in=ResourceUsage(bandwidth, 100.0),
        bandwidth_out=ResourceUsage(bandwidth, 100.0),
        bundles=tuple(bundles),
        msg_rate_in=rate,
        msg_rate_out=rate,
        msg_throughput_in=throughput,
        msg_throughput_out=throughput,
        **more,  # type: ignore[arg-type]
    )
    return {"localData": local.to_json(), "preallocatedBundleData": {}}


def line(
    brokers: Mapping[str, Any], bundles: Mapping[str, Any], recent: Iterable[str] = ()
) -> Line:
    """One line of load data."""
    return {
        "now": 1_700_000_000_000,
        "brokerData": dict(brokers),
        "bundleData": dict(bundles),
        "recentlyUnloadedBundles": dict.fromkeys(recent, 1),
    }


def run(strategy: str, lines: Iterable[Line], **settings: object) -> list[StrategyPlan[Any]]:
    """One strategy over lines in order, its memory handed on through JSON."""
    shedder = SHEDDERS.find(strategy)
    options = from_conf(shedder.options, {name: str(value) for name, value in settings.items()})
    memory, plans = shedder.initial_memory(), []
    for each in lines:
        view = shedder.view.from_load_data(each)
        plan = shedder.plan(view, memory, options, each["now"], Random(0))
        memory = shedder.memory_from_json(plan.memory.to_json())
        assert memory.to_json() == plan.memory.to_json()
        plans.append(plan)
    return plans


def plan(strategy: str, data: Line, **settings: object) -> StrategyPlan[Any]:
    """A fresh strategy's plan for one line."""
    return run(strategy, [data], **settings)[0]


def chosen(made: StrategyPlan[Any]) -> dict[str, list[str]]:
    """Bundles by broker, in the order they were chosen."""
    found: dict[str, list[str]] = {}
    for decision in made.decisions:
        found.setdefault(decision.source, []).append(decision.bundle)
    return found


def rules(made: StrategyPlan[Any]) -> dict[str, str]:
    """Rule by subject of every rejection."""
    return {rejection.subject: rejection.rule for rejection in made.rejections}
