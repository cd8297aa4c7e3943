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


def test_a_sentence_has_its_own_figures_and_those_of_all() -> None:
    template = "{bundle} leaves {source} for {destination}: {need:,.0f} B/s ({{kept}})"
    made = Decision(
        DecisionKind.TRANSFER, "t/n/{x}", "b1", "b2", "Uneven", template, {"need": 1234.5}
    )
    assert made.sentence == "t/n/{x} leaves b1 for b2: 1,234 B/s ({kept})"
    with pytest.raises(KeyError):
        Decision(DecisionKind.UNLOAD, "t/n/x", "b1", None, "Uneven", "{nothing}").sentence  # noqa: B018
