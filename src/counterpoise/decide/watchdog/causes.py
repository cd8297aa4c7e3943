"""Merges findings: one cause that concerns many bundles is reported once."""

from collections.abc import Iterable
from dataclasses import replace

from counterpoise.decide.watchdog.observation import WatchdogFinding


def by_cause(findings: Iterable[WatchdogFinding]) -> tuple[WatchdogFinding, ...]:
    """Merge findings of the same cause into one, which counts the bundles concerned."""
    groups: dict[str, list[WatchdogFinding]] = {}
    for each in findings:
        groups.setdefault(each.key, []).append(each)
    return tuple(_as_one(group) for group in groups.values())


def _as_one(group: list[WatchdogFinding]) -> WatchdogFinding:
    # A finding about a broker comes first, since it explains those about its bundles.
    first, *others = sorted(group, key=lambda each: "/" in each.subject)
    bundles = tuple(each.subject for each in group if "/" in each.subject)
    if not others:
        return replace(first, bundles=bundles)
    more = f"{len(others)} more bundles" if len(others) > 1 else "one more bundle"
    return replace(
        first,
        subject=first.cause,
        since_ms=min(each.since_ms for each in group),
        sentence=f"{first.sentence}; the same holds for {more}",
        bundles=bundles,
    )
