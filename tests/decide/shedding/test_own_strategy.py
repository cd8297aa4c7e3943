"""A strategy of one's own, whole: what Pulsar's old abstract DeviationShedder was for.

Any class with these members is a strategy: the command line, the balancer and the backtest take it
by the name ``module:Class``.
"""

from collections.abc import Collection
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pytest

from counterpoise.decide.memory import NoMemory
from counterpoise.decide.plan import Decision, DecisionKind, Rejection, StrategyPlan
from counterpoise.decide.shedding.registry import SHEDDERS
from counterpoise.decide.shedding.strategy import Shedder
from counterpoise.load.view import ClusterView
from counterpoise.names.options import ConfigError, option
from tests.decide.shedding.clusters import broker, bundle, line, plan


@dataclass(frozen=True, slots=True)
class DeviationOptions:
    """One setting, with everything that `--set`, `doctor` and the documents need to know of it."""

    deviations: float = option(
        1.0, conf="deviationThreshold", low=0.0, why="how far above the mean a broker may be"
    )


class DeviationShedder:
    """The broker furthest above the mean gives its busiest movable bundle to the idlest one."""

    name = "DeviationShedder"
    options = DeviationOptions
    view = ClusterView

    def initial_memory(self) -> NoMemory:
        return NoMemory()

    def memory_from_json(self, value: Any) -> NoMemory:
        return NoMemory()

    def forget(self, memory: NoMemory, active: Collection[str]) -> NoMemory:
        return memory

    def plan(
        self,
        view: ClusterView,
        memory: NoMemory,
        options: DeviationOptions,
        now_ms: int,
        rng: Random,
    ) -> StrategyPlan[NoMemory]:
        rates = view.broker.traffic.rate()
        top, low = int(rates.argmax()), int(rates.argmin())
        above = float((rates[top] - rates.mean()) / (rates.std() or 1.0))
        rows, _ = view.candidates(np.array([top]))
        if above <= options.deviations or not len(rows):
            why = "{subject} is {value:.2f} deviations above the mean, {setting} allows {limit:g}"
            rejection = Rejection(
                view.brokers[top], "even", above, options.deviations, "deviationThreshold", why
            )
            return StrategyPlan((), (rejection,), memory)
        busiest = rows[view.bundle.short.rate(rows).argmax()]
        decision = Decision(
            DecisionKind.TRANSFER,
            view.bundles[busiest],
            view.brokers[top],
            view.brokers[low],
            "Deviation",
            "{source} is {above:.2f} deviations above the mean; {bundle} goes to {destination}",
            {"above": above},
        )
        return StrategyPlan((decision,), (), memory)


class Unready(DeviationShedder):
    """One that cannot be made."""

    def __init__(self) -> None:
        raise ZeroDivisionError("not today")


class Plain(DeviationShedder):
    """One whose options are none."""

    options = dict  # type: ignore[assignment]


class Blind:
    """One that does not say what it reads."""

    name = DeviationShedder.name
    options = DeviationShedder.options
    initial_memory = DeviationShedder.initial_memory
    memory_from_json = DeviationShedder.memory_from_json
    forget = DeviationShedder.forget
    plan = DeviationShedder.plan


NAME = "tests.decide.shedding.test_own_strategy:DeviationShedder"


def test_it_is_found_by_module_and_class_and_decides() -> None:
    assert isinstance(SHEDDERS.find(NAME), Shedder)
    names = ["t/n/a", "t/n/b"]
    data = line(
        {"b:1": broker(names, rate=900), "b:2": broker(rate=1), "b:3": broker(rate=2)},
        {"t/n/a": bundle(rate=100), "t/n/b": bundle(rate=800)},
    )
    made = plan(NAME, data)
    assert [(d.bundle, d.source, d.destination) for d in made.decisions] == [
        ("t/n/b", "b:1", "b:2")
    ]
    assert made.decisions[0].sentence.startswith("b:1 is 1.41 deviations above the mean; t/n/b")
    refused = plan(NAME, data, deviationThreshold=2)
    assert refused.rejections[0].sentence.endswith("deviationThreshold allows 2")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Thresholdshedder", "no strategy is called 'Thresholdshedder'; there are Overload"),
        ("nowhere:Class", "cannot be loaded: ModuleNotFoundError: No module named 'nowhere'"),
        ("tests.decide.shedding.clusters:Nothing", "cannot be loaded"),
        (
            "random:Random",
            "'random:Random' is not a Shedder: it lacks forget, initial_memory, memory_from_json, "
            "name, options, plan, view",
        ),
        ("tests.decide.shedding.test_own_strategy:Blind", "is not a Shedder: it lacks view"),
        ("", "no strategy is called ''"),
        (":x", "':x' is not module:Class"),
        ("random:", "'random:' is not module:Class"),
        (".clusters:Line", "cannot be loaded: TypeError"),
        ("tests.decide.shedding.test_own_strategy:Unready", "cannot be loaded: ZeroDivisionError"),
        ("tests.decide.shedding.test_own_strategy:Plain", "its options are no dataclass"),
    ],
)
def test_what_is_no_strategy_is_refused_by_name(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match="loadBalancerLoadSheddingStrategy") as error:
        SHEDDERS.find(name)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "name",
    [
        "org.apache.pulsar.broker.loadbalance.impl.OverloadShedder",
        "org.apache.pulsar.broker.loadbalance.impl.ThresholdShedder",
        "org.apache.pulsar.broker.loadbalance.impl.UniformLoadShedder",
        "org.apache.pulsar.broker.loadbalance.impl.AvgShedder",
        "org.apache.pulsar.broker.loadbalance.extensions.scheduler.TransferShedder",
    ],
)
def test_pulsars_class_names_are_understood(name: str) -> None:
    assert SHEDDERS.find(name).name == name.rpartition(".")[2]
