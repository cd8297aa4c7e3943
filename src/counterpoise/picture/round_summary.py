"""Rounds of balancing in sentences for a person; equal rounds are merged."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from counterpoise.decide.balancing.moves import MoveOutcome, Round
from counterpoise.load.view import ClusterView
from counterpoise.picture.action_plans import Action, Effect, of_moves
from counterpoise.picture.cluster_picture import ClusterPicture

ROUNDS_MOST: Final = 200
REASONS_MOST: Final = 50
"""How many reasons of one round are shown; the others are counted."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a round moved, or left alone, one bundle or broker, as a sentence."""

    subject: str
    sentence: str
    setting: str = ""
    """The option that would change the decision; empty if there is none."""
    outcome: str = ""
    """How the move ended, as a phrase; empty if nothing was moved."""

    @property
    def whole(self) -> str:
        """The explanation as one sentence that names its subject once."""
        subject = "" if self.subject in self.sentence else f"{self.subject}: "
        known = not self.setting or self.setting in self.sentence
        return f"{subject}{self.sentence}" + ("" if known else f" ({self.setting})")


@dataclass(frozen=True, slots=True)
class RoundSummary:
    """One round as shown to a person; consecutive rounds with the same content are merged."""

    at_ms: int
    until_ms: int
    """The time of the last round with the same outcome."""
    rounds: int
    strategy: str
    imbalance: float
    after: float | None
    """The imbalance that is expected after the moves; None where it is not known."""
    moves: tuple[Explanation, ...]
    stays: tuple[Explanation, ...]
    more: int
    """How many reasons are not shown."""
    effects: tuple[Effect, ...] = ()

    @property
    def sentence(self) -> str:
        """The round summarised in a sentence."""
        largest = f"the largest broker was {1 + self.imbalance:.2f} times the mean"
        if not self.moves:
            return f"nothing to move: {largest}"
        count = len(self.moves)
        what, those = ("1 move", "it") if count == 1 else (f"{count} moves", "them")
        then = "" if self.after is None else f", {1 + self.after:.2f} with {those}"
        return f"{what}; {largest}{then}"


def summarize_round(
    made: Round, outcomes: Mapping[str, MoveOutcome], view: ClusterView | None = None
) -> RoundSummary:
    """Summarise a round; with the view it was decided on, also its expected effect."""
    moves = tuple(
        Explanation(
            move.bundle,
            _moved(move.source, move.destination, move.decision.sentence, move.placement),
            outcome=_sentence(outcomes.get(move.id)),
        )
        for move in made.moves
    )
    stays = tuple(
        Explanation(each.subject, each.sentence, each.setting)
        for each in made.rejections[:REASONS_MOST]
    )
    plan = None
    if view is not None and made.moves:
        plan = of_moves(ClusterPicture(made.poll_id, view), Action.CARRY_OUT, "", made.moves, ())
    return RoundSummary(
        made.poll_id,
        made.poll_id,
        1,
        made.strategy,
        made.imbalance,
        plan.imbalance[1] if plan and plan.imbalance else None,
        moves,
        stays,
        max(0, len(made.rejections) - REASONS_MOST),
        plan.effects if plan else (),
    )


def round_summary_of_json(published: Mapping[str, Any]) -> RoundSummary:
    """Summarise a round that a leader publishes as JSON (`Round.to_json`).

    Raises KeyError or TypeError for other content.
    """
    moves = tuple(
        Explanation(
            str(each["bundle"]),
            _moved(each["broker"], each["destination"], each["sentence"], each["placement"]),
        )
        for each in published["moves"]
    )
    reasons = published["rejections"]
    stays = tuple(
        Explanation(str(each["subject"]), str(each["sentence"]), str(each["setting"]))
        for each in reasons[:REASONS_MOST]
    )
    at_ms, more = int(published["at"]), max(0, len(reasons) - REASONS_MOST)
    name, imbalance = str(published["strategy"]), float(published["imbalance"])
    return RoundSummary(at_ms, at_ms, 1, name, imbalance, None, moves, stays, more)


def _moved(source: str, destination: str | None, sentence: str, placement: str) -> str:
    where = destination or "wherever the cluster wants"
    return f"from {source} to {where}: {sentence}; {placement}"


def with_round(known: tuple[RoundSummary, ...], new: RoundSummary) -> tuple[RoundSummary, ...]:
    """The rounds with one more at the end, merged with the last if it has the same content."""
    if known and _same(known[-1], new):
        merged = replace(new, at_ms=known[-1].at_ms, rounds=known[-1].rounds + 1)
        return (*known[:-1], merged)
    return (*known, new)[-ROUNDS_MOST:]


def about(
    rounds: Iterable[RoundSummary], subject: str
) -> tuple[tuple[RoundSummary, Explanation], ...]:
    """The explanations of one bundle or broker, each with its round, latest first."""
    return tuple(
        (each, explanation)
        for each in reversed(tuple(rounds))
        for explanation in (*each.moves, *each.stays)
        if explanation.subject == subject
    )


def _same(one: RoundSummary, other: RoundSummary) -> bool:
    """Whether two rounds moved nothing for the same reasons, apart from figures."""

    def reasons(each: RoundSummary) -> frozenset[tuple[str, str]]:
        return frozenset((explanation.subject, explanation.setting) for explanation in each.stays)

    return (
        not one.moves
        and not other.moves
        and one.strategy == other.strategy
        and reasons(one) == reasons(other)
    )


def _sentence(outcome: MoveOutcome | None) -> str:
    if outcome is None:
        return ""
    took = outcome.seconds
    error = f": {outcome.error}" if outcome.error else ""
    return (
        f"{outcome.status.value} after {took:.1f} s{error}"
        if outcome.carried_out
        else (f"{outcome.status.value}{error}")
    )
