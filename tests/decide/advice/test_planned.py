"""A plan says truly what would come of it, and no round of it makes things worse."""

import copy
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.decide.advice.plan import AdvisedPlan, MoveTime, PlanError, Redelivery
from counterpoise.decide.advice.planned import AdviceOptions, advise
from counterpoise.decide.balancing.moves import RoundMemory
from counterpoise.decide.balancing.round import decide
from counterpoise.decide.balancing.snapshot import ClusterSnapshot, snapshot_of
from counterpoise.decide.plan import Decision, DecisionKind, Rejection, StrategyPlan
from counterpoise.load.fold import Batch, FoldState, fold
from counterpoise.names.units import bytes_text
from counterpoise.pipeline.advise.text import lines_of
from tests.decide.balancing.test_round import strategy
from tests.load.story import START, Loads, poll
from tests.pipeline.fake_cluster import bundle_name

TOOK = MoveTime(0.5, 2.0, "the median of 7 moves seen here")
HOT: Loads = {bundle_name(i): 9000.0 + i for i in range(10)}
UNEVEN: dict[str, Loads | None] = {"b1:80": HOT, "b2:80": {bundle_name(20): 9000.0}, "b3:80": {}}


def snapshot(reported: dict[str, Loads | None], **more: Any) -> ClusterSnapshot:
    state = fold(FoldState.empty(), Batch.of(poll(0, reported)))
    return replace(snapshot_of(state), **{"source": "a test", **more})


def plan(reported: dict[str, Loads | None], name: str = "ThresholdShedder") -> AdvisedPlan:
    return advise(snapshot(reported), strategy(name), TOOK, START + 1)


def carried_out(made: AdvisedPlan, reported: dict[str, Loads | None]) -> dict[str, float]:
    """Bytes/s by broker once the steps are done, by a second reckoning."""
    loads = {broker: dict(bundles or {}) for broker, bundles in reported.items()}
    for step in made.steps:
        loads[step.destination][step.bundle] = loads[step.source].pop(step.bundle)
    return {broker: 3 * sum(bundles.values()) for broker, bundles in loads.items()}


def test_what_a_plan_promises_is_what_its_steps_come_to() -> None:
    made = plan(UNEVEN)
    assert made.steps
    after = carried_out(made, UNEVEN)
    assert {b.broker: b.bytes_per_s for b in made.after.brokers} == pytest.approx(after)
    mean = sum(after.values()) / len(after)
    assert made.after.imbalance == pytest.approx(max(after.values()) / mean - 1)
    assert made.steps[-1].imbalance_after == pytest.approx(made.after.imbalance)
    assert made.after.imbalance < made.before.imbalance
    assert made.before.imbalance == pytest.approx(90_045 / (99_045 / 3) - 1)


def test_a_plan_says_how_many_messages_come_again() -> None:
    made = plan(UNEVEN)
    # A report of the story is of two messages out for each hundred bytes in.
    out = sum(HOT[step.bundle] for step in made.steps) / 50
    assert made.cost.messages_out_per_s == pytest.approx(out)
    rule = made.took.redelivery.sentence(made.cost.messages_out_per_s)
    assert rule.startswith(f"about {0.1 * out:,.0f} to {out:,.0f} messages")
    assert "a rule of thumb" in rule
    seen = Redelivery(0.25, 2.0, "measured at 7 moves seen here").sentence(100.0)
    assert seen == (
        "about 25 to 200 messages that consumers have not acknowledged by then are delivered again:"
        " what they are sent in 0.25 to 2 s (measured at 7 moves seen here)"
    )
    assert rule in "\n".join(lines_of(made))
    alike = Redelivery(0.5, 0.5, "measured").sentence(10.0)
    assert alike.startswith("about 5 messages that")
    assert "what they are sent in 0.5 s (measured)" in alike


def test_each_step_says_what_is_measured_beside_the_average_it_rests_on() -> None:
    grown = {name: 10 * load for name, load in HOT.items()}
    state = fold(FoldState.empty(), Batch.of(poll(0, UNEVEN)))
    state = fold(state, Batch.of(poll(1, {**UNEVEN, "b1:80": grown}, repeated=["b3:80"])))
    made = advise(snapshot_of(state), strategy("ThresholdShedder"), TOOK, START + 6000)
    assert made.steps
    for step in made.steps:
        average, newest = (bytes_text(3 * n * HOT[step.bundle]) for n in (5.5, 10))
        carries = f"it carries {average} on average of its last 2 reports, {newest} 0 s ago"
        assert step.basis.startswith(carries)
        assert step.basis in "\n".join(lines_of(made))


def test_the_first_round_of_a_plan_is_the_round_that_the_balancer_would_decide() -> None:
    state = fold(FoldState.empty(), Batch.of(poll(0, UNEVEN)))
    round_ = decide(state, RoundMemory(), strategy())
    first = [(s.bundle, s.destination) for s in plan(UNEVEN).steps if s.round == 1]
    assert first == [(move.bundle, move.destination) for move in round_.moves]


