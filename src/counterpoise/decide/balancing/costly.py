"""Excludes bundles whose last moves disturbed their clients far more than a usual move does.

A bundle may have so many topics, such clients or such ledgers that each move makes it unavailable
for long, or that its new broker publishes slowly afterwards. A strategy sees only its load, and
would move it again whenever that helps.
"""

from collections.abc import Collection, Iterable, Mapping
from statistics import median
from typing import Final, NamedTuple

from counterpoise.decide.plan import Rejection, Rule

KNOWN: Final = 50
"""The usual duration of a move is the median of this many latest moves."""
KNOWN_LEAST: Final = 5
"""With fewer moves than this, there is no usual duration, and no move is costly."""
TIMES: Final = 4.0
"""A move is costly if it took this many times the usual duration, and `SECONDS` as well."""
SECONDS: Final = 5.0
"""A move of fewer seconds is never costly: clients retry only after a second or two anyway."""
IN_A_ROW: Final = 2
"""A bundle is left alone if this many of its last moves, one after the other, were costly."""
LEFT_FOR_COST: Final = Rule(
    "costly-moves",
    "{subject} stays until {until} UTC, for {minutes:.0f} more minutes: its last moves hurt "
    "({costs}) (--costly-span)",
)


class MoveCost(NamedTuple):
    """A move that disturbed its bundle's clients: when, and how, as a sentence."""

    at_ms: int
    why: str
    """How the move disturbed clients, as a phrase with figures."""


class EndedMove(NamedTuple):
    """A move that has ended: its duration, whether it failed, and whether latency rose."""

    bundle: str
    at_ms: int
    seconds: float
    slowed: str = ""
    """How publish latency rose because of it, as text; empty if it did not."""
    failed: bool = False
    """Whether the cluster failed to carry it out."""


Costs = Mapping[str, tuple[MoveCost, ...]]
"""By bundle: its last moves, oldest first, if all of them disturbed clients."""


def with_costs(
    before: Costs, took_s: tuple[float, ...], ended: Iterable[EndedMove]
) -> tuple[dict[str, tuple[MoveCost, ...]], tuple[float, ...]]:
    """Update bundles' costs, and the durations of the latest moves, with moves that ended.

    A move that disturbed no clients clears its bundle's costs; one that failed changes nothing.
    Both results are cut to what is needed.
    """
    after, known = dict(before), took_s
    for move in ended:
        if why := _hurt(move, known):
            costs = (*after.get(move.bundle, ()), MoveCost(move.at_ms, why))
            after[move.bundle] = costs[-IN_A_ROW:]
        elif not move.failed:
            after.pop(move.bundle, None)
        if not move.failed:
            known = (*known, move.seconds)[-KNOWN:]
    return after, known


def _hurt(move: EndedMove, known: Collection[float]) -> str:
    """How the move disturbed clients, as a phrase; empty if it did not."""
    usual_s = median(known) if len(known) >= KNOWN_LEAST else None
    if usual_s is not None and move.seconds >= max(SECONDS, TIMES * usual_s):
        return f"one took {move.seconds:.1f} s, where {usual_s:.1f} s are usual"
    return move.slowed


def left_for_cost(now_ms: int, costs: Costs, span_ms: int) -> dict[str, Rejection]:
    """The bundles whose last moves all disturbed their clients, each with the rejection of a
    further move.

    They are not moved for ``span_ms`` after the last of them; 0 turns this off.
    """
    left = {}
    for bundle, moves in sorted(recent_costs(now_ms, costs, span_ms).items()):
        if len(moves) >= IN_A_ROW:
            ends_ms = moves[-1].at_ms + span_ms
            minute = ends_ms // 60_000 % (24 * 60)
            left[bundle] = LEFT_FOR_COST.refuses(
                bundle,
                until=f"{minute // 60:02d}:{minute % 60:02d}",
                minutes=(ends_ms - now_ms) / 60_000,
                costs="; ".join(each.why for each in moves),
            )
    return left


def recent_costs(now_ms: int, costs: Costs, span_ms: int) -> Costs:
    """The costs of bundles whose last disturbing move was within ``span_ms``."""
    return {bundle: moves for bundle, moves in costs.items() if moves[-1].at_ms + span_ms > now_ms}
