"""Which steps of a plan are worth their price."""

import numpy as np
import pytest

from counterpoise.decide.shedding.counterpoise.columns import LoadColumns, used
from counterpoise.decide.shedding.counterpoise.search import Prices, search
from counterpoise.decide.shedding.counterpoise.timing import Bought, buy, prices_of
from counterpoise.load.rates import Floats

MUCH = 1e9
"""An excess of the fullest broker at which a move costs no more than its price."""


def cluster(now: Floats, later: Floats, owners: list[int], brokers: int) -> LoadColumns:
    """Bundles whose loads are parts of the mean broker's, now and later."""
    load, owner = np.array([[now, later]]), np.array(owners, np.intp)
    scale = np.ones((1, 2, brokers))
    every = np.ones(brokers, np.bool_)
    return LoadColumns(
        load,
        np.array([0.25, 0.75]),
        owner,
        scale,
        used(load, owner, scale),
        np.ones(len(owner), np.bool_),
        every,
        ~every,
    )


def bought(brokers: LoadColumns, prices: Prices, doubt: list[float]) -> Bought:
    return buy(brokers, search(brokers, 100, prices), prices, np.array(doubt))


def steady(loads: list[float], owners: list[int], brokers: int = 3) -> LoadColumns:
    each = np.array(loads)
    return cluster(each, each, owners, brokers)


def cheap(price: float) -> Prices:
    return Prices(price, price)


# The first broker carries 1.5 of the mean, the second 1, the third 0.5.
UNEVEN = steady([0.9, 0.4, 0.2, 1.0, 0.5], [0, 0, 0, 1, 2])


def test_only_the_steps_that_win_their_price_are_made() -> None:
    made = bought(UNEVEN, cheap(0.05), [0.0] * 3)
    assert [(step.bundle, step.destination) for step in made.steps] == [(1, 2)]
    assert made.gain == made.sure == pytest.approx(0.5 + 0.25 - 0.1 - 0.01)
    assert bought(UNEVEN, cheap(0.6), [0.0] * 3).steps
    assert not bought(UNEVEN, cheap(0.7), [0.0] * 3).steps


def test_a_bundle_of_few_clients_costs_less_to_move_but_never_nothing() -> None:
    """A load of 0.5 in bundles of 0.0125, each half as dear as a large one; then of 0.0005."""
    small = steady([1.0, *[0.0125] * 40, 1.0, 0.5], [*[0] * 41, 1, 2])
    assert not bought(small, Prices(0.05, 0.05), [0.0] * 3).steps
    made = bought(small, Prices(0.03, 0.03, 0.025), [0.0] * 3)
    assert len(made.steps) >= 10
    assert made.needed == pytest.approx(0.015 * len(made.steps))
    tiny = steady([1.0, *[0.0005] * 100, 1.0, 0.95], [*[0] * 101, 1, 2])
    assert bought(tiny, Prices(0.005, 0.005, 0.025), [0.0] * 3).steps
    assert not bought(tiny, Prices(0.02, 0.02, 0.025), [0.0] * 3).steps


def test_moves_of_several_brokers_that_are_equally_full_are_made_together() -> None:
    """The first of them lowers the fullest by nothing."""
    both = steady([1.2, 0.2, 1.2, 0.2, 0.6, 0.6], [0, 0, 1, 1, 2, 3], 4)
    made = bought(both, cheap(0.13), [0.0] * 4)
    assert {step.bundle for step in made.steps} == {1, 3}
    assert both.use.max() - made.steps[0].fullest == pytest.approx(0.0)


# Each of 4 brokers has a mean of 1: of the first only small bundles can go, the second has 1.3.
SMALL = steady([1.4, *[0.01] * 8, *[0.02] * 4, 0.8, 0.5, 0.57, 0.57], [*[0] * 13, 1, 1, 2, 3], 4)
# The second of 6 cannot be emptied, so what the first gives wins too little; the third has 1.25.
EQUAL = steady([1.45, 0.05, 1.5, 0.8, 0.45, 0.5833, 0.5833, 0.5834], [0, 0, 1, 2, 2, 3, 4, 5], 6)


