"""Our split algorithms and split rules on a case."""

from itertools import pairwise
from typing import Any

from counterpoise.app.decide_lines import split_line
from counterpoise.decide.splitting.algorithms import algorithm
from counterpoise.decide.splitting.extensible import (
    SplitMemory,
    SplitScope,
    find_own_bundles_to_split,
)
from counterpoise.decide.splitting.loads import BundleLoads
from counterpoise.decide.splitting.modular import find_bundles_to_split
from counterpoise.decide.splitting.options import SplitOptions
from counterpoise.decide.splitting.request import SplitPoints, SplitRequest, points_of
from counterpoise.load.average import BundleData
from counterpoise.load.report import LocalBrokerData, NamespaceBundleStats
from counterpoise.load.topic_loads import TopicLoad
from counterpoise.names.bundle import BundleName, BundleRange
from counterpoise.names.options import from_conf
from tests.conformance.ours.shedding import conf_text
from tests.conformance.suite import Answer, Case


def cut(case: Case) -> Answer:
    """The boundaries, as the command line gives them."""
    options = from_conf(SplitOptions, conf_text(case["conf"]))
    line = {key: case[key] for key in ("bundle", "topics", "boundaries")}
    answer = split_line(line, case["algorithm"], options)
    return {"boundaries": [int(point, 16) for point in answer["boundaries"]]}


def modular(case: Case) -> Answer:
    """Broker by bundle to split."""
    options = from_conf(SplitOptions, conf_text(case["conf"]))
    data = case["loadData"]
    reports = {
        name: LocalBrokerData.from_json(entry["localData"])
        for name, entry in data["brokerData"].items()
    }
    averages = {name: BundleData.from_json(entry) for name, entry in data["bundleData"].items()}
    plan = find_bundles_to_split(BundleLoads.averaged(reports, averages), case["counts"], options)
    return {decision.bundle: decision.source for decision in plan.decisions}


def extensible(case: Case) -> Answer:
    """Per check, the bundles to split with their children and reason, and how many failed."""
    options = from_conf(SplitOptions, conf_text(case["conf"]))
    memory = SplitMemory()
    answers = []
    for line in case["lines"]:
        stats = {name: NamespaceBundleStats.from_json(s) for name, s in line["stats"].items()}
        ownership = SplitScope(frozenset(line["owned"]), line["splitting"], line["counts"])
        plan = find_own_bundles_to_split(
            BundleLoads.measured("me:8080", stats),
            ownership,
            memory,
            options,
            lambda bundle, line=line: _points(bundle, line, options),
        )
        memory = plan.memory
        answers.append(
            {
                "decisions": sorted(_decision(d) for d in plan.decisions),
                "failures": sum(each.rule == "failure" for each in plan.rejections),
            }
        )
    return answers


def _points(bundle: BundleName, line: Any, options: SplitOptions) -> SplitPoints:
    loads = {
        name: None
        if load is None
        else TopicLoad(
            load["msgRateIn"], load["msgRateOut"], load["msgThroughputIn"], load["msgThroughputOut"]
        )
        for name, load in line["topics"].get(str(bundle), {}).items()
    }
    return algorithm(None, options)(SplitRequest(bundle.range, points_of(loads)), options)


def _decision(decision: Any) -> list[Any]:
    bounds = BundleName.parse(decision.bundle).range
    edges = (bounds.lower, decision.boundaries[0], bounds.upper)
    children = [str(BundleRange(*pair)) for pair in pairwise(edges)]
    return [decision.bundle, sorted(children), decision.reason]
