"""The recorded load of one bundle or broker over time, and a bundle's owners."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from counterpoise.load.rates import Floats, Indices
from counterpoise.picture.observed import CHANGES_MOST, ChangeKind, LoadCurve, OwnerChange

POINTS_MOST: Final = 300
"""The most points of a curve; if there are more, they are averaged, as no screen shows them."""
EMPTY: Final = LoadCurve((), (), ())


@dataclass(frozen=True, slots=True)
class RecordedLoad:
    """A load over time and ownership changes from a balancer's history."""

    curve: LoadCurve = EMPTY
    changes: tuple[OwnerChange, ...] = ()
    """The changes of the bundle's owner, the latest last."""

    def with_seen(self, seen: LoadCurve) -> LoadCurve:
        """The recorded curve, continued by `seen`, which the console observed later."""
        last = self.curve.times_ms[-1] if self.curve.times_ms else -1
        first = next((i for i, at in enumerate(seen.times_ms) if at > last), len(seen.times_ms))
        return LoadCurve(
            self.curve.times_ms + seen.times_ms[first:],
            self.curve.bytes_per_s + seen.bytes_per_s[first:],
            self.curve.messages_per_s + seen.messages_per_s[first:],
        )


def of_bundle(
    bundle: str, times_ms: Indices, brokers: Sequence[str], flows: Floats, messages: Floats
) -> RecordedLoad:
    """The recorded load of a bundle, from its reports in order of time."""
    changes = [
        OwnerChange(int(at), bundle, ChangeKind.MOVED, source, destination)
        for at, source, destination in zip(times_ms[1:], brokers, brokers[1:], strict=False)
        if source != destination
    ]
    return RecordedLoad(_thinned(times_ms, flows, messages), tuple(changes[-CHANGES_MOST:]))


def of_broker(times_ms: Indices, flows: Floats, messages: Floats) -> RecordedLoad:
    """The recorded load of a broker, from its reports in order of time."""
    return RecordedLoad(_thinned(times_ms, flows, messages))


def _thinned(times_ms: Indices, flows: Floats, messages: Floats) -> LoadCurve:
    """Reduce a curve to at most `POINTS_MOST` points, each the mean of its interval."""
    if len(times_ms) > POINTS_MOST:
        first, last = int(times_ms[0]), int(times_ms[-1])
        place = (times_ms - first) * POINTS_MOST // (last - first + 1)
        flows, messages = _means(place, flows), _means(place, messages)
        times_ms = first + _means(place, times_ms - first).astype(np.intp)
    return LoadCurve(tuple(times_ms.tolist()), tuple(flows.tolist()), tuple(messages.tolist()))


def _means(place: Indices, values: Floats | Indices) -> Floats:
    """The mean of the values that belong to each place; places without values are omitted."""
    counts = np.bincount(place)
    there = counts > 0
    return np.asarray(np.bincount(place, values)[there] / counts[there], dtype=np.float64)
