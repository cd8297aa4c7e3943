"""What the memory of a round keeps of its moves once they have ended."""

from collections.abc import Mapping
from types import MappingProxyType

import pytest

from counterpoise.decide.balancing.moves import Move, MoveOutcome, MoveStatus, RoundMemory, move_id
from counterpoise.decide.balancing.thrash import Hop
from counterpoise.decide.plan import Decision, DecisionKind

POLL, BEGAN, ENDED = 1_000_000, 1_001_000, 1_004_500
BUNDLE = "t/n/0x00000000_0x00000001"
NONE: Mapping[str, float] = MappingProxyType({})


def outcome(
    status: MoveStatus, *, bundle: str = BUNDLE, to: str = "b2", ended_ms: int = ENDED
) -> MoveOutcome:
    decision = Decision(DecisionKind.TRANSFER, bundle, "b1", to, "r", "because")
    move = Move(move_id(POLL, bundle), POLL, decision, "x")
    owner = {MoveStatus.MOVED: to, MoveStatus.ELSEWHERE: "b3"}.get(status, "")
    return move.ended(status, owner, BEGAN, ended_ms)


@pytest.mark.parametrize(
    ("status", "grace_from", "moved_at", "hop"),
    [
        (MoveStatus.MOVED, ENDED, ENDED, Hop(ENDED, "b1", "b2")),
        (MoveStatus.ELSEWHERE, ENDED, ENDED, Hop(ENDED, "b1", "b3")),
        (MoveStatus.UNOWNED, ENDED, ENDED, None),
        (MoveStatus.FAILED, None, ENDED, None),
        (MoveStatus.ALREADY_THERE, POLL, 7, None),
        (MoveStatus.GONE, POLL, 7, None),
        (MoveStatus.DRY_RUN, POLL, 7, None),
        (MoveStatus.STALE, None, 7, None),
        (MoveStatus.WITHHELD, None, 7, None),
    ],
)
def test_what_each_way_to_end_leaves_behind(
    status: MoveStatus, grace_from: int | None, moved_at: int, hop: Hop | None
) -> None:
    """A bundle that was unloaded, or need not be, has its grace period; what was not tried for now
    may be tried in the next round.
    """
    ended = outcome(status)
    after = RoundMemory(last_move_ms=7, decided_at_ms=POLL).after([ended])
    assert after.recently_unloaded.get(BUNDLE) == grace_from
    assert after.last_move_ms == moved_at
    assert ended.hop == hop
    assert list(after.trails) == ([BUNDLE] if hop else [])
    assert after.unloaded_brokers == ({"b1": ENDED} if status is MoveStatus.MOVED else {})
    assert after.moves_took_s == ((3.5,) if grace_from == ENDED else ())
    at_once = RoundMemory().after([outcome(status, ended_ms=BEGAN)])
    assert at_once.moves_took_s == (), "no move takes no time: it was not measured"


def test_former_moves_are_kept_and_trails_for_the_span_or_for_ever() -> None:
    old, hop = (Hop(POLL - 1000, "b7", "b8"),), Hop(ENDED, "b1", "b2")
    before = RoundMemory(
        recently_unloaded={"other": 1},
        unloaded_brokers={"b9": 1},
        decided_at_ms=POLL,
        trails={"other": old},
    )
    after = before.after([outcome(MoveStatus.MOVED)])
    assert after.recently_unloaded == {"other": 1, BUNDLE: ENDED}
    assert after.unloaded_brokers == {"b9": 1, "b1": ENDED}
    assert after.trails == {"other": old, BUNDLE: (hop,)}
    for span_ms, kept in ((1000, {}), (1001, {"other": old})):
        assert before.after([outcome(MoveStatus.MOVED)], span_ms=span_ms).trails == {
            **kept,
            BUNDLE: (hop,),
        }


PLACES_IT = "had taken it by then; the next lookup of one of its topics places it"


@pytest.mark.parametrize(
    ("status", "to", "owner", "where"),
    [
        (MoveStatus.ELSEWHERE, "b2", "b3", "for b2, and b3 took it first"),
        (MoveStatus.ELSEWHERE, "", "", "for any broker, and another broker took it first"),
        (MoveStatus.UNOWNED, "b2", "", f", and no broker, b2 included, {PLACES_IT}"),
        (MoveStatus.UNOWNED, "", "", f", and no broker, any broker included, {PLACES_IT}"),
        (MoveStatus.MOVED, "b2", "b2", ""),
    ],
)
def test_a_bundle_that_did_not_reach_its_destination_is_said_to_be_where_it_is(
    status: MoveStatus, to: str, owner: str, where: str
) -> None:
    decision = Decision(DecisionKind.TRANSFER, BUNDLE, "b1", to or None, "r", "because")
    move = Move(move_id(POLL, BUNDLE), POLL, decision, "x")
    assert move.destination == to
    unloaded = f"{BUNDLE} was unloaded from b1 {where}".replace(" , ", ", ")
    assert move.ended(status, owner, BEGAN, ENDED).astray == (unloaded if where else "")


def test_a_round_has_settled_when_its_last_move_has_ended() -> None:
    ends = (ENDED, ENDED + 500, ENDED - 500)
    moves = [
        outcome(MoveStatus.MOVED, bundle=f"t/n/0x0000000{n}_0x0000000{n + 1}", ended_ms=end)
        for n, end in enumerate(ends)
    ]
    after = RoundMemory().after([*moves, outcome(MoveStatus.WITHHELD, ended_ms=ENDED + 9_000)])
    assert after.last_move_ms == ENDED + 500
    assert sorted(after.recently_unloaded.values()) == sorted(ends)


@pytest.mark.parametrize(
    ("traffic", "carried", "awaited"),
    [
        ({"b1": 5.0, "b2": 3.0, "b3": 1.0}, {BUNDLE: 2.0}, {"b1": 5.0, "b2": 3.0}),
        ({"b1": 5.0, "b2": 3.0}, {}, {"b1": 5.0}),
        ({"b1": 0.0, "b2": 0.0}, {BUNDLE: 2.0}, {"b2": 0.0}),
        ({"b2": 3.0}, {BUNDLE: 2.0}, {"b2": 3.0}),
        ({}, {BUNDLE: 2.0}, {}),
    ],
)
def test_new_measurements_are_awaited_of_brokers_whose_traffic_has_changed(
    traffic: Mapping[str, float], carried: Mapping[str, float], awaited: Mapping[str, float]
) -> None:
    """One that carried nothing and got nothing would look the same each time."""
    moved = [outcome(MoveStatus.MOVED)]
    assert RoundMemory().after(moved, traffic=traffic, carried=carried).traffic_before == awaited
    failed = [outcome(MoveStatus.FAILED)]
    assert RoundMemory().after(failed, traffic=traffic, carried=carried).traffic_before == NONE


@pytest.mark.parametrize(("by_hand_ms", "since_ms"), [(99, 100), (100, 100), (101, 101)])
def test_a_move_by_hand_begins_a_grace_period_unless_a_later_one_has(
    by_hand_ms: int, since_ms: int
) -> None:
    before = RoundMemory(recently_unloaded={BUNDLE: 100, "other": 50})
    after = before.with_moves_by_hand({BUNDLE: Hop(by_hand_ms, "b1", "b2")})
    assert after.recently_unloaded == {BUNDLE: since_ms, "other": 50}
