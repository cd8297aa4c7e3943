"""A line of ``decide place``: what the strategies may rely on, with any writer of the line."""

import pytest

from counterpoise.app.decide_lines.place import place_line
from counterpoise.decide.memory import NO_MEMORY
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.registry import PLACEMENTS


def answers(strategy, candidates):
    """The answers to the same line three times over."""
    usage = {"cpu": {"usage": 50, "limit": 100}, "bundles": ["x"], "msgRateIn": 1.0}
    both = {"localData": usage, "brokerLoadData": {"weightedMaxEMA": 0.5}}
    table = dict.fromkeys(("a:1", "b:1"), both)
    data = {"now": 1, "brokerData": table, "bundleData": {}}
    data |= {"brokers": table} if strategy is None else {}
    line = {"bundle": "t/n/0x0_0x1", "candidates": candidates, "loadData": data}
    memory, found = strategy.initial_memory() if strategy else NO_MEMORY, []
    for _ in range(3):
        answer, memory = place_line(line, strategy, PlacementOptions(), memory)
        found.append(answer)
    return found


@pytest.mark.parametrize("strategy", [*PLACEMENTS.values(), None])
def test_a_candidate_named_twice_is_one_candidate(strategy):
    assert answers(strategy, ["b:1", "a:1", "b:1"]) == answers(strategy, ["b:1", "a:1"])
