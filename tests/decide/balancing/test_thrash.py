"""A bundle that goes back and forth is left alone; one that only goes somewhere is not."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from counterpoise.decide.balancing.moves import RoundMemory
from counterpoise.decide.balancing.round import decide
from counterpoise.decide.balancing.thrash import Hop, left_lately, thrashing, trailed
from counterpoise.load.rates import Rates
from counterpoise.pipeline.backtest.simulate import BacktestCandidate, simulate
from counterpoise.pipeline.backtest.trace import Hosts
from tests.decide.balancing.test_round import UNEVEN, seen, sentences, strategy
from tests.load.story import START, Loads
from tests.pipeline.fake_cluster import bundle_name

MINUTE, HOUR = 60_000, 3_600_000
A = bundle_name(0)


def hops(*path: str, every_ms: int = 10 * MINUTE) -> tuple[Hop, ...]:
    """Moves along a path of brokers, the last one ten minutes ago."""
    moves = list(pairwise(path))
    first = START - len(moves) * every_ms
    return tuple(Hop(first + n * every_ms, a, b) for n, (a, b) in enumerate(moves))


@pytest.mark.parametrize(
    ("path", "stays"),
    [
        (("b1", "b2"), False),
        (("b1", "b2", "b3"), False),
        (("b1", "b2", "b1"), True),
        (("b1", "b2", "b3", "b1"), True),
        (("b1", "b2", "b3", "b4"), True),
    ],
)
def test_who_came_back_or_wanders_stays(path: tuple[str, ...], stays: bool) -> None:
    assert bool(thrashing(START, {A: hops(*path)}, 3 * HOUR)) is stays


def test_the_reason_says_how_often_and_for_how_long() -> None:
    [why] = thrashing(START, {A: hops("b1", "b2", "b1")}, HOUR).values()
    assert why.sentence == (
        f"{A} came back to b1 within 60 minutes: it stays for 50 more (--thrash-span)"
    )


def test_what_came_back_and_went_on_came_back_all_the_same() -> None:
    [why] = thrashing(START, {A: hops("b1", "b2", "b1", "b3")}, HOUR).values()
    assert f"{A} came back to b1 within 60 minutes" in why.sentence
    [why] = thrashing(START, {A: hops("b1", "b2", "b1", "b2")}, HOUR).values()
    assert f"{A} came back to b2 within 60 minutes" in why.sentence, "the last one counts"
    [why] = thrashing(START, {A: hops("b1", "b2", "b3", "b4")}, HOUR).values()
    assert f"{A} moved 3 times within 60 minutes" in why.sentence


def test_it_may_move_again_when_the_span_has_passed_since_its_last_move() -> None:
    trails = {A: hops("b1", "b2", "b1")}
    assert thrashing(START, trails, HOUR)
    assert not thrashing(START + 51 * MINUTE, trails, HOUR)
    assert not thrashing(START, trails, 0), "no guard was asked for"


def test_what_is_older_than_the_span_is_forgotten() -> None:
    trails = trailed({A: hops("b1", "b2")}, [(A, Hop(START, "b2", "b3"))], START, 5 * MINUTE)
    assert trails == {A: (Hop(START, "b2", "b3"),)}
    assert trailed(trails, [], START + HOUR, 5 * MINUTE) == {}


def test_the_strategy_takes_other_bundles_and_the_round_says_why() -> None:
    by = replace(strategy(), balance=replace(strategy().balance, thrash_span_ms=HOUR))
    free = decide(seen(UNEVEN), RoundMemory(), by)
    first = free.moves[0].bundle
    memory = RoundMemory(trails={first: hops("b1:80", "b2:80", "b1:80")})
    made = decide(seen(UNEVEN), memory, by)
    assert first not in {move.bundle for move in made.moves}
    assert made.moves, "another one goes"
    assert f"{first} came back to b1:80" in sentences(made)
    assert RoundMemory.from_json(json.loads(json.dumps(made.memory.to_json()))) == made.memory
    assert made.memory.trails == memory.trails


def test_a_bundle_does_not_return_to_the_broker_that_it_left() -> None:
    by = replace(strategy(), balance=replace(strategy().balance, thrash_span_ms=HOUR))
    first = decide(seen(UNEVEN), RoundMemory(), by).moves[0]
    other = ({"b2:80", "b3:80"} - {first.destination}).pop()
    memory = RoundMemory(trails={first.bundle: hops(first.destination, "b1:80")})
    [again] = [m for m in decide(seen(UNEVEN), memory, by).moves if m.bundle == first.bundle]
    assert again.destination == other
    two = {name: loads for name, loads in UNEVEN.items() if name != other}
    made = decide(seen(two), memory, by)
    assert first.bundle not in {move.bundle for move in made.moves}
    assert f"{first.bundle} stays: it left {first.destination}" in sentences(made)


def test_what_a_strategy_itself_sends_back_stays() -> None:
    pairs: dict[str, Loads | None] = {
        "b1:80": {bundle_name(i): 9_000_000.0 for i in range(10)},
        "b2:80": {},
    }
    by = strategy("AvgShedder", thrash_span_ms=HOUR)
    memory, made = RoundMemory(), decide(seen(pairs), RoundMemory(), by)
    for _ in range(20):
        if made.moves:
            break
        memory = made.memory
        made = decide(seen(pairs), memory, by)
    assert made.moves
    trails = {move.bundle: hops(move.destination, move.source) for move in made.moves}
    again = decide(seen(pairs), replace(memory, trails=trails), by)
    assert not {move.bundle for move in again.moves} & set(trails)
    assert {each.rule for each in again.rejections} >= {"thrash"}


class Swing:
    """Two brokers with four bundles each; two of the one's and two of the other's swell in turn."""

    name, start_ms, step_ms, steps = "swing", START, MINUTE, 360
    brokers = ("b1:80", "b2:80")
    bundles = tuple(bundle_name(number) for number in range(8))
    topics = np.ones(8, np.int64)
    owners = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    hosts = Hosts(np.full(2, 1e6), np.zeros(2), np.zeros(2))

    def loads(self, step: int) -> Rates:
        through = np.full(8, 1e5)
        swollen = 4 * (step // 20 % 2)
        through[swollen : swollen + 2] = 3e5
        return Rates(through / 100, np.zeros(8), through, np.zeros(8))

    def up(self, step: int) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
        return np.ones(2, np.bool_)

    def measured(self, step: int) -> None:
        return None

    def moved(self, step: int) -> tuple[()]:
        return ()


def moves_of(span_ms: int) -> tuple[int, int]:
    """How often bundles move in six hours of a swinging load, and how often back."""
    by = strategy("ThresholdShedder", grace_ms=0, interval_ms=MINUTE, thrash_span_ms=span_ms)
    result = simulate(BacktestCandidate("x", by), Swing(), 0, Swing.steps, move_s=1.0, seed=1)
    return result.moves, result.thrash


def test_a_load_that_swings_does_not_swing_bundles_with_it() -> None:
    freely, guarded = moves_of(0), moves_of(3 * HOUR)
    assert freely[0] >= 12, "without the guard there is something to guard against"
    assert guarded[0] <= freely[0] / 3
    assert guarded[1] == 0, "no bundle moves again"


@pytest.mark.parametrize(("age_ms", "counts"), [(HOUR - 1, True), (HOUR, False)])
def test_a_move_counts_until_the_span_is_over(age_ms: int, counts: bool) -> None:
    left, back = Hop(START - age_ms, "b1", "b2"), Hop(START, "b2", "b1")
    assert (A in thrashing(START, {A: (left, back)}, HOUR)) is counts
    assert left_lately(START, {A: (left,)}, HOUR) == ({A: frozenset({"b1"})} if counts else {})
    assert trailed({A: (left,)}, [], START, HOUR) == ({A: (left,)} if counts else {})


def test_without_a_span_no_move_counts_not_even_one_that_is_dated_ahead() -> None:
    ahead = Hop(START + 1, "b1", "b2")
    assert left_lately(START, {A: (ahead,)}, 0) == {}
    assert left_lately(START, {A: (ahead,)}, 1) == {A: frozenset({"b1"})}
