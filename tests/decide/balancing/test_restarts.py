"""The order of a rolling restart, and where one goes on that was cut off."""

from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.decide.balancing.restarts import (
    RestartStage,
    moved_enough,
    restart_order,
    resumed_stage,
)

BROKERS = [f"b{number}" for number in range(8)]


@given(
    st.lists(st.sampled_from(BROKERS), unique=True, min_size=1),
    st.dictionaries(st.sampled_from(BROKERS), st.sampled_from("xyz")),
    st.sampled_from(BROKERS),
)
def test_each_domain_is_finished_before_the_next_and_the_leader_comes_last(
    brokers: list[str], domains: Mapping[str, str], leader: str
) -> None:
    order = restart_order(brokers, domains, leader)
    assert sorted(order) == sorted(brokers)
    entered = [domains.get(each, "") for each in order]
    changes = sum(one != other for one, other in pairwise(entered))
    assert changes == len(set(entered)) - 1
    assert leader not in brokers or order[-1] == leader
    assert order == restart_order(sorted(brokers, reverse=True), domains, leader)


@pytest.mark.parametrize(
    ("stage", "has_restarted", "answers", "then"),
    [
        (RestartStage.WAITING, False, True, RestartStage.WAITING),
        (RestartStage.DRAINING, False, True, RestartStage.DRAINING),
        # Empty and running as it did: it may have been given bundles since.
        (RestartStage.RESTARTING, False, True, RestartStage.DRAINING),
        (RestartStage.RESTARTING, False, False, RestartStage.RESTARTING),
        (RestartStage.RESTARTING, True, True, RestartStage.RESTARTING),
        # Restarted by another while it was drained: it is not drained for another one.
        (RestartStage.DRAINING, True, True, RestartStage.RESTARTING),
        (RestartStage.RESTARTED, True, True, RestartStage.RESTARTED),
    ],
)
def test_one_that_was_cut_off_goes_on_where_the_broker_is(
    stage: RestartStage, has_restarted: bool, answers: bool, then: RestartStage
) -> None:
    assert resumed_stage(stage, has_restarted=has_restarted, answers=answers) is then


def test_a_bundle_moves_twice_at_most() -> None:
    assert moved_enough(["a", "b", "a", "c", "c", "c"]) == {"a", "c"}
