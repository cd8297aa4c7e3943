"""A plan is carried out as it was approved, or refused with the reason that holds."""

from dataclasses import replace

import pytest

from counterpoise.decide.advice.changed import PlanCheck, check
from counterpoise.decide.advice.plan import AdvisedPlan
from counterpoise.decide.balancing.snapshot import ClusterSnapshot
from tests.decide.advice.test_planned import HOT, UNEVEN, plan, snapshot
from tests.load.story import START, Loads
from tests.pipeline.fake_cluster import bundle_name

HOUR_MS = 3_600_000


def seen(reported: dict[str, Loads | None]) -> ClusterSnapshot:
    owned = {broker: [*(bundles or {})] for broker, bundles in reported.items()}
    return snapshot(reported, owned=owned)


def checked(made: AdvisedPlan, now: ClusterSnapshot, at_ms: int = START) -> PlanCheck:
    return check(made, replace(now, view=replace(now.view, now_ms=at_ms)), HOUR_MS)


def test_a_plan_that_still_fits_is_to_be_done_as_a_whole() -> None:
    made = plan(UNEVEN)
    found = checked(made, seen(UNEVEN))
    assert (found.to_do, found.done, found.changed, found.refusal) == (made.steps, (), {}, "")


def test_a_plan_that_changes_nothing_by_now_is_refused() -> None:
    made = plan(UNEVEN)
    moved = {step.bundle for step in made.steps}
    idle: dict[str, Loads | None] = {
        broker: {b: 0.0 if b in moved else load for b, load in (bundles or {}).items()}
        for broker, bundles in UNEVEN.items()
    }
    found = checked(made, seen(idle))
    assert found.to_do == made.steps
    before, after = found.refusal.split("imbalance of ")[1].split(" instead of ")
    assert before == after, found.refusal


def test_a_bundle_that_two_brokers_list_fits_no_step() -> None:
    made, now = plan(UNEVEN), seen(UNEVEN)
    step = made.steps[0]
    other = next(each for each in now.owned if each not in (step.source, step.destination))
    for second in (other, step.destination):
        owned = {**now.owned, second: [*now.owned[second], step.bundle]}
        found = checked(made, replace(now, owned=owned))
        assert set(found.changed) == {step.bundle}
        both = " and ".join(sorted((step.source, second)))
        assert found.changed[step.bundle] == f"it is on {both} now, not on {step.source}"
        assert step not in found.done


@pytest.mark.parametrize(("age_ms", "refused"), [(HOUR_MS, False), (HOUR_MS + 1, True)])
def test_a_plan_is_good_for_as_long_as_it_says_and_no_longer(age_ms: int, refused: bool) -> None:
    found = checked(plan(UNEVEN), seen(UNEVEN), START + age_ms)
    assert ("--valid-for" in found.refusal) is refused


def test_a_plan_that_is_too_old_says_how_old_it_is() -> None:
    found = checked(plan(UNEVEN), seen(UNEVEN), START + 2 * HOUR_MS)
    assert found.refusal == (
        "it rests on loads of 120 minutes ago, and is good for 60 (--valid-for)"
    )


def test_no_step_fits_whose_broker_does_not_answer() -> None:
    made, now = plan(UNEVEN), seen(UNEVEN)
    for which in ("source", "destination"):
        broker = getattr(made.steps[0], which)
        found = checked(made, replace(now, silent={broker: "connection refused"}))
        assert (
            found.changed[made.steps[0].bundle] == f"{broker} does not answer: connection refused"
        )


def test_no_step_fits_whose_broker_is_gone_or_whose_bundle_has_no_owner() -> None:
    made, now = plan(UNEVEN), seen(UNEVEN)
    first = made.steps[0]
    for broker in (first.source, first.destination):
        owned = {name: has for name, has in now.owned.items() if name != broker}
        found = checked(made, replace(now, owned=owned))
        assert found.changed[first.bundle] == f"{broker} is no broker of the cluster any more"
    owned = {name: [b for b in has if b != first.bundle] for name, has in now.owned.items()}
    found = checked(made, replace(now, owned=owned))
    assert found.changed == {first.bundle: "no broker owns it any more: it was unloaded, or split"}
    assert found.to_do == made.steps[1:]


def test_no_step_fits_whose_destination_is_cordoned() -> None:
    made, now = plan(UNEVEN), seen(UNEVEN)
    first = made.steps[0]
    left = checked(made, replace(now, cordoned={first.source: "ann drained it"}))
    assert first.bundle not in left.changed
    found = checked(made, replace(now, cordoned={first.destination: "ann drained it"}))
    assert found.changed[first.bundle] == f"{first.destination} is cordoned: ann drained it"


def loads_of(**brokers: dict[int, float]) -> dict[str, Loads | None]:
    return {
        f"{broker}:80": {bundle_name(number): load for number, load in bundles.items()}
        for broker, bundles in brokers.items()
    }


def plan_of(*bundles: int) -> AdvisedPlan:
    """A plan that moves these bundles from the first broker to the second."""
    made = plan(UNEVEN)
    step = replace(made.steps[0], source="b1:80", destination="b2:80")
    return replace(made, steps=tuple(replace(step, bundle=bundle_name(n)) for n in bundles))


def test_a_plan_that_makes_it_worse_says_by_how_much() -> None:
    found = checked(plan_of(0), seen(loads_of(b1={0: 100.0}, b2={1: 300.0})))
    assert found.refusal == (
        "by the loads of now it would leave an imbalance of 1.00 instead of 0.50"
    )


def test_a_plan_that_evens_out_others_than_the_fullest_broker_is_good() -> None:
    now = loads_of(b1={0: 100.0, 1: 100.0}, b2={}, b3={2: 900.0})
    assert not checked(plan_of(0), seen(now)).refusal


def test_what_is_done_already_is_no_gain_of_the_rest() -> None:
    now = loads_of(b1={1: 0.0, 2: 300.0}, b2={0: 100.0})
    found = checked(plan_of(0, 1), seen(now))
    assert [step.bundle for step in found.done] == [bundle_name(0)]
    assert "by the loads of now" in found.refusal


def test_what_is_there_already_is_done_and_the_rest_is_judged_by_itself() -> None:
    made = plan(UNEVEN)
    first = made.steps[0]
    reported: dict[str, Loads | None] = {b: dict(loads or {}) for b, loads in UNEVEN.items()}
    loads = reported[first.destination]
    assert loads is not None
    reported[first.destination] = {**loads, first.bundle: HOT[first.bundle]}
    reported[first.source] = {b: v for b, v in HOT.items() if b != first.bundle}
    found = checked(made, seen(reported))
    assert (found.done, found.to_do, found.refusal) == ((first,), made.steps[1:], "")
