"""Our placement strategies on a case's requests."""

from typing import Any

from counterpoise.app.decide_lines import place_line
from counterpoise.decide.memory import NO_MEMORY
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.registry import PLACEMENTS
from counterpoise.names.options import from_conf
from tests.conformance.ours.shedding import conf_text
from tests.conformance.suite import Answer, Case


def place(case: Case) -> Answer:
    """Per request, the brokers found equally good.

    What was picked is left in the case as `picks`: where Java picks at random it goes on from ours.
    """
    strategy = None if case["op"] == "place-extensible" else PLACEMENTS[case["strategy"]]
    options = from_conf(PlacementOptions, conf_text(case["conf"]))
    memory: Any = strategy.initial_memory() if strategy else NO_MEMORY
    answers = []
    picks = []
    for request in case["requests"]:
        answer, memory = place_line(request, strategy, options, memory)
        picks.append(answer["broker"])
        answers.append({"admissible": sorted(answer["admissible"])})
        if answer["broker"] is not None and answer["broker"] not in answer["admissible"]:
            answers[-1]["picked"] = f"{answer['broker']} is not admissible by our own account"
    case["picks"] = picks
    return answers
