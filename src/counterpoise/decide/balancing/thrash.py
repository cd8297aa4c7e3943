"""Rejects moves that would return a bundle to a broker it just left, and moves of a bundle too
often.

A bundle's grace period only prevents a move right after another one. It does not prevent that a
strategy moves a bundle back after an hour, again and again, because its averages lag, or because
its placement uses other figures than its shedder (P#26609 shows it). Each move makes the bundle
unavailable for a moment, and the next one undoes it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from counterpoise.decide.plan import Rejection, Rule

MOVES_MOST = 3
"""A bundle that has moved this many times within the span stays, wherever it has been."""
MOVED_OFTEN = Rule(
    "thrash",
    "{subject} {why} within {span:.0f} minutes: it stays for {minutes:.0f} more (--thrash-span)",
)
_GOING_BACK = Rule(
    "thrash",
    "{subject} stays: it left {brokers} within the last {span:.0f} minutes, and does not go back "
    "(--thrash-span)",
)


class Hop(NamedTuple):
    """One past move of a bundle, from source to destination."""

    at_ms: int
    source: str
    destination: str


Trails = Mapping[str, tuple[Hop, ...]]
"""The past moves of each bundle, the oldest first."""


def thrashing(now_ms: int, trails: Trails, span_ms: int) -> dict[str, Rejection]:
    """The bundles not to move since they move back and forth, with reasons; none if `span_ms` is 0.

    A bundle that returned within the span to a broker it had left, or moved `MOVES_MOST` times,
    stays until the span has passed since its last move.
    """
    left_alone: dict[str, Rejection] = {}
    for bundle in sorted(trails):
        hops = [hop for hop in trails[bundle] if hop.at_ms > now_ms - span_ms]
        back = _return(hops)
        if span_ms <= 0 or (back is None and len(hops) < MOVES_MOST):
            continue
        why = f"came back to {back.destination}" if back else f"moved {len(hops)} times"
        minutes = (hops[-1].at_ms + span_ms - now_ms) / 60_000
        figures = {"why": why, "span": span_ms / 60_000, "minutes": minutes}
        left_alone[bundle] = MOVED_OFTEN.refuses(
            bundle, float(len(hops)), float(MOVES_MOST), **figures
        )
    return left_alone


def left_lately(now_ms: int, trails: Trails, span_ms: int) -> dict[str, frozenset[str]]:
    """By bundle: the brokers that it left within ``span_ms``, to which it may not return."""
    found = {
        bundle: frozenset(hop.source for hop in hops if hop.at_ms > now_ms - span_ms)
        for bundle, hops in trails.items()
    }
    return {bundle: brokers for bundle, brokers in found.items() if brokers and span_ms > 0}


def going_back(bundle: str, brokers: Collection[str], span_ms: int) -> Rejection:
    """The rejection of a move whose only destinations are brokers that the bundle just left."""
    left = " and ".join(sorted(brokers))
    return _GOING_BACK.refuses(bundle, brokers=left, span=span_ms / 60_000)


def _return(hops: Sequence[Hop]) -> Hop | None:
    """The last hop that led back to a broker which the bundle had left; None without one."""
    left: set[str] = set()
    back = None
    for hop in hops:
        left.add(hop.source)
        back = hop if hop.destination in left else back
    return back


def trailed(
    trails: Trails, moved: Iterable[tuple[str, Hop]], now_ms: int, span_ms: int
) -> dict[str, tuple[Hop, ...]]:
    """Each bundle's past moves, with these added and those older than the span removed."""
    longer = dict(trails)
    for bundle, hop in moved:
        longer[bundle] = (*longer.get(bundle, ()), hop)
    kept = {
        bundle: tuple(hop for hop in hops if hop.at_ms > now_ms - span_ms)
        for bundle, hops in longer.items()
    }
    return {bundle: hops for bundle, hops in kept.items() if hops}
