"""Which steps of a plan are worth their price."""

from dataclasses import replace

import pytest

from counterpoise.decide.shedding.counterpoise.search import Found, Step
from counterpoise.decide.shedding.counterpoise.timing import Prices, buy, prices_of

EVEN = Prices(0.05, 0.05)


def found(*objectives: float) -> Found:
    first, *rest = objectives
    steps = tuple(Step(row, 0, 1, each, each / 2, 1.0 + each) for row, each in enumerate(rest))
    return Found(steps, first, first / 2, 1.0 + first)


def test_only_the_steps_that_win_their_price_are_made() -> None:
    bought = buy(found(1.0, 0.6, 0.5, 0.49, 0.485), EVEN, 0.0)
    assert [step.bundle for step in bought.steps] == [0, 1]
    assert bought.gain == pytest.approx(0.5)


def test_a_step_that_wins_nothing_is_made_for_the_one_after_it() -> None:
    assert len(buy(found(1.0, 1.0, 0.2), EVEN, 0.0).steps) == 2


def test_a_gain_within_the_doubt_is_left() -> None:
    bought = buy(found(1.0, 0.9), EVEN, 0.06)
    assert (bought.steps, bought.best) == ((), 1)
    assert bought.needed == pytest.approx(0.11)
    assert buy(found(1.0, 0.9), EVEN, 0.04).steps


def test_a_move_is_dearer_in_a_small_cluster_and_cheaper_the_longer_it_waits() -> None:
    now = prices_of(0.3, 10, 60.0, 0.0).lasting
    assert now == pytest.approx(0.03)
    assert prices_of(0.3, 100, 60.0, 0.0).lasting == pytest.approx(now / 10)
    assert prices_of(0.3, 10, 60.0, 30.0).lasting == pytest.approx(now / 1.5)
    assert prices_of(0.3, 10, 60.0, 1e6).lasting == pytest.approx(now / 2)


def test_a_move_for_a_burst_costs_as_much_in_a_large_cluster_and_never_less_than_others() -> None:
    passing = prices_of(0.3, 10, 60.0, 0.0).passing
    assert prices_of(0.3, 100, 60.0, 0.0).passing == pytest.approx(passing)
    assert passing > prices_of(0.3, 10, 60.0, 0.0).lasting
    assert prices_of(0.3, 2, 60.0, 0.0).passing == prices_of(0.3, 2, 60.0, 0.0).lasting


def test_a_move_that_leaves_more_to_be_moved_after_a_burst_must_win_its_own_price() -> None:
    plan = found(1.0, 0.9)
    worse_later = replace(plan, steps=(plan.steps[0]._replace(lasting=plan.lasting + 0.01),))
    assert buy(plan, Prices(0.04, 0.2), 0.0).steps
    assert buy(worse_later, Prices(0.04, 0.2), 0.0).steps == ()
    made = buy(worse_later, Prices(0.04, 0.08), 0.0)
    assert made.steps
    assert made.needed == pytest.approx(0.08)
