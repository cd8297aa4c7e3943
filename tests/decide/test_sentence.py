"""Sentences: whatever their figures are, they are words for a person."""

import pytest

from counterpoise.decide.plan import Decision, DecisionKind, Rejection


@pytest.mark.parametrize(
    ("template", "value", "said"),
    [
        ("{value:.1%} used", 0.853, "85.3% used"),
        ("{value:.1%} used", float("nan"), "[not a number] used"),
        ("{value:,.0f} B/s", float("inf"), "[infinite] B/s"),
        ("{value:,.0f} B/s", float("-inf"), "[minus infinity] B/s"),
        ("{value:,.0f} B/s", -0.2, "0 B/s"),
        ("{value:.1%}", -0.0001, "0.0%"),
        ("{value:.1f}", -1.25, "-1.2"),
        ("{value:.1f} of {limit}", None, "[unknown] of 3.0"),
        ("{value:{limit:.0f}.1f}!", 7.0, "7.0!"),
        ("{subject!r:>6} has {value}", 1.0, "  'b1' has 1.0"),
        ("{value.real:.1f}", float("nan"), "[not a number]"),
    ],
)
def test_figures_are_written_as_a_person_reads_them(
    template: str, value: float | None, said: str
) -> None:
    assert Rejection("b1", "rule", value, 3.0, "", template).sentence == said


@pytest.mark.parametrize(
    ("value", "limit", "said"),
    [
        (0.853, 0.85, "85.3% of 85.0%"),
        (0.85001, 0.85, "85.001% of 85.000%"),
        (0.8500000001, 0.85, "85.000000% of 85.000000%"),
        (0.85, 0.85, "85.0% of 85.0%"),
    ],
)
def test_a_value_and_another_limit_never_look_the_same_within_reason(
    value: float, limit: float, said: str
) -> None:
    assert Rejection("b1", "rule", value, limit, "", "{value:.1%} of {limit:.1%}").sentence == said


@pytest.mark.parametrize("kind", DecisionKind)
def test_a_decision_is_written_with_what_it_does_and_why(kind: DecisionKind) -> None:
    made = Decision(kind, "t/n/x", "b1", "b2", "Uneven", "{need:.0f} B/s go", {"need": 5.0})
    assert made.to_json() == {
        "broker": "b1",
        "bundle": "t/n/x",
        "destination": "b2",
        "reason": "Uneven",
        "kind": str(kind),
        "sentence": "5 B/s go",
        "figures": {"need": 5.0},
    }
    refused = Rejection("b1", "idle", 1.0, 2.0, "minUnload", "{subject} rests ({setting})")
    assert refused.to_json() == {
        "subject": "b1",
        "rule": "idle",
        "value": 1.0,
        "limit": 2.0,
        "setting": "minUnload",
        "sentence": "b1 rests (minUnload)",
    }


def test_a_sentence_has_its_own_figures_and_those_of_all() -> None:
    template = "{bundle} leaves {source} for {destination}: {need:,.0f} B/s ({{kept}})"
    made = Decision(
        DecisionKind.TRANSFER, "t/n/{x}", "b1", "b2", "Uneven", template, {"need": 1234.5}
    )
    assert made.sentence == "t/n/{x} leaves b1 for b2: 1,234 B/s ({kept})"
    with pytest.raises(KeyError):
        Decision(DecisionKind.UNLOAD, "t/n/x", "b1", None, "Uneven", "{nothing}").sentence  # noqa: B018
