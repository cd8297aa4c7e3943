"""A bundle whose last moves hurt is left alone for a while, with the figures."""

import json
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from counterpoise.decide.balancing.costly import (
    IN_A_ROW,
    KNOWN,
    Costs,
    EndedMove,
    left_for_cost,
    with_costs,
)
from counterpoise.decide.balancing.moves import Move, MoveOutcome, MoveStatus, RoundMemory
from counterpoise.decide.balancing.publish_latency import LatencyLimit, LatencyRise
from counterpoise.decide.balancing.round import decide
from tests.decide.balancing.test_round import UNEVEN, seen, sentences, strategy
from tests.load.story import START

A, OTHER = "public/default/0x00000000_0x40000000", "public/default/0x40000000_0x80000000"
HOUR = 3_600_000
SPAN = 6 * HOUR


def after(*seconds: float, bundle: str = A, usual_s: float = 1.0, failed: bool = False) -> Costs:
    """What is remembered when a bundle's moves took so long on a cluster where others take less."""
    moves = [EndedMove(bundle, START, each, failed=failed) for each in seconds]
    return with_costs({}, (usual_s,) * 9, moves)[0]


def test_two_costly_moves_in_a_row_leave_a_bundle_alone_until_the_span_is_over() -> None:
    costs = after(7.5, 9.0)
    [why] = left_for_cost(START + HOUR, costs, SPAN).values()
    assert why.sentence == (
        f"{A} stays until 04:13 UTC, for 300 more minutes: its last moves hurt (one took 7.5 s, "
        "where 1.0 s are usual; one took 9.0 s, where 1.0 s are usual) (--costly-span)"
    )
    moves = [EndedMove(A, START - 2 * HOUR, 60.0), EndedMove(A, START - HOUR, 7.5)]
    earlier = with_costs({}, (1.0,) * 9, [*moves, EndedMove(A, START, 9.0)])[0]
    assert left_for_cost(START + HOUR, earlier, SPAN) == {A: why}, "since the last of them"
    assert left_for_cost(START + SPAN - 1, costs, SPAN)
    assert not left_for_cost(START + SPAN, costs, SPAN)
    assert not left_for_cost(START, costs, 0), "no guard was asked for"


def test_what_does_not_leave_it_alone() -> None:
    def free(costs: Costs) -> bool:
        return not left_for_cost(START, costs, SPAN)

    assert free(after(9.0)), "one move is an accident"
    assert free(after(9.0, 1.0, 9.0)), "a move in between did not hurt"
    assert free(after(4.9, 4.9)), "clients hardly notice"
    assert free(after(7.9, 7.9, usual_s=2.0)), "moves take long on this cluster"
    assert free(after(0.1, 0.1, failed=True))
    assert not free(after(5.0, 5.0)), "the limits themselves"
    assert not free(after(8.0, 8.0, usual_s=2.0))
    both = {**after(9.0, 9.0, bundle=OTHER), **after(9.0, 9.0)}
    assert [*left_for_cost(START, both, SPAN)] == [A, OTHER]
    assert not free(after(9.0, 9.0, failed=True)), "its topics were closed meanwhile"
    few = with_costs({}, (1.0,) * 4, [EndedMove(A, START, 60.0)] * 2)[0]
    assert free(few), "what is usual is not known"


def test_a_failure_that_no_client_noticed_ends_no_row() -> None:
    moves = [EndedMove(A, START, 9.0), EndedMove(A, START, 0.1, failed=True)]
    costs, took_s = with_costs({}, (1.0,) * 9, [*moves, EndedMove(A, START, 9.0)])
    assert left_for_cost(START, costs, SPAN)
    assert 0.1 not in took_s


@example([(A, 1.0)] * KNOWN + [(OTHER, 2.0)])
@given(st.lists(st.tuples(st.sampled_from((A, OTHER)), st.floats(0.01, 4.9)), max_size=200))
def test_quick_moves_leave_nothing_alone_and_little_is_remembered(
    moves: Sequence[tuple[str, float]],
) -> None:
    costs, took_s = with_costs({}, (), [EndedMove(each, START, took) for each, took in moves])
    assert costs == {}
    assert took_s == tuple(took for _, took in moves)[-KNOWN:]


@given(st.lists(st.tuples(st.sampled_from((A, OTHER)), st.booleans()), max_size=60))
def test_a_bundle_is_left_alone_if_its_last_two_moves_hurt(
    moves: Sequence[tuple[str, bool]],
) -> None:
    ended = [
        EndedMove(bundle, START, 1.0, slowed="it became slow" if hurt else "")
        for bundle, hurt in moves
    ]
    costs, _ = with_costs({}, (), ended)
    for bundle in (A, OTHER):
        last = [hurt for each, hurt in moves if each == bundle][-IN_A_ROW:]
        alone = len(last) == IN_A_ROW and all(last)
        assert (bundle in left_for_cost(START, costs, SPAN)) is alone


def ended(move: Move, seconds: float) -> MoveOutcome:
    began_ms = move.poll_id
    return move.ended(
        MoveStatus.MOVED, move.destination, began_ms, began_ms + round(1000 * seconds)
    )


def test_the_round_takes_others_and_says_why() -> None:
    by = replace(strategy(), balance=replace(strategy().balance, costly_span_ms=SPAN, grace_ms=0))
    made = decide(seen(UNEVEN), RoundMemory(), by)
    first, *others = made.moves
    memory = RoundMemory(moves_took_s=(0.5,) * 5)
    for _ in range(IN_A_ROW):
        memory = memory.after([ended(first, 8.0), *(ended(each, 0.5) for each in others)])
    memory = RoundMemory.from_json(json.loads(json.dumps(memory.to_json())))
    # A round in between forgets nothing of it.
    kept = replace(decide(seen(UNEVEN), memory, by).memory, recently_unloaded={})
    again = decide(seen(UNEVEN), kept, by)
    assert first.bundle not in {move.bundle for move in again.moves}
    assert again.moves, "another one goes"
    assert f"{first.bundle} stays until" in sentences(again)
    assert "one took 8.0 s, where 0.5 s are usual" in sentences(again)


def test_moves_that_were_stopped_by_slow_publishing_hurt_those_of_the_broker_that_became_slow() -> (
    None
):
    first, *_ = decide(seen(UNEVEN), RoundMemory(), strategy()).moves
    memory = RoundMemory()
    elsewhere = LatencyRise("b9:80", 5.0, 80.0, LatencyLimit())
    for rise in (replace(elsewhere, broker=first.destination),) * IN_A_ROW:
        memory = memory.after([ended(first, 0.5)], rise=rise)
    [why] = left_for_cost(START, memory.costs, SPAN).values()
    assert f"publish latency of {first.destination} rose from 5.0 ms to 80.0 ms" in why.sentence
    assert memory.after([ended(first, 0.5)], rise=elsewhere).costs == {}
    taken = replace(ended(first, 0.5), status=MoveStatus.ELSEWHERE, owner="b9:80")
    assert RoundMemory().after([taken], rise=elsewhere).costs, "by its owner, whichever was planned"
