"""How long moves are expected to take and what they redeliver, by those of the history."""

import json
from dataclasses import replace

from counterpoise.decide.advice.plan import Redelivery
from counterpoise.pipeline.advise.plan_inputs import move_time, move_time_by_hand
from counterpoise.pipeline.drive.action_trail import ActionKind, ActionMove, OperatorAction
from counterpoise.pipeline.tables.journal import UNACKNOWLEDGED


def test_how_long_moves_took_is_what_the_history_says() -> None:
    rows = [
        {"status": status, "started_at_ms": 0, "ended_at_ms": took}
        for status, took in (("moved", 100), ("moved", 300), ("moved", 9000),
                             ("failed", 20_000), ("gone", 1), ("elsewhere", 1))
    ]  # fmt: skip
    took = move_time(rows)
    assert (took.seconds, took.quickest_s, took.slowest_s) == (0.3, 0.1, 9.0)
    assert took.basis == "the median of 3 moves seen here"
    by_hand = ActionMove("t/n/1", "a:1", "b:1", "moved", 0, 7000)
    drain = OperatorAction(ActionKind.DRAIN, 0, "ann", moves=(by_hand,))
    assert move_time(rows, by_hand=[drain]) == took, "where there are rounds, those count"
    assert move_time(rows, 5.0).seconds == 5.0
    assert "taken for granted" in move_time([]).basis


def test_moves_at_once_are_expected_to_take_what_those_took_that_went_beside_others() -> None:
    spans = [(0, 1000), (1000, 2200), (10_000, 12_000), (10_500, 13_300), (11_000, 11_400)]
    rows = [{"status": "moved", "started_at_ms": a, "ended_at_ms": b} for a, b in spans]
    alone, beside = move_time(rows), move_time(rows, at_once=4)
    assert (alone.seconds, alone.quickest_s, alone.slowest_s) == (1.1, 1.0, 1.2)
    assert alone.basis == "the median of 2 moves seen here, one at a time"
    assert (beside.seconds, beside.quickest_s, beside.slowest_s) == (2.0, 0.4, 2.8)
    assert beside.basis == "the median of 3 moves seen here, beside others"
    # One that takes long goes beside each that is begun and ends meanwhile.
    long = [(0, 9000), (1000, 2000), (5000, 6000)]
    rows += [
        {"status": "moved", "started_at_ms": 50_000 + a, "ended_at_ms": 50_000 + b} for a, b in long
    ]
    assert move_time(rows).basis == alone.basis
    assert move_time(rows[:2], at_once=4).seconds == 1.1, "where none went beside others, all count"


def test_moves_of_a_drain_are_expected_to_take_what_those_of_drains_took() -> None:
    def action(kind: ActionKind, *took: int) -> OperatorAction:
        moves = (ActionMove("t/n/1", "a:1", "b:1", "moved", 0, each) for each in took)
        return OperatorAction(kind, 0, "ann", moves=tuple(moves))

    seen = [action(ActionKind.DRAIN, 1900, 4000), action(ActionKind.DRAIN, 6500)]
    rounds = move_time([{"status": "moved", "started_at_ms": 0, "ended_at_ms": 1200}])
    drains = move_time_by_hand(seen, ActionKind.DRAIN, rounds)
    assert (drains.seconds, drains.quickest_s, drains.slowest_s) == (4.0, 1.9, 6.5)
    assert drains.basis == "the median of 3 moves of a drain seen here"
    assert move_time_by_hand(seen, ActionKind.REFILL, rounds) is rounds


def test_redeliveries_are_expected_as_moves_of_the_kind_had_them_and_by_a_rule_until_then() -> None:
    def row(start: int, end: int, seconds: float | None) -> dict[str, object]:
        figures = json.dumps({UNACKNOWLEDGED: seconds})
        return {"status": "moved", "started_at_ms": start, "ended_at_ms": end, "figures": figures}

    before = {"status": "moved", "started_at_ms": 0, "ended_at_ms": 1, "figures": None}
    assert move_time([before]).redelivery == Redelivery(), "written before it was measured"
    rows = [row(0, 1000, 0.2), row(2000, 3000, 0.4), row(9000, 9900, 3.0), row(9100, 9800, None)]
    alone, beside = move_time(rows), move_time(rows, at_once=4)
    assert alone.redelivery == Redelivery(0.2, 0.4, "measured at 2 moves seen here, one at a time")
    assert beside.redelivery == Redelivery(
        3.0, 3.0, "measured at one move seen here, beside others"
    )
    assert move_time(rows, 5.0).redelivery == alone.redelivery, "no time that is given changes it"

    def drained(*seconds: float | None) -> OperatorAction:
        made = (
            ActionMove("t/n/1", "a:1", "b:1", "moved", 0, 9, unacknowledged_s=each)
            for each in seconds
        )
        return OperatorAction(ActionKind.DRAIN, 0, "ann", moves=tuple(made))

    drain = move_time_by_hand([drained(0.5, None, 0.7)], ActionKind.DRAIN, alone)
    assert drain.redelivery == Redelivery(0.5, 0.7, "measured at 2 moves of a drain seen here")
    unknown = move_time_by_hand([drained(None)], ActionKind.DRAIN, alone)
    assert unknown.redelivery == alone.redelivery
    refill = move_time_by_hand(
        [drained(0.5)], ActionKind.REFILL, move_time([], by_hand=[drained(0.5)])
    )
    assert refill.redelivery.basis == "measured at one move by hand seen here"
    assert refill.basis == "the median of one move by hand seen here"


def test_moves_by_hand_that_moved_nothing_say_nothing_of_how_long_one_takes() -> None:
    took = {"moved": 2000, "elsewhere": 4000, "failed": 60_000, "withheld": 1}
    moves = [ActionMove("t/n/1", "a:1", "b:1", each, 0, ms) for each, ms in took.items()]
    rounds = move_time([])
    drain = OperatorAction(ActionKind.DRAIN, 0, "ann", moves=tuple(moves))
    found = move_time_by_hand([drain], ActionKind.DRAIN, rounds)
    assert (found.seconds, found.quickest_s, found.slowest_s) == (3.0, 2.0, 4.0)
    failed = replace(drain, moves=tuple(moves[2:]))
    assert move_time_by_hand([failed], ActionKind.DRAIN, rounds) is rounds
