"""How many moves may be under way, by what became of those before."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.decide.balancing.pace import MovePace


@given(st.integers(1, 32), st.lists(st.booleans(), max_size=40))
def test_it_stops_when_most_of_the_last_moves_failed_and_never_exceeds_its_limit(
    most: int, ends: list[bool]
) -> None:
    pace = MovePace.of(most)
    for failed in ends:
        before, pace = pace, pace.after(failed=failed)
        assert 1 <= pace.at_once <= most
        if failed:
            assert pace.at_once == max(1, before.at_once // 2)
        else:
            assert pace.at_once == min(most, before.at_once + 1)
    assert bool(pace.stop) == (sum(ends[-5:]) >= 3)
    assert not MovePace(most, most, 0, pace.failed).stop


@given(st.integers(1, 32), st.lists(st.tuples(st.floats(0.1, 30.0), st.booleans()), max_size=40))
def test_moves_that_take_far_longer_side_by_side_than_alone_are_given_fewer_at_once(
    most: int, ends: list[tuple[float, bool]]
) -> None:
    pace = MovePace.of(most, failed_most=0)
    assert pace.at_once == 1, "so that it is known what one takes alone"
    alone_s = 0.0
    for seconds, failed in ends:
        before, pace = pace, pace.after(failed=failed, seconds=seconds)
        if before.at_once == 1:
            alone_s = seconds
        is_slow = before.at_once > 1 and seconds >= 0.5 and seconds >= 3 * alone_s
        if failed or is_slow:
            assert pace.at_once == max(1, before.at_once // 2)
        else:
            assert pace.at_once == min(most, before.at_once + 1)
    assert not pace.stop


def test_after_an_empty_bundle_those_with_clients_move_side_by_side_again() -> None:
    pace = MovePace.of(4)
    for seconds in (0.02, *[0.7] * 12):
        pace = pace.after(failed=False, seconds=seconds)
    assert pace.at_once == 4


def test_it_says_how_many_failed() -> None:
    pace = MovePace.of(4)
    for failed in (True, False, True, False, True):
        pace = pace.after(failed=failed)
    assert pace.stop.startswith("3 of the last 5 moves failed")


@pytest.mark.parametrize(
    ("alone_s", "seconds", "at_once"),
    [(0.1, 0.49, 3), (0.1, 0.5, 1), (1.0, 2.99, 3), (1.0, 3.0, 1)],
)
def test_a_move_is_slow_from_three_times_the_one_that_was_made_alone_and_half_a_second(
    alone_s: float, seconds: float, at_once: int
) -> None:
    pace = MovePace.of(4).after(failed=False, seconds=alone_s)
    assert pace.at_once == 2
    assert pace.after(failed=False, seconds=seconds).at_once == at_once


def test_what_stopped_moves_is_named_before_their_failures() -> None:
    pace = MovePace.of(4)
    for _ in range(3):
        pace = pace.after(failed=True)
    assert pace.stop.startswith("3 of the last 3 moves failed")
    assert replace(pace, stopped="publishing is slow").stop == "publishing is slow"
