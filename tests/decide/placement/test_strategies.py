"""The scenarios of Pulsar's ``ModularLoadManagerStrategyTest``, and what they leave out."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.decide.placement.least_resource_usage import place_by_store_usage
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.registry import PLACEMENTS
from counterpoise.decide.placement.round_robin import RotationMemory
from counterpoise.decide.weights import ResourceWeights
from counterpoise.names.options import INT32_MAX, ConfigError

from .views import view_of

BUNDLE = "t/n/0x00000000_0xffffffff"
DEFAULTS = PlacementOptions()
RATE, USAGE, TURNS, AVG, _ = PLACEMENTS.values()


def choose(strategy, view, candidates, memory=None, options=DEFAULTS, rng=None):
    memory = strategy.initial_memory() if memory is None else memory
    return strategy.place(BUNDLE, candidates, view, memory, options, rng)


@pytest.mark.parametrize(("weight", "chosen"), [(1.0, "3"), (0.0, "2")])
def test_least_long_term_message_rate(weight, chosen):
    rates = {"1": {"long_rate": 400}, "3": {"long_rate": 300}}
    brokers = {**rates, "2": {"long_rate": 200, "cpu": 90}}
    options = PlacementOptions(weights=ResourceWeights(cpu=weight))
    placed = choose(RATE, view_of(brokers), list(brokers), options=options)
    assert (placed.broker, placed.admissible) == (chosen, (chosen,))


def test_the_overload_threshold_is_strict_and_explained():
    view = view_of({"1": {"long_rate": 1, "cpu": 85}, "2": {"long_rate": 2, "cpu": 86}})
    placed = choose(RATE, view, ["1", "2"])
    assert placed.admissible == ("1",)
    [rejection] = placed.rejections
    assert rejection.subject == "2"
    assert rejection.setting == "loadBalancerBrokerOverloadedThresholdPercentage"
    assert "2 uses 86 %, above 85 %" in rejection.sentence


def test_when_all_are_overloaded_any_will_do():
    view = view_of({"1": {"cpu": 90}, "2": {"cpu": 99}})
    placed = choose(RATE, view, ["2", "1"])
    assert (placed.admissible, placed.broker) == (("2", "1"), "1")
    assert placed.rule == "all_overloaded"


rates = st.sampled_from([0.0, 1.0, 2.0, float("inf"), float("nan"), 1e308])
percents = st.sampled_from([0.0, 85.0, 86.0, float("inf"), float("nan")])
loaded = st.fixed_dictionaries({"long_rate": rates, "preallocated": rates, "cpu": percents})


@given(
    brokers=st.dictionaries(st.sampled_from("abcdef"), loaded, min_size=1),
    shuffle=st.randoms(use_true_random=False),
    data=st.data(),
)
def test_the_least_rate_is_that_of_every_candidates_score(brokers, shuffle, data):
    candidates = sorted(brokers)  # as the view has them: none is looked up
    if data.draw(st.booleans()):
        candidates = shuffle.sample(candidates, data.draw(st.integers(1, len(candidates))))
    score = {
        name: float("inf")
        if brokers[name]["cpu"] > 85
        else brokers[name]["long_rate"] + brokers[name]["preallocated"]
        for name in candidates
    }
    least = min([each for each in score.values() if each == each], default=float("inf"))
    best = tuple(name for name in candidates if score[name] == least) or tuple(candidates)
    placed = choose(RATE, view_of(brokers), candidates)
    assert placed.admissible == best
    overloaded = [name for name in candidates if brokers[name]["cpu"] > 85]
    if least < float("inf"):
        assert placed.rule == "least_rate"
    else:
        assert placed.rule == ("all_overloaded" if overloaded == candidates else "no_rate")
    assert [each.subject for each in placed.rejections] == overloaded


def usage_view(usages, **more):
    return view_of({name: {"all": usage, **more} for name, usage in usages.items()})


def test_least_resource_usage_with_weight():
    weights = ResourceWeights(bandwidth_in=1.0, direct_memory=1.0)
    options = PlacementOptions(
        history_percentage=0.5, average_difference_percentage=5, weights=weights
    )
    memory = USAGE.initial_memory()
    # Remembered usage after each round is what decides, so the rounds build on each other.
    rounds = [
        ({"1": 10, "2": 30, "3": 60, "4": 5}, ["1", "2", "3", "4"], {"1", "4"}),
        ({"1": 10, "2": 30, "3": 60}, ["1", "2", "3"], {"1"}),
        ({"1": 20, "2": 30, "3": 50}, ["1", "2", "3"], {"1"}),
        ({"1": 30, "2": 30, "3": 40}, ["1", "2", "3"], {"1"}),
        ({"1": 30, "2": 30, "3": 40}, ["1", "2", "3"], {"1"}),
        ({"1": 35, "2": 20, "3": 45}, ["1", "2", "3"], {"2"}),
    ]
    for usages, candidates, best in rounds:
        placed = choose(USAGE, usage_view(usages), candidates, memory, options)
        memory = placed.memory
        assert set(placed.admissible) == best
    idle = view_of({"1": {"all": 35}, "2": {"all": 20}, "3": {"all": 0, "bundles": 0}})
    assert choose(USAGE, idle, ["1", "2", "3"], memory, options).broker == "3"


@pytest.mark.parametrize("idle", [{"bundles": 0}, {"rate": 0.0}])
def test_a_broker_without_bundles_or_messages_is_seen_as_it_is_now(idle):
    first = choose(USAGE, usage_view({"1": 80, "2": 80}), ["1", "2"])
    now = view_of({"1": {"all": 0, **idle}, "2": {"all": 80}})
    placed = choose(USAGE, now, ["1", "2"], first.memory)
    assert placed.memory.usage["1"] == 0.0
    assert placed.memory.usage["2"] == pytest.approx(0.8)
    assert placed.broker == "1"


shares = st.integers(0, 100).map(float)
everyone = st.fixed_dictionaries(dict.fromkeys("abcdef", shares))
rounds = st.lists(st.tuples(everyone, st.permutations("abcdef"), st.integers(1, 6)), max_size=6)


@given(rounds=rounds)
def test_what_is_remembered_is_each_candidates_moving_average(rounds):
    memory, expected = USAGE.initial_memory(), {}
    for usages, order, count in rounds:
        candidates = list(order[:count])
        for name in candidates:
            now = usages[name] / 100.0
            expected[name] = expected.get(name, now) * 0.9 + (1 - 0.9) * now
        before = dict(memory.usage)
        placed = choose(USAGE, usage_view(usages), candidates, memory)
        assert dict(memory.usage) == before
        memory = placed.memory
        assert memory.usage == pytest.approx(expected)
        assert USAGE.memory_from_json(memory.to_json()) == memory


def test_none_below_the_average_means_any():
    placed = choose(USAGE, usage_view({"b": 42, "a": 43}), ["a", "b"])
    assert set(placed.admissible) == {"a", "b"}
    assert placed.broker == "b"
    assert placed.rule == "none_below_average"


def test_gone_brokers_are_forgotten():
    placed = choose(USAGE, usage_view({"1": 10, "2": 20}), ["1", "2"])
    assert set(USAGE.forget(placed.memory, ["2", "9"]).usage) == {"2"}
    assert USAGE.memory_from_json(placed.memory.to_json()) == placed.memory


@pytest.mark.parametrize(
    ("usage", "admissible"),
    [
        ({"1": 0.1, "2": 0.3, "3": 0.6}, {"1"}),
        ({"1": 0.35, "2": 0.2, "3": 0.45}, {"2"}),
        ({"1": 0.35, "2": 0.2}, {"2"}),
        ({"1": 0.2, "2": 0.2}, {"1", "2", "3"}),
        ({}, {"1", "2", "3"}),
    ],
)
def test_the_extensible_managers_own_rule(usage, admissible):
    options = PlacementOptions(average_difference_percentage=5)
    placed = place_by_store_usage(["1", "2", "3"], usage, options)
    assert set(placed.admissible) == admissible
    assert placed.broker in admissible


def test_round_robin():
    view = view_of({})
    memory = TURNS.initial_memory()

    def turn(candidates):
        nonlocal memory
        placed = choose(TURNS, view, candidates, memory)
        memory = placed.memory
        return placed.broker

    assert [turn(["1", "2", "3"]) for _ in range(10)] == list("1231231231")
    assert [turn(["2", "3", "1"]) for _ in range(2)] == ["2", "3"]  # the order first seen stays
    assert [turn(["1", "2", "4"]) for _ in range(3)] == ["1", "2", "4"]
    assert turn(["2", "4"]) == "4"
    assert turn([]) is None
    assert turn(["2", "4"]) == "2"
    memory = RotationMemory(INT32_MAX, memory.order)
    assert turn(["2", "4"]) == "4"
    assert memory.count == 0
    assert TURNS.memory_from_json(memory.to_json()) == memory


def test_avg_shedder_keeps_what_it_planned():
    view = view_of({"1": {}, "2": {"cpu": 10}, "3": {"cpu": 90}}, {BUNDLE: 5.0, "t/n/other": 7.0})
    first = choose(AVG, view, ["3", "1"], rng=Random(1))
    again = choose(AVG, view, ["1", "2", "3"], first.memory)
    assert again.admissible == (first.broker,)
    assert again.rule == "planned"


def test_avg_shedder_without_a_plan_takes_any_candidate():
    view = view_of({"1": {"cpu": 50}, "2": {"cpu": 10}, "3": {}}, {BUNDLE: 5.0})
    placed = choose(AVG, view, ["2", "1"])
    assert placed.admissible == ("1", "2")
    assert placed.broker == "2"
    picks = {choose(AVG, view, ["1", "2"], rng=Random(seed)).broker for seed in range(20)}
    assert picks == {"1", "2"}


@pytest.mark.parametrize("planned", ["2", "x"])
@pytest.mark.parametrize("candidates", ["123", "32", "21", "x2", "2x", "13", "1"])
def test_avg_shedder_finds_the_planned_target_wherever_it_stands(planned, candidates):
    view = view_of({"1": {}, "2": {}, "3": {}}, {BUNDLE: 5.0})
    memory = choose(AVG, view, [planned]).memory
    rule = choose(AVG, view, list(candidates), memory).rule
    assert rule == ("planned" if planned in candidates else "unplanned")


def test_avg_shedder_replaces_a_target_that_is_no_candidate():
    view = view_of({"1": {}, "2": {}}, {BUNDLE: 5.0})
    first = choose(AVG, view, ["1"])
    second = choose(AVG, view, ["2"], first.memory)
    assert second.broker == "2"
    assert choose(AVG, view, ["1", "2"], second.memory).broker == "2"


def test_avg_shedder_quirk_same_averages_are_one_bundle():
    view = view_of({"1": {}, "2": {}}, {BUNDLE: 5.0, "t/n/twin": 5.0})
    first = choose(AVG, view, ["1"])
    twin = AVG.place("t/n/twin", ["1", "2"], view, first.memory, DEFAULTS, None)
    assert twin.admissible == ("1",)
    changed = view_of({"1": {}, "2": {}}, {BUNDLE: 6.0})
    assert choose(AVG, changed, ["1", "2"], first.memory).rule == "unplanned"


@pytest.mark.parametrize("strategy", PLACEMENTS.values(), ids=list(PLACEMENTS))
def test_no_candidates_is_an_answer(strategy):
    placed = choose(strategy, view_of({"1": {}}), [])
    assert (placed.broker, placed.admissible, placed.rule) == (None, (), "no_candidates")


@pytest.mark.parametrize("strategy", [RATE, USAGE], ids=lambda each: each.name)
def test_an_unknown_candidate_is_left_out_and_named(strategy):
    placed = choose(strategy, view_of({"1": {}}), ["9", "1"])
    assert placed.admissible == ("1",)
    assert [each.subject for each in placed.rejections] == ["9"]
    alone = choose(strategy, view_of({"1": {}}), ["9"])
    assert alone.broker is None
    assert "load report" in alone.reason


@pytest.mark.parametrize("strategy", PLACEMENTS.values(), ids=list(PLACEMENTS))
def test_a_view_asked_before_answers_as_a_new_one(strategy):
    brokers = {name: {"all": 30.0 * i, "long_rate": 9.0 - i} for i, name in enumerate("abcd")}
    asked_before = view_of(brokers)
    candidates = ["d", "c", "b"]
    strict = PlacementOptions(overloaded_threshold_percentage=20, average_difference_percentage=0)
    for change, options in (("", DEFAULTS), ("a", DEFAULTS), ("9", DEFAULTS), ("", strict)):
        candidates += change  # the same list, so that nothing may hold on to what it was
        placed = choose(strategy, asked_before, candidates, options=options)
        assert placed == choose(strategy, view_of(brokers), candidates, options=options)


usages = st.dictionaries(
    st.sampled_from("abcdefgh"), st.floats(0, 200, width=32), min_size=1, max_size=8
)


@pytest.mark.parametrize("strategy", PLACEMENTS.values(), ids=list(PLACEMENTS))
@given(usages=usages, seed=st.integers(0, 9))
def test_same_question_same_answer_and_always_admissible(strategy, usages, seed):
    view = usage_view(usages)
    names = sorted(usages)
    placed = choose(strategy, view, names, rng=Random(seed))
    assert placed.broker in placed.admissible
    assert set(placed.admissible) <= set(names)
    again = choose(strategy, view, names, rng=Random(seed))
    assert again.broker == placed.broker
    assert again.memory == placed.memory
    assert choose(strategy, view, names).broker in placed.admissible


@pytest.mark.parametrize(
    "name",
    [
        "LeastLongTermMessageRate",
        "org.apache.pulsar.broker.loadbalance.impl.LeastLongTermMessageRate",
    ],
)
def test_strategies_are_found_by_both_names(name):
    assert PLACEMENTS.built_in(name) is RATE


@pytest.mark.parametrize("name", ["", "Unknown", "com.acme.LeastLongTermMessageRate"])
def test_an_unknown_strategy_is_no_strategy(name):
    with pytest.raises(ConfigError):
        PLACEMENTS.built_in(name)
