"""Whether a report is new: one measurement is one sample, however often it is read.

A report's own `lastUpdate` shows it, if there is one. But Pulsar's modular manager updates it only
when the load changed by a tenth, or after a quarter of an hour, while its response has measurements
of the last minute. So changed figures of the bundles are new, too, and a later `lastUpdate` with
the same figures is not. Host usage does not count: a broker measures it on every request. If a
report has no time (under the extensible manager), unchanged figures are a new measurement only if
there is no traffic and the broker must have measured again.
"""

from dataclasses import dataclass

from counterpoise.load.measured import Measured


@dataclass(frozen=True, slots=True)
class Taken:
    """The last report of a broker that was a new measurement; the next one is compared with it."""

    reported_ms: int
    figures: int
    taken_ms: int
    ahead: bool = False
    """Whether its new figures came with an old `lastUpdate`: then a later `lastUpdate` with the
    same figures is no new measurement."""


def take(before: Taken | None, seen: Measured, at_ms: int, every_ms: int) -> tuple[Taken, bool]:
    """Decide whether the report ``seen``, read at ``at_ms``, is a new measurement or repeats the
    last one.

    Returns what to pass as ``before`` with the next report, and whether this one is new.
    ``every_ms`` is how often the broker measures. Times are milliseconds.
    """
    same = before is not None and before.figures == seen.figures
    if before is None:
        return Taken(seen.reported_ms, seen.figures, at_ms), True
    if seen.reported_ms != before.reported_ms:
        counted_before = same and before.ahead
        return Taken(seen.reported_ms, seen.figures, at_ms), not counted_before
    if not same:
        return Taken(seen.reported_ms, seen.figures, at_ms, ahead=seen.reported_ms > 0), True
    if seen.reported_ms == 0 and seen.idle and at_ms - before.taken_ms >= every_ms:
        return Taken(0, seen.figures, at_ms), True
    return before, False
