"""``counterpoise decide place`` and ``decide split`` as scripts use them."""

import pytest

from counterpoise.app.decide_lines import place_line
from counterpoise.decide.memory import NO_MEMORY
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.registry import PLACEMENTS

BUNDLE = "t/n/0x00000000_0x80000000"


def usage(cpu):
    return {"cpu": {"usage": cpu, "limit": 100}, "bundles": ["x"], "msgRateIn": 1.0}


def place(cpu, candidates=("a:1", "b:1"), **more):
    brokers = {name: {"localData": usage(each)} for name, each in cpu.items()}
    data = {"now": 1, "brokerData": brokers, "bundleData": {}}
    return {"bundle": BUNDLE, "candidates": list(candidates), "loadData": data} | more


def test_one_strategy_sees_the_lines_in_order(decide):
    line = place({"a:1": 10, "b:1": 10})
    status, answers, _ = decide("place --strategy RoundRobinBrokerSelector", line, "", line)
    assert status == 0
    assert [each["broker"] for each in answers] == ["a:1", "b:1"]
    assert [each["admissible"] for each in answers] == [["a:1"], ["b:1"]]
    assert all(each["reason"] for each in answers)


def test_remembered_usage_lasts_from_line_to_line(decide):
    lines = place({"a:1": 80, "b:1": 0}), place({"a:1": 0, "b:1": 40})
    words = "place --strategy LeastResourceUsageWithWeight"
    _, answers, _ = decide(words, *lines)
    assert [each["broker"] for each in answers] == ["b:1", "b:1"]
    _, alone, _ = decide(words, lines[1])
    assert alone[0]["broker"] == "a:1"
    _, forgot, _ = decide(words, lines[0], lines[1] | {"activeBrokers": ["b:1"]})
    assert forgot[1]["broker"] == "a:1"


def test_a_line_of_the_extensible_manager(decide):
    brokers = {
        "a:1": {"brokerLoadData": {"weightedMaxEMA": 0.2}},
        "b:1": {"brokerLoadData": {"weightedMaxEMA": 0.9}},
        "c:1": {"brokerLoadData": None},
    }
    line = {"bundle": BUNDLE, "candidates": ["a:1", "b:1", "c:1"], "loadData": {"brokers": brokers}}
    _, answers, _ = decide("place --strategy LeastResourceUsageWithWeight", line)
    assert answers[0]["admissible"] == ["a:1"]


def test_a_broker_without_its_usage_is_taken_to_be_full(decide):
    brokers = {"a:1": {"brokerLoadData": {}}, "b:1": {"brokerLoadData": {"weightedMaxEMA": 0.9}}}
    line = {"bundle": BUNDLE, "candidates": ["a:1", "b:1"], "loadData": {"brokers": brokers}}
    _, answers, _ = decide("place --strategy LeastResourceUsageWithWeight", line)
    assert answers[0]["broker"] == "b:1"
    brokers["b:1"]["brokerLoadData"]["weightedMaxEMA"] = 1.5
    _, answers, _ = decide("place --strategy LeastResourceUsageWithWeight", line)
    assert answers[0]["admissible"] == ["a:1"]


def test_the_configured_strategy_is_the_default(decide, tmp_path):
    conf = tmp_path / "broker.conf"
    conf.write_text("loadBalancerLoadPlacementStrategy=RoundRobinBrokerSelector\n")
    _, answers, _ = decide(f"place --conf {conf}", place({"a:1": 90, "b:1": 1}))
    assert answers[0]["reason"] == "in_turn"


def test_a_seed_makes_it_random_and_repeatable(decide):
    lines = [place({"a:1": 10, "b:1": 10})] * 12
    words = "place --strategy LeastLongTermMessageRate --seed 7"
    picks = [[each["broker"] for each in decide(words, *lines)[1]] for _ in range(2)]
    assert picks[0] == picks[1]
    assert set(picks[0]) == {"a:1", "b:1"}


def test_no_candidate_is_an_answer(decide):
    status, answers, _ = decide("place --strategy AvgShedder", place({"a:1": 1}, []))
    assert status == 0
    assert (answers[0]["broker"], answers[0]["admissible"]) == (None, [])
    assert "no candidates" in answers[0]["sentence"]


def load(rate):
    return {"msgRateIn": rate, "msgRateOut": 0, "msgThroughputIn": 0, "msgThroughputOut": 0}


TOPICS = {f"persistent://t/n/{name}": load(100) for name in "abcdef"}
RING = "t/n/0x00000000_0xffffffff"


@pytest.mark.parametrize(
    ("algorithm", "more", "boundaries"),
    [
        ("range_equally_divide", {}, ["0x40000000"]),
        (
            "specified_positions_divide",
            {"boundaries": ["0x10", 32, -1]},
            ["0x00000010", "0x00000020"],
        ),
        ("specified_positions_divide", {"boundaries": []}, []),
        ("topic_count_equally_divide", {"topics": {}}, []),
        ("flow_or_qps_equally_divide", {}, []),
    ],
)
def test_split_answers_boundaries_and_why(decide, algorithm, more, boundaries):
    line = {"bundle": BUNDLE, "topics": TOPICS} | more
    status, answers, _ = decide(f"split --algorithm {algorithm}", line)
    assert status == 0
    assert answers[0]["boundaries"] == boundaries
    assert answers[0]["reason"]
    assert answers[0]["sentence"]


def test_split_reads_limits_from_settings(decide):
    limit = "--set loadBalancerNamespaceBundleMaxMsgRate=250"
    words = f"split --algorithm flow_or_qps_equally_divide {limit}"
    _, answers, _ = decide(words, {"bundle": RING, "topics": TOPICS})
    assert len(answers[0]["boundaries"]) == 2


def test_the_default_algorithm_is_the_configured_one(decide):
    words = "split --set defaultNamespaceBundleSplitAlgorithm=topic_count_equally_divide"
    _, answers, _ = decide(words, {"bundle": RING, "topics": TOPICS})
    assert answers[0]["reason"] == "middle_of_topics"


def test_a_rate_that_a_topic_does_not_have_is_none(decide):
    words = "split --algorithm flow_or_qps_equally_divide --set "
    words += "loadBalancerNamespaceBundleMaxMsgRate=250"
    topics = {name: {"msgRateIn": 100} for name in TOPICS}
    _, answers, _ = decide(words, {"bundle": RING, "topics": topics})
    assert len(answers[0]["boundaries"]) == 2
    assert "lie outside" not in answers[0]["sentence"]


def test_topics_outside_the_bundle_are_mentioned(decide):
    _, answers, _ = decide(
        "split --algorithm topic_count_equally_divide",
        {"bundle": "t/n/0x00000000_0x00000010", "topics": TOPICS},
    )
    assert "6 of the topics lie outside" in answers[0]["sentence"]


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
