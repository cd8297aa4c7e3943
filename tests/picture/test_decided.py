"""Rounds for a person: every sentence, before and after, and nothing twice."""

from counterpoise.decide.balancing.moves import Move, Outcome, Round, RoundMemory, Status
from counterpoise.decide.plan import Decision, Kind, Rejection
from counterpoise.picture.decided import (
    REASONS_MOST,
    ROUNDS_MOST,
    Decided,
    Said,
    about,
    decided,
    with_round,
)
from tests.picture.scenes import view_of

BUNDLE = "public/default/0x00000000_0x80000000"
OTHER = "public/default/0x80000000_0xffffffff"
SEEN = view_of({"a:1": {BUNDLE: 300.0, OTHER: 300.0}, "b:1": {}})


def move(poll: int = 5) -> Move:
    decision = Decision(
        Kind.TRANSFER, BUNDLE, "a:1", "b:1", "load", "{source} is {load:.0f}% used", {"load": 90.0}
    )
    return Move(f"{poll}-0000000a", poll, decision, "the least used")


def stays(subject: str = "a:1", value: float = 40.0) -> Rejection:
    return Rejection(subject, "low", value, 85.0, "someSetting", "{subject} uses {value:.0f}%")


def made(poll: int, moves: tuple[Move, ...] = (), reasons: tuple[Rejection, ...] = ()) -> Round:
    return Round(poll, "OverloadShedder", 1.0, 2, 2, moves, reasons, RoundMemory())


def outcome(status: Status, error: str = "") -> Outcome:
    return Outcome("5-0000000a", 5, BUNDLE, "a:1", "b:1", status, "b:1", 1_000, 1_400, error)


def test_a_move_has_its_sentence_its_effect_and_what_came_of_it() -> None:
    told = decided(made(5, (move(),), (stays("b:1"),)), {"5-0000000a": outcome(Status.MOVED)}, SEEN)
    [said] = told.moves
    assert said.sentence == "from a:1 to b:1: a:1 is 90% used; the least used"
    assert said.came_of_it == "moved after 0.4 s"
    assert [(e.broker, e.before, e.after) for e in told.effects] == [
        ("a:1", 600.0, 300.0),
        ("b:1", 0.0, 300.0),
    ]
    assert (told.imbalance, told.after) == (1.0, 0.0)
    assert told.sentence == "1 move; the largest broker was 2.00 times the mean, 1.00 with it"
    assert [each.whole for each in told.stays] == ["b:1 uses 40% (someSetting)"]


def test_a_move_that_was_not_made_says_why() -> None:
    told = decided(made(5, (move(),)), {"5-0000000a": outcome(Status.WITHHELD, "paused")})
    assert told.moves[0].came_of_it == "withheld: paused"
    assert decided(made(5, (move(),)), {}).moves[0].came_of_it == ""


def test_rounds_that_say_the_same_are_one_with_the_newest_figures() -> None:
    told: tuple[Decided, ...] = ()
    for poll in range(10, 15):
        told = with_round(told, decided(made(poll, (), (stays(value=float(poll)),)), {}))
    assert len(told) == 1
    assert (told[0].at_ms, told[0].until_ms, told[0].rounds) == (10, 14, 5)
    assert told[0].stays[0].sentence == "a:1 uses 14%"
    told = with_round(told, decided(made(20, (), (stays("b:1"),)), {}))
    told = with_round(told, decided(made(21, (move(),)), {}))
    told = with_round(told, decided(made(22, (move(),)), {}))
    assert [each.rounds for each in told] == [5, 1, 1, 1]


def test_what_was_said_of_one_bundle_is_found() -> None:
    told = tuple(decided(made(poll, (move(poll),), (stays(),)), {}) for poll in (5, 6))
    assert [(each.at_ms, said.subject) for each, said in about(told, BUNDLE)] == [
        (6, BUNDLE),
        (5, BUNDLE),
    ]
    assert len(about(told, "a:1")) == 2


def test_neither_rounds_nor_reasons_grow_without_bound() -> None:
    many = decided(made(5, (), tuple(stays(f"b{i}:1") for i in range(500))), {})
    assert (len(many.stays), many.more) == (REASONS_MOST, 500 - REASONS_MOST)
    told: tuple[Decided, ...] = ()
    for poll in range(ROUNDS_MOST + 50):
        told = with_round(told, decided(made(poll, (move(poll),)), {}))
    assert len(told) == ROUNDS_MOST


def test_a_sentence_names_its_subject_and_its_setting_once() -> None:
    assert Said("x", "x is small").whole == "x is small"
    assert Said("x", "too small", "limit").whole == "x: too small (limit)"
    assert Said("x", "x is below limit", "limit").whole == "x is below limit"
