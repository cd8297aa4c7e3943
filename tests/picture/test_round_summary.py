"""Rounds for a person: every sentence, before and after, and nothing twice."""

from dataclasses import replace

from counterpoise.decide.balancing.moves import MoveStatus
from counterpoise.picture.round_summary import (
    REASONS_MOST,
    ROUNDS_MOST,
    Explanation,
    RoundSummary,
    about,
    summarize_round,
    with_round,
)
from tests.picture.pictures import view_of
from tests.picture.rounds import BUNDLE, made, move, outcome, stays

OTHER = "public/default/0x80000000_0xffffffff"
SEEN = view_of({"a:1": {BUNDLE: 300.0, OTHER: 300.0}, "b:1": {}})


def test_a_move_has_its_sentence_its_effect_and_its_outcome() -> None:
    found = summarize_round(
        made(5, (move(),), (stays("b:1"),)), {"5-0000000a": outcome(MoveStatus.MOVED)}, SEEN
    )
    [explanation] = found.moves
    assert explanation.sentence == "from a:1 to b:1: a:1 is 90% used; the least used"
    assert explanation.outcome == "moved after 0.4 s"
    assert [(e.broker, e.before, e.after) for e in found.effects] == [
        ("a:1", 600.0, 300.0),
        ("b:1", 0.0, 300.0),
    ]
    assert (found.imbalance, found.after) == (1.0, 0.0)
    assert found.sentence == "1 move; the largest broker was 2.00 times the mean, 1.00 with it"
    assert [each.whole for each in found.stays] == ["b:1 uses 40% (someSetting)"]


def test_a_move_that_was_not_made_says_why() -> None:
    found = summarize_round(
        made(5, (move(),)), {"5-0000000a": outcome(MoveStatus.WITHHELD, "paused")}
    )
    assert found.moves[0].outcome == "withheld: paused"
    assert summarize_round(made(5, (move(),)), {}).moves[0].outcome == ""


def test_rounds_that_say_the_same_are_one_with_the_newest_figures() -> None:
    found: tuple[RoundSummary, ...] = ()
    for poll in range(10, 15):
        found = with_round(found, summarize_round(made(poll, (), (stays(value=float(poll)),)), {}))
    assert len(found) == 1
    assert (found[0].at_ms, found[0].until_ms, found[0].rounds) == (10, 14, 5)
    assert found[0].stays[0].sentence == "a:1 uses 14%"
    found = with_round(found, summarize_round(made(20, (), (stays("b:1"),)), {}))
    found = with_round(found, summarize_round(made(21, (move(),)), {}))
    found = with_round(found, summarize_round(made(22, (move(),)), {}))
    found = with_round(found, summarize_round(made(23), {}))
    found = with_round(found, summarize_round(replace(made(24), strategy="AvgShedder"), {}))
    assert [each.rounds for each in found] == [5, 1, 1, 1, 1, 1]


def test_what_was_said_of_one_bundle_is_found() -> None:
    found = tuple(summarize_round(made(poll, (move(poll),), (stays(),)), {}) for poll in (5, 6))
    assert [(each.at_ms, explanation.subject) for each, explanation in about(found, BUNDLE)] == [
        (6, BUNDLE),
        (5, BUNDLE),
    ]
    assert len(about(found, "a:1")) == 2


def test_neither_rounds_nor_reasons_grow_without_bound() -> None:
    many = summarize_round(made(5, (), tuple(stays(f"b{i}:1") for i in range(500))), {})
    assert (len(many.stays), many.more) == (REASONS_MOST, 500 - REASONS_MOST)
    found: tuple[RoundSummary, ...] = ()
    for poll in range(ROUNDS_MOST + 50):
        found = with_round(found, summarize_round(made(poll, (move(poll),)), {}))
    assert len(found) == ROUNDS_MOST
    assert found[-1].at_ms == ROUNDS_MOST + 49, "the latest are kept"


def test_a_sentence_names_its_subject_and_its_setting_once() -> None:
    assert Explanation("x", "x is small").whole == "x is small"
    assert Explanation("x", "too small", "limit").whole == "x: too small (limit)"
    assert Explanation("x", "x is below limit", "limit").whole == "x is below limit"