def test_cost_is_that_of_the_bundles_and_of_moves_side_by_side() -> None:
    many = dict.fromkeys(HOT, 30)
    made = advise(snapshot(UNEVEN, connections=many), strategy(), TOOK, START)
    count = len(made.steps)
    assert count > 4
    assert made.cost.connections == 30 * count
    assert made.cost.topics == 3 * count
    assert made.cost.seconds == pytest.approx(0.5 * -(-count // 4))
    assert made.cost.bytes_per_s == pytest.approx(sum(3 * HOT[s.bundle] for s in made.steps))


def test_a_strategy_that_waits_for_hits_is_asked_until_it_acts_and_the_plan_says_so() -> None:
    reported: dict[str, Loads | None] = {
        "b1:80": {bundle_name(i): 9_000_000.0 for i in range(10)},
        "b2:80": {},
    }
    made = plan(reported, "AvgShedder")
    assert made.steps
    assert min(step.round for step in made.steps) > 1
    first = min(step.round for step in made.steps)
    assert [note for note in made.notes if f"the same in {first} rounds in a row" in note]


def test_why_not_is_said_for_what_stays() -> None:
    big: dict[str, Loads | None] = {
        "b1:80": {bundle_name(0): 90_000.0, bundle_name(1): 1.0},
        "b2:80": {},
    }
    made = plan(big)
    assert not made.steps
    assert made.after == made.before
    assert any(each.subject == bundle_name(0) and each.rule == "no-gain" for each in made.not_done)


def test_bundles_that_moved_a_moment_ago_stay() -> None:
    memory = RoundMemory(recently_unloaded=dict.fromkeys(HOT, START - 1000))
    assert not advise(snapshot(UNEVEN), strategy(), TOOK, START, memory).steps


def test_a_broker_that_does_not_answer_is_given_nothing() -> None:
    made = advise(snapshot(UNEVEN, answering={"b1:80", "b2:80"}), strategy(), TOOK, START)
    assert {step.destination for step in made.steps} == {"b2:80"}


def test_a_plan_goes_through_json_and_one_that_was_changed_is_refused() -> None:
    made = plan(UNEVEN)
    written = json.loads(json.dumps(made.to_json()))
    assert AdvisedPlan.from_json(written) == made
    changes: list[tuple[Callable[[dict[str, Any]], Any], str]] = [
        (lambda p: p["steps"][0].update(destination="b9:80"), "was changed since it was made"),
        (lambda p: p["steps"].pop(), "was changed since it was made"),
        (lambda p: p.update(notes=["all is well"]), "was changed since it was made"),
        (lambda p: p.update(id=""), "was changed since it was made"),
        (lambda p: p.update(format=99), "format 99"),
        (lambda p: p.update(format=0), "format 0"),
        (lambda p: p["steps"][0].pop("bundle"), r"plan\.steps\[0\]\.bundle"),
        (lambda p: p.pop("format"), "no plan of"),
        (lambda p: p["steps"][0].update(cost=3), r"plan\.steps\[0\]\.cost"),
    ]
    for change, said in changes:
        other = copy.deepcopy(written)
        change(other)
        with pytest.raises(PlanError, match=said):
            AdvisedPlan.from_json(other)
    for nothing in (None, [], "plan", 3):
        with pytest.raises(PlanError):
            AdvisedPlan.from_json(nothing)


def test_the_id_follows_from_what_the_plan_says() -> None:
    made = plan(UNEVEN)
    assert made.id
    assert plan(UNEVEN).id == made.id
    assert replace(made, at_once=5).sealed().id != made.id


def test_a_round_that_would_undo_the_good_of_those_before_it_is_left_out_and_said() -> None:
    class Swings(type(strategy().shedder)):  # type: ignore[misc]
        """Takes all but one bundle from the fullest broker, whatever comes of it."""

        def plan(self, view: Any, memory: Any, *more: Any) -> StrategyPlan[Any]:
            loads = view.broker.traffic.throughput()
            source = int(loads.argmax())
            target = view.brokers[int(loads.argmin())]
            rows = [r for r in view.reported_by(source) if not view.bundle.recently_unloaded[r]]
            names = [view.bundles[row] for row in rows][: 3 if source == 0 else None]
            moves = [
                Decision(DecisionKind.TRANSFER, n, view.brokers[source], target, "x", "x")
                for n in names
            ]
            return StrategyPlan(tuple(moves), (), memory)

    by = replace(strategy(), shedder=Swings())
    two: dict[str, Loads | None] = {
        "b1:80": {bundle_name(i): 100.0 for i in range(8)},
        "b2:80": {bundle_name(i): 100.0 for i in range(10, 14)},
    }
    made = advise(snapshot(two), by, TOOK, START, options=AdviceOptions(every_move=True))
    assert [step.round for step in made.steps] == [1] * 3
    [note] = [each for each in made.notes if "is not part of the plan" in each]
    found = re.findall(r"imbalance of ([\d.]+) instead of ([\d.]+)", note)[0]
    worse, better = map(float, found)
    assert worse >= better == round(made.after.imbalance, 2)


class Takes(type(strategy().shedder)):  # type: ignore[misc]
    """Takes these bundles from the first broker, one more in each round, for the second."""

    def __init__(self, *bundles: str) -> None:
        self._bundles = bundles

    def plan(self, view: Any, memory: Any, *more: Any) -> StrategyPlan[Any]:
        resting = {
            name for name, r in zip(view.bundles, view.bundle.recently_unloaded, strict=True) if r
        }
        left = [each for each in self._bundles if each not in resting][:1]
        moves = [
            Decision(DecisionKind.TRANSFER, each, view.brokers[0], view.brokers[1], "x", "x")
            for each in left
        ]
        return StrategyPlan(tuple(moves), (), memory)


def test_reasons_of_a_round_that_another_followed_are_not_said() -> None:
    class Waits(Takes):
        """Refuses in each round what it takes in the next."""

        def plan(self, view: Any, memory: Any, *more: Any) -> StrategyPlan[Any]:
            made = super().plan(view, memory, *more)
            later = self._bundles[1]
            waits = later not in {each.bundle for each in made.decisions} and made.decisions
            refused = Rejection(later, "later", None, None, "", "{subject} waits")
            return replace(made, rejections=(refused,) if waits else ())

    bundles = [bundle_name(number) for number in range(4)]
    reported: dict[str, Loads | None] = {"b1:80": dict.fromkeys(bundles, 300.0), "b2:80": {}}
    by = replace(strategy(), shedder=Waits(*bundles[:2]))
    first = advise(snapshot(reported), by, TOOK, START, options=AdviceOptions(rounds=1))
    assert [each.subject for each in first.not_done] == bundles[1:2]
    made = advise(snapshot(reported), by, TOOK, START)
    assert [step.bundle for step in made.steps] == bundles[:2]
    assert not made.not_done


def test_moves_that_gain_nothing_are_left_out_and_said_unless_every_move_is_asked_for() -> None:
    """The first would make its destination the fuller broker, the second carries nothing."""
    great, idle, good, more = map(bundle_name, range(4))
    reported: dict[str, Loads | None] = {
        "b1:80": {great: 900.0, idle: 0.0, good: 300.0, more: 200.0},
        "b2:80": {bundle_name(9): 100.0},
    }
    by = replace(strategy(), shedder=Takes(great, idle, good, more))
    made = advise(snapshot(reported), by, TOOK, START)
    assert [step.bundle for step in made.steps] == [good, more]
    said = {each.subject: each.why for each in made.not_done if each.rule == "no-gain"}
    assert set(said) == {great, idle}
    assert "while smaller bundles make them more even" in said[great]
    assert "carries 0 B/s" in said[idle]
    alone: dict[str, Loads | None] = {"b1:80": {great: 900.0}, "b2:80": {bundle_name(9): 100.0}}
    stays = {each.subject: each.why for each in advise(snapshot(alone), by, TOOK, START).not_done}
    assert "all but change places" in stays[great]
    whole = advise(snapshot(reported), by, TOOK, START, options=AdviceOptions(every_move=True))
    assert whole.steps[0].bundle == great
    assert not [each for each in whole.not_done if each.rule == "no-gain"]


LOADS = st.dictionaries(
    st.integers(0, 30).map(bundle_name),
    st.floats(0, 1e6).map(lambda each: round(each, 1)),
    max_size=12,
)


@given(
    st.lists(LOADS, min_size=1, max_size=5),
    st.sampled_from(["ThresholdShedder", "OverloadShedder", "UniformLoadShedder", "AvgShedder"]),
)
def test_any_plan_is_sound(spread: list[Loads], name: str) -> None:
    taken: set[str] = set()
    reported: dict[str, Loads | None] = {}
    for number, loads in enumerate(spread):
        reported[f"b{number}:80"] = {b: v for b, v in loads.items() if b not in taken}
        taken |= set(loads)
    made = plan(reported, name)
    owner = {bundle: broker for broker, loads in reported.items() for bundle in loads or {}}
    assert [step.source for step in made.steps] == [owner[step.bundle] for step in made.steps]
    assert len({step.bundle for step in made.steps}) == len(made.steps)
    after = carried_out(made, reported)
    assert {b.broker: b.bytes_per_s for b in made.after.brokers} == pytest.approx(after, abs=1.0)
    rounds = sorted({step.round for step in made.steps})
    ends = [[s for s in made.steps if s.round == each][-1].imbalance_after for each in rounds]
    assert ends == sorted(ends, reverse=True), "a further round leaves the brokers more even"
    assert AdvisedPlan.from_json(json.loads(json.dumps(made.to_json()))) == made
    assert (
        advise(snapshot(reported), strategy(name), TOOK, START + 1, options=AdviceOptions()) == made
    )
