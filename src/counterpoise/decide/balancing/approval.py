"""Which of a round's moves may be carried out, by the rules that an operator gave."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from counterpoise.decide.balancing.moves import Move
from counterpoise.names.bundle import namespace_of

HOUR_MS = 3_600_000
DAY_MINUTES = 24 * 60


@dataclass(frozen=True, slots=True)
class ApprovalRules:
    """The limits that an operator sets on automatic moves. 0 or empty means no limit."""

    moves_a_round: int = 0
    moves_an_hour: int = 0
    part_a_round: float = 0.0
    """How much of the cluster's bytes/s may move in a round: 0.1 is a tenth."""
    part_an_hour: float = 0.0
    window: tuple[int, int] | None = None
    """Minutes of the day, UTC, between which bundles may move; it may go over midnight."""
    leave_alone: frozenset[str] = frozenset()
    """Namespaces, or bundles, that stay where they are."""


class PastMove(NamedTuple):
    """A move that was carried out."""

    at_ms: int
    part: float
    """Of the cluster's bytes/s, when it was decided."""


@dataclass(frozen=True, slots=True)
class Withheld:
    """A move that is not carried out, and the rule that forbids it."""

    move: Move
    reason: str


def approve(
    moves: Sequence[Move], before: Collection[PastMove], now_ms: int, rules: ApprovalRules
) -> tuple[list[Move], list[Withheld]]:
    """Split a round's moves into those that the rules allow, in order, and those withheld.

    `before` is what was moved earlier. A move that is too large does not block a smaller one.
    """
    approved: list[Move] = []
    withheld: list[Withheld] = []
    lately = [each for each in before if now_ms - each.at_ms < HOUR_MS]
    part, part_lately = 0.0, sum(each.part for each in lately)
    for move in moves:
        reason = (
            _reason(move, now_ms, rules)
            or _too_many(len(approved), len(lately), rules)
            or _too_much(move, part, rules.part_a_round, "a round", "--max-load-a-round")
            or _too_much(
                move, part + part_lately, rules.part_an_hour, "an hour", "--max-load-an-hour"
            )
        )
        if reason:
            withheld.append(Withheld(move, reason))
        else:
            approved.append(move)
            part += move.part
    return approved, withheld


def _reason(move: Move, now_ms: int, rules: ApprovalRules) -> str:
    namespace = namespace_of(move.bundle)
    if move.bundle in rules.leave_alone or namespace in rules.leave_alone:
        return f"{namespace} is left alone (--leave-alone)"
    if rules.window and not in_window(now_ms, rules.window):
        return f"bundles move {window_text(rules.window)}"
    return ""


def _too_many(count: int, lately: int, rules: ApprovalRules) -> str:
    if rules.moves_a_round and count >= rules.moves_a_round:
        return f"{rules.moves_a_round} moves a round are allowed (--max-moves-a-round)"
    if rules.moves_an_hour and lately + count >= rules.moves_an_hour:
        return f"{rules.moves_an_hour} moves an hour are allowed (--max-moves-an-hour)"
    return ""


def _too_much(move: Move, so_far: float, limit: float, span: str, option: str) -> str:
    # Asked this way round, since a load that is no number keeps within no limit.
    if not limit or so_far + move.part <= limit:
        return ""
    return (
        f"it carries {move.part:.1%} of the cluster's load, and of the {limit:.1%} {span} that may "
        f"move {max(0.0, limit - so_far):.1%} are left ({option})"
    )


def window_text(window: tuple[int, int]) -> str:
    """Describe a time window as the end of a sentence."""
    first, last = (f"{minute // 60:02d}:{minute % 60:02d}" for minute in window)
    return f"between {first} and {last} UTC only (--window)"


def in_window(now_ms: int, window: tuple[int, int]) -> bool:
    """Whether a time is between two minutes of the day, the first included."""
    minute = now_ms // 60_000 % DAY_MINUTES
    first, last = window
    return first <= minute < last if first <= last else minute >= first or minute < last
