"""What an operator's rules let through."""

import pytest

from counterpoise.decide.balancing.approval import ApprovalRules, PastMove, approve, in_window
from counterpoise.decide.balancing.moves import Move, move_id
from counterpoise.decide.plan import Decision, DecisionKind

NOON = 1_700_049_600_000  # 2023-11-15 12:00 UTC
MINUTE = 60_000


def move(number: int, namespace: str = "t/n", part: float = 0.1) -> Move:
    bundle = f"{namespace}/0x{number:08x}_0x{number + 1:08x}"
    decision = Decision(DecisionKind.UNLOAD, bundle, "b1:80", "b2:80", "r", "because", {})
    return Move(move_id(NOON, bundle), NOON, decision, "", part)


MOVES = [move(n) for n in range(4)]


def let_through(rules: ApprovalRules, moved: tuple[PastMove, ...] = ()) -> list[int]:
    approved, withheld = approve(MOVES, moved, NOON, rules)
    assert len(approved) + len(withheld) == len(MOVES)
    assert all("(--" in each.reason for each in withheld)
    return [MOVES.index(each) for each in approved]


def test_without_rules_everything_goes() -> None:
    assert let_through(ApprovalRules()) == [0, 1, 2, 3]


def test_so_many_a_round_the_first_ones() -> None:
    assert let_through(ApprovalRules(moves_a_round=3)) == [0, 1, 2]


def test_so_many_an_hour_those_of_before_included() -> None:
    lately = tuple(PastMove(NOON - each * MINUTE, 0.0) for each in (59, 60, 1))
    assert let_through(ApprovalRules(moves_an_hour=4), lately) == [0, 1]
    assert let_through(ApprovalRules(moves_an_hour=2), lately) == []


def test_so_much_load_a_round_and_a_smaller_one_may_follow_a_larger() -> None:
    assert let_through(ApprovalRules(part_a_round=0.25)) == [0, 1]
    large, small = move(5, part=0.3), move(6, part=0.05)
    approved, withheld = approve([large, small], (), NOON, ApprovalRules(part_a_round=0.25))
    assert (approved, withheld[0].move) == ([small], large)
    assert withheld[0].reason == (
        "it carries 30.0% of the cluster's load, and of the 25.0% a round that may move 25.0% are "
        "left (--max-load-a-round)"
    )


def test_so_much_load_an_hour_that_of_before_included() -> None:
    lately = (PastMove(NOON - 59 * MINUTE, 0.15), PastMove(NOON - 60 * MINUTE, 0.5))
    assert let_through(ApprovalRules(part_an_hour=0.4), lately) == [0, 1]
    assert let_through(ApprovalRules(part_an_hour=0.2), lately) == []
    _, withheld = approve(MOVES, lately, NOON, ApprovalRules(part_an_hour=0.1))
    assert "of the 10.0% an hour that may move 0.0% are left" in withheld[0].reason
    idle = [move(7, part=0.0)]
    assert approve(idle, lately, NOON, ApprovalRules(part_an_hour=0.15))[0] == idle
    unknown = [move(8, part=float("nan"))]
    assert approve(unknown, (), NOON, ApprovalRules(part_an_hour=1.0))[0] == []


def test_namespaces_and_bundles_are_left_alone_and_do_not_count() -> None:
    rules = ApprovalRules(moves_a_round=2, leave_alone=frozenset({MOVES[0].bundle, "other/ns"}))
    assert let_through(rules) == [1, 2]
    _, withheld = approve([move(0, "other/ns")], (), NOON, rules)
    assert "other/ns is left alone" in withheld[0].reason


@pytest.mark.parametrize(
    ("window", "inside"),
    [((12 * 60, 13 * 60), True), ((11 * 60, 12 * 60), False), ((22 * 60, 6 * 60), False),
     ((22 * 60, 12 * 60 + 1), True), ((22 * 60, 12 * 60), False), ((12 * 60, 6 * 60), True),
     ((0, 1440), True), ((5, 5), False)],
)  # fmt: skip
def test_a_window_may_go_over_midnight(window: tuple[int, int], inside: bool) -> None:
    assert in_window(NOON, window) is inside
    assert bool(let_through(ApprovalRules(window=window))) is inside


def test_the_hours_are_printed_as_a_clock_shows_them() -> None:
    rules = ApprovalRules(window=(22 * 60 + 5, 6 * 60 + 30))
    _, withheld = approve([move(0)], (), NOON, rules)
    assert withheld[0].reason == "bundles move between 22:05 and 06:30 UTC only (--window)"


def test_bundles_of_a_namespace_are_on_their_way_for_so_long_an_hour() -> None:
    rules = ApprovalRules(unavailable_an_hour_s=7.0)
    lately = (
        PastMove(NOON - 59 * MINUTE, 0.1, "t/n", 2.0),
        PastMove(NOON - 60 * MINUTE, 0.1, "t/n", 9.0),  # an hour ago
        PastMove(NOON - MINUTE, 0.1, "other/ns", 2.0),
        *[PastMove(NOON - MINUTE, 0.1, "third/ns")] * 5,  # their time is not known
        *[PastMove(NOON - MINUTE, 0.1, "fourth/ns", took) for took in (1.0, 1.1, 1.2, 8.0, 9.0)],
    )
    assert let_through(rules, lately) == [0, 1]
    assert let_through(ApprovalRules(unavailable_an_hour_s=2.0)) == [0, 1], "a second each"
    six = ApprovalRules(unavailable_an_hour_s=6.0)
    assert let_through(six, lately) == [0, 1], "the limit itself is allowed"
    other = [move(9, "other/ns"), *MOVES, move(10, "a/third")]
    approved, withheld = approve(other, lately, NOON, rules)
    assert approved == [other[0], *MOVES[:2], other[-1]]
    assert withheld[0].reason == (
        "bundles of t/n were on their way for 6.0 s within an hour, a move takes about 2.0 s, and "
        "7 s are allowed (--max-unavailable-an-hour)"
    )
