"""Which of a round's moves may be carried out, by the rules that an operator gave."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from counterpoise.decide.balancing.moves import Move

HOUR_MS = 3_600_000
DAY_MINUTES = 24 * 60


@dataclass(frozen=True, slots=True)
class ApprovalRules:
    """What an operator allows; 0 and nothing mean: no limit."""

    moves_a_round: int = 0
    moves_an_hour: int = 0
    window: tuple[int, int] | None = None
    """Minutes of the day, UTC, between which bundles may move; it may go over midnight."""
    leave_alone: frozenset[str] = frozenset()
    """Namespaces, or bundles, that stay where they are."""


@dataclass(frozen=True, slots=True)
class Withheld:
    """A move that is not carried out, and the rule that says so."""

    move: Move
    reason: str


def approve(
    moves: Sequence[Move], moved_at_ms: Collection[int], now_ms: int, rules: ApprovalRules
) -> tuple[list[Move], list[Withheld]]:
    """The moves that may be carried out, in their order, and those that may not.

    `moved_at_ms` is when bundles were moved before.
    """
    approved: list[Move] = []
    withheld: list[Withheld] = []
    lately = sum(now_ms - at < HOUR_MS for at in moved_at_ms)
    for move in moves:
        reason = _reason(move, len(approved), lately, now_ms, rules)
        if reason:
            withheld.append(Withheld(move, reason))
        else:
            approved.append(move)
    return approved, withheld


def _reason(move: Move, so_far: int, lately: int, now_ms: int, rules: ApprovalRules) -> str:
    namespace = move.bundle.rpartition("/")[0]
    if move.bundle in rules.leave_alone or namespace in rules.leave_alone:
        return f"{namespace} is left alone (--leave-alone)"
    if rules.window and not in_window(now_ms, rules.window):
        first, last = (f"{minute // 60:02d}:{minute % 60:02d}" for minute in rules.window)
        return f"bundles move between {first} and {last} UTC only (--window)"
    if rules.moves_a_round and so_far >= rules.moves_a_round:
        return f"{rules.moves_a_round} moves a round are allowed (--max-moves-a-round)"
    if rules.moves_an_hour and lately + so_far >= rules.moves_an_hour:
        return f"{rules.moves_an_hour} moves an hour are allowed (--max-moves-an-hour)"
    return ""


def in_window(now_ms: int, window: tuple[int, int]) -> bool:
    """Whether a time is between two minutes of the day, the first included."""
    minute = now_ms // 60_000 % DAY_MINUTES
    first, last = window
    return first <= minute < last if first <= last else minute >= first or minute < last
