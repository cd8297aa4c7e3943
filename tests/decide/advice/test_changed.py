"""A plan is carried out as it was approved, or refused with the reason that holds."""

from dataclasses import replace

import pytest

from counterpoise.decide.advice.changed import PlanCheck, check
from counterpoise.decide.advice.plan import AdvisedPlan
from counterpoise.decide.balancing.snapshot import ClusterSnapshot
from tests.decide.advice.test_planned import HOT, UNEVEN, plan, snapshot
from tests.load.story import START, Loads

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