@pytest.mark.parametrize(
    ("brokers", "bundle", "price"), [(SMALL, 14, 0.05), (EQUAL, 4, 0.055)], ids=["small", "equal"]
)
def test_moves_that_win_too_little_keep_no_other_broker_from_giving(
    brokers: LoadColumns, bundle: int, price: float
) -> None:
    """The fullest broker gives first, and what it can give does not pay."""
    made = bought(brokers, cheap(price), [0.0] * brokers.use.shape[2])
    assert [step.bundle for step in made.steps] == [bundle]
    assert made.needed == pytest.approx(price)


def test_what_is_won_by_chance_is_not_bought() -> None:
    """What the first broker may carry less, and the third more, is won by chance."""
    assert bought(UNEVEN, cheap(0.05), [0.1, 0.0, 0.0]).steps
    made = bought(UNEVEN, cheap(0.05), [0.45, 0.0, 0.45])
    assert (made.steps, made.best) == ((), 1)
    assert made.gain > made.needed > made.sure


def test_a_forecast_that_no_move_rests_on_may_be_wrong() -> None:
    assert bought(UNEVEN, cheap(0.05), [0.0, 0.9, 0.0]).steps


def test_a_move_is_dearer_in_a_small_cluster_and_cheaper_the_longer_it_waits() -> None:
    now = prices_of(0.3, 10, 60.0, 0.0, MUCH).lasting
    assert now == pytest.approx(0.03)
    assert prices_of(0.3, 5, 60.0, 0.0, MUCH).lasting == pytest.approx(now * 2)
    assert prices_of(0.3, 100, 60.0, 0.0, MUCH).lasting == pytest.approx(now / 10**0.1)
    assert prices_of(0.3, 5, 60.0, 0.0, 0.0).small == pytest.approx(0.06)
    assert prices_of(0.3, 10, 60.0, 30.0, MUCH).lasting == pytest.approx(now / 1.5)
    assert prices_of(0.3, 10, 60.0, 1e6, MUCH).lasting == pytest.approx(now / 2)


@pytest.mark.parametrize(
    ("brokers", "excess", "times"),
    [
        (10, 0.8, 1.01), (10, 0.08, 2), (10, 0.06, 25 / 9), (10, 0.0, 4), (10, -1, 4),
        (100, 0.16, 2), (100, 0.08, 4), (1, 0.08, 1), (1, 0.0, 1),
    ],
)  # fmt: skip
def test_a_move_is_dearer_the_more_even_the_cluster_is(
    brokers: int, excess: float, times: float
) -> None:
    dear = prices_of(0.3, brokers, 60.0, 0.0, excess)
    assert dear.lasting == pytest.approx(times * prices_of(0.3, brokers, 60.0, 0.0, MUCH).lasting)


def test_a_move_for_a_burst_is_dearer_in_a_large_cluster_and_never_cheaper_than_others() -> None:
    passing = prices_of(0.3, 10, 60.0, 0.0, MUCH).passing
    assert prices_of(0.3, 1000, 60.0, 0.0, MUCH).passing == pytest.approx(passing * 10)
    assert prices_of(0.3, 10, 60.0, 60.0, MUCH).passing == pytest.approx(passing)
    assert passing > prices_of(0.3, 10, 60.0, 0.0, MUCH).lasting
    assert prices_of(0.3, 2, 60.0, 0.0, MUCH).passing == prices_of(0.3, 2, 60.0, 0.0, MUCH).lasting


def test_a_move_that_leaves_more_to_be_moved_after_a_burst_must_win_its_own_price() -> None:
    """The first broker's second bundle bursts; later it would be missed there."""
    burst = cluster(
        np.array([0.7, 0.8, 1.0, 0.5]), np.array([0.95, 0.05, 1.0, 1.0]), [0, 0, 1, 2], 3
    )
    made = bought(burst, Prices(0.01, 0.01), [0.0] * 3)
    assert [step.bundle for step in made.steps] == [1]
    assert made.steps[0].lasting > 0.0
    assert not bought(burst, Prices(0.01, 0.2), [0.0] * 3).steps
    assert bought(burst, Prices(0.01, 0.04), [0.0] * 3).needed == pytest.approx(0.04)
