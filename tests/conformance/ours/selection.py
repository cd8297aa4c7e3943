"""Our filters on a case, in the order of the modular manager."""

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

from counterpoise.decide.filters.anti_affinity import may_unload, namespaces_in_group
from counterpoise.decide.filters.facts import BrokerFacts
from counterpoise.decide.filters.isolation import IsolationPolicy, isolate
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.selection import Chooser, Surroundings, select_modular
from counterpoise.decide.placement.strategy import Placement
from counterpoise.load.view import ClusterView
from counterpoise.names.options import from_conf
from tests.conformance.ours.shedding import conf_text
from tests.conformance.suite import Answer, Case


class Recorder:
    """A placement strategy that notes its candidates and takes the first by name."""

    name = "recorder"

    def __init__(self) -> None:
        self.seen: list[list[str]] = []

    def place(
        self,
        bundle: str,
        candidates: Sequence[str],
        view: ClusterView,
        memory: None,
        options: PlacementOptions,
        rng: Random | None = None,
    ) -> Placement[None]:
        del bundle, view, memory, options, rng
        names = sorted(candidates)
        self.seen.append(names)
        return Placement(names[0] if names else None, tuple(names), "", "", None)


def select(case: Case) -> Answer:
    conf = conf_text(case["conf"])
    namespace = case["bundle"].rpartition("/")[0]
    brokers = sorted(case["loadData"]["brokerData"])
    facts = {name: _facts(case["loadData"]["brokerData"][name]) for name in brokers}
    group = case["groups"].get(namespace, "").strip() or None
    counts = None
    if group is not None:
        serves = {
            broker: Counter(bundle.rpartition("/")[0] for bundle in bundles)
            for broker, bundles in case["owned"].items()
        }
        counts = namespaces_in_group(group, serves, case["groups"])
    policies = {name: IsolationPolicy.from_json(value) for name, value in case["policies"].items()}
    around = Surroundings(
        brokers,
        facts,
        policies,
        Counter(
            broker
            for broker, bundles in case["owned"].items()
            for bundle in bundles
            if bundle.rpartition("/")[0] == namespace
        ),
        counts,
        case["domains"],
        persistent=case["persistent"],
    )
    recorder: Any = Recorder()
    view = ClusterView.from_load_data(case["loadData"])
    chooser = Chooser(recorder, view, from_conf(PlacementOptions, conf))
    selection = select_modular(
        case["bundle"], around, chooser, None, from_conf(FilterOptions, conf)
    )
    allowed = isolate(namespace, brokers, policies, facts, persistent=True).kept
    return {
        "candidates": recorder.seen,
        "broker": selection.broker,
        "mayUnload": {
            broker: group is None or may_unload(case["bundle"], broker, allowed, counts) is None
            for broker in brokers
        },
    }


def _facts(entry: Any) -> BrokerFacts:
    local = entry["localData"]
    return BrokerFacts(
        local["loadManagerClassName"],
        local["brokerVersionString"],
        local["persistentTopicsEnabled"],
        local["nonPersistentTopicsEnabled"],
        local["numTopics"],
        sum(data["topics"] for data in entry["preallocatedBundleData"].values()),
    )
