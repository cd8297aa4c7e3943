"""Our shedding strategies on a case's lines."""

import json
from random import Random
from typing import Any

from counterpoise.decide.shedding.registry import SHEDDERS
from counterpoise.names.options import from_conf
from tests.conformance.suite import Answer, Case


def conf_text(values: dict[str, Any]) -> dict[str, str]:
    """Settings as they stand in a broker.conf."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in values.items()
    }


def plans(case: Case) -> list[Any]:
    """One plan per line, the memory handed on."""
    shedder = SHEDDERS[case["strategy"]]
    options = from_conf(shedder.options, conf_text(case["conf"]))
    memory = shedder.initial_memory()
    out = []
    for line in case["lines"]:
        if "activeBrokers" in line:
            memory = shedder.forget(memory, line["activeBrokers"])
        view = shedder.view.from_load_data(line)
        plan = shedder.plan(view, memory, options, line["now"], Random(0))
        memory = plan.memory
        json.dumps(plan.to_json())  # explanations are lazy: have them written, for every input
        out.append(plan)
    return out


def shed(case: Case) -> Answer:
    """Per line, the bundles of each broker in the order they were chosen."""
    answers = []
    for plan in plans(case):
        bundles: dict[str, list[str]] = {}
        for decision in plan.decisions:
            bundles.setdefault(decision.source, []).append(decision.bundle)
        answer: dict[str, Any] = {"bundles": bundles}
        if case["strategy"] == "AvgShedder":
            answer["targets"] = {d.bundle: d.destination for d in plan.decisions}
        answers.append(answer)
    return answers


def transfer(case: Case) -> Answer:
    """Per line, the transfers as a set with their reasons."""
    return [
        {
            "decisions": sorted(
                ([d.source, d.bundle, d.destination, d.reason] for d in plan.decisions), key=repr
            )
        }
        for plan in plans(case)
    ]
