"""A line of ``decide place``: what the strategies may rely on, whoever wrote the line."""

import pytest

from counterpoise.decide.placement import PlacementOptions
from counterpoise.decide.placement.line import initial_memory, known_names, place_line


def answers(name, candidates):
    """The answers to the same line three times over."""
    usage = {"cpu": {"usage": 50, "limit": 100}, "bundles": ["x"], "msgRateIn": 1.0}
    both = {"localData": usage, "brokerLoadData": {"weightedMaxEMA": 0.5}}
    table = dict.fromkeys(("a:1", "b:1"), both)
    data = {"now": 1, "brokerData": table, "bundleData": {}}
    data |= {"brokers": table} if "extensions" in name else {}
    line = {"bundle": "t/n/0x0_0x1", "candidates": candidates, "loadData": data}
    memory, found = initial_memory(name), []
    for _ in range(3):
        answer, memory = place_line(line, name, PlacementOptions(), memory)
        found.append(answer)
    return found


@pytest.mark.parametrize("name", known_names())
def test_a_candidate_named_twice_is_one_candidate(name):
    assert answers(name, ["b:1", "a:1", "b:1"]) == answers(name, ["b:1", "a:1"])
