"""Selects the moves of a round that the operator's rules (`ApprovalRules`) allow now."""

from collections import defaultdict
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
    unavailable_an_hour_s: float = 0.0
    """Seconds an hour for which moves may make bundles of one namespace unavailable, added up."""
    leave_alone: frozenset[str] = frozenset()
    """Namespaces and bundles that stay where they are."""


class PastMove(NamedTuple):
    """A move that was carried out, as the limits per hour count it."""

    at_ms: int
    part: float
    """The bundle's part of the cluster's bytes/s when the move was decided."""
    namespace: str = ""
    seconds: float = 0.0
    """How long the move took, during which clients of the bundle waited."""


@dataclass(frozen=True, slots=True)
class Withheld:
    """A move that a rule forbids now, and the reason as a sentence."""

    move: Move
    reason: str


def approve(
    moves: Sequence[Move], before: Collection[PastMove], now_ms: int, rules: ApprovalRules
) -> tuple[list[Move], list[Withheld]]:
    """Split moves into those that the operator's rules allow, in order, and those withheld.

    `before` are earlier moves, which count for limits per hour. A move that is too large is
    withheld, and a smaller one after it may still be allowed.
    """
    approved: list[Move] = []
    withheld: list[Withheld] = []
    lately = [each for each in before if now_ms - each.at_ms < HOUR_MS]
    part, part_lately = 0.0, sum(each.part for each in lately)
    away = _Away(lately)
    for move in moves:
        reason = (
            _reason(move, now_ms, rules)
            or _too_many(len(approved), len(lately), rules)
            or _too_much(move, part, rules.part_a_round, "a round", "--max-load-a-round")
            or _too_much(
                move, part + part_lately, rules.part_an_hour, "an hour", "--max-load-an-hour"
            )
            or away.refusal(move, rules.unavailable_an_hour_s)
        )
        if reason:
            withheld.append(Withheld(move, reason))
        else:
            approved.append(move)
            part += move.part
            away.expect(move)
    return approved, withheld


class _Away:
    """Adds up the seconds per hour for which moves make each namespace's bundles unavailable."""

    def __init__(self, lately: Sequence[PastMove]) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)
        for each in lately:
            self._seconds[each.namespace] += each.seconds
        took = sorted(each.seconds for each in lately if each.seconds)
        # Without a recent move a second is assumed: nine in ten moves of Apache Pulsar take less.
        self._usual_s = took[len(took) // 2] if took else 1.0

    def expect(self, move: Move) -> None:
        """Add the usual duration of a move to the namespace of a move that begins."""
        self._seconds[namespace_of(move.bundle)] += self._usual_s

    def refusal(self, move: Move, limit_s: float) -> str:
        """Why a move may not begin, as its namespace's bundles would be unavailable for more
        than `limit_s` seconds an hour; empty if it may.
        """
        namespace = namespace_of(move.bundle)
        so_far = self._seconds[namespace]
        if not limit_s or so_far + self._usual_s <= limit_s:
            return ""
        return (
            f"bundles of {namespace} were on their way for {so_far:.1f} s within an hour, a move "
            f"takes about {self._usual_s:.1f} s, and {limit_s:g} s are allowed "
            "(--max-unavailable-an-hour)"
        )


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
    # Not written as `>`, because a load that is NaN has to exceed every limit.
    if not limit or so_far + move.part <= limit:
        return ""
    return (
        f"it carries {move.part:.1%} of the cluster's load, and of the {limit:.1%} {span} that may "
        f"move {max(0.0, limit - so_far):.1%} are left ({option})"
    )


def window_text(window: tuple[int, int]) -> str:
    """A time window (minutes of the day) as text: ``between 22:00 and 06:00 UTC only``."""
    first, last = (f"{minute // 60:02d}:{minute % 60:02d}" for minute in window)
    return f"between {first} and {last} UTC only (--window)"


def in_window(now_ms: int, window: tuple[int, int]) -> bool:
    """Whether a time (ms since 1970) is between two minutes of the UTC day, the first included."""
    minute = now_ms // 60_000 % DAY_MINUTES
    first, last = window
    return first <= minute < last if first <= last else minute >= first or minute < last
