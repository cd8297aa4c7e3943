"""A trace of a changed cluster: with more or fewer brokers, larger ones, or more load.

An added broker has the median size of the others, and measures when they do. The load of a bundle
does not depend on its broker: the recorded load is replayed on the changed cluster.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from counterpoise.load.rates import Floats, Indices, Rates
from counterpoise.load.usage import CPU
from counterpoise.load.view import Masks
from counterpoise.names.bundle import BundleRange, namespace_of, range_of
from counterpoise.names.errors import ExplainedError, InvalidName
from counterpoise.pipeline.backtest.measure import BacktestResult
from counterpoise.pipeline.backtest.measurements import RATE_NAMES
from counterpoise.pipeline.backtest.split_trace import SplitTrace
from counterpoise.pipeline.backtest.trace import DerivedTrace, Hosts, LoadTrace, Source

_HASHES = 2**32
_ROUNDED = 1e-3
"""The largest error of a bundle's rounded boundary, as a part of the bundle's width."""


class ImpossibleChangeError(ExplainedError, ValueError):
    """The trace cannot be replayed with this change; the message says why."""


@dataclass(frozen=True, slots=True)
class Change:
    """How a simulated cluster differs from a trace's: brokers, load, capacity, bundles."""

    added: int = 0
    """The number of additional brokers, empty at the start."""
    without: tuple[str, ...] = ()
    """Brokers that are removed; lookups place their bundles at the start."""
    load: float = 1.0
    """The factor by which each bundle's load is multiplied."""
    capacity: tuple[tuple[str, float], ...] = ()
    """By broker, the factor by which its size is multiplied: 0.5 is half."""
    bundles: tuple[tuple[str, int], ...] = ()
    """By namespace, the number of bundles that it is to have."""

    def sentences(self) -> list[str]:
        """Sentences that describe what is changed, and what the replay assumes about it."""
        named = ", ".join(_new_names(self.added))
        lines = []
        if self.added:
            lines.append(
                f"{self.added} brokers more ({named}), empty at first, each taken for the median "
                "of those that are there"
            )
        if self.without:
            lines.append(f"without {', '.join(self.without)}: their bundles are placed at once")
        if self.load != 1.0:
            lines.append(f"every bundle carries {self.load:g} times what it did")
        lines += [f"{broker} is {factor:g} times as large" for broker, factor in self.capacity]
        lines += [
            f"{namespace} is made of {count} bundles: topics whose load was recorded go where "
            "they hash to, the others are taken to be equally busy, and fall where chance has them"
            for namespace, count in self.bundles
        ]
        return lines


@dataclass(frozen=True)
class ChangedSource:
    """The source of a trace with a `Change` applied; serialisable."""

    source: Source
    change: Change

    def open(self) -> "ChangedTrace":
        """Return the changed trace, which is built once per process. Raises
        `ImpossibleChangeError`.
        """
        return _opened(self)


class ChangedTrace(DerivedTrace):
    """A trace with a `Change` applied to its cluster."""

    def __init__(self, whole: LoadTrace, change: Change) -> None:
        split = SplitTrace(whole, _part_counts(whole, change.bundles)) if change.bundles else whole
        super().__init__(split)
        _expect_known(whole.brokers, (*change.without, *(name for name, _ in change.capacity)))
        if len(whole.brokers) + change.added == len(set(change.without)):
            raise ImpossibleChangeError("no broker is left: leave one, or add some")
        names = np.array([*whole.brokers, *_new_names(change.added)], dtype=object)
        order = np.argsort(names, kind="stable")
        self.brokers = tuple(names[order].tolist())
        self._places = np.argsort(order, kind="stable")[: len(whole.brokers)]
        """The index in `brokers` of each broker of the unchanged trace."""
        # These include bundles of removed brokers, which the first step places.
        self.owners = self._places[self._whole.owners]
        self._there = np.array([name not in change.without for name in self.brokers])
        self._load = change.load
        factors = dict(change.capacity)
        self.hosts: Hosts = _ChangedHosts.of(
            whole.hosts, self._places, np.array([factors.get(name, 1.0) for name in self.brokers])
        )

    def loads(self, step: int) -> Rates:
        """The load of each bundle at a step, with the changes applied."""
        loads = self._whole.loads(step)
        return Rates(*(getattr(loads, name) * self._load for name in RATE_NAMES))

    def up(self, step: int) -> Masks:
        """The brokers that are present at a step, as a mask."""
        up: Masks = self._spread(self._whole.up(step), others=True) & self._there
        return up

    def measured(self, step: int) -> Masks | None:
        """The brokers that measure at the end of the step; None if all do at every step. An added
        broker measures when the first one does.
        """
        measured = self._whole.measured(step)
        return None if measured is None else self._spread(measured, others=bool(measured[0]))

    def _spread(self, mask: Masks, *, others: bool) -> Masks:
        found = np.full(len(self.brokers), others)
        found[self._places] = mask
        return found


@dataclass(frozen=True)
class _ChangedHosts(Hosts):
    """Hosts of a changed cluster: brokers of the recording keep their recorded usage, scaled by
    capacity.
    """

    whole: Hosts
    places: Indices
    factors: Floats

    @staticmethod
    def of(whole: Hosts, places: Indices, factors: Floats) -> "_ChangedHosts":
        def spread(column: Floats) -> Floats:
            found = np.full(len(factors), float(np.median(column)))
            found[places] = column
            return found

        return _ChangedHosts(
            spread(whole.bytes_most) * factors,
            spread(whole.cpu_idle),
            spread(whole.cpu_of_rate) / factors,
            whole,
            places,
            factors,
        )

    def usage(self, loads: Rates, step: int = 0) -> Floats:
        """Per cent used at a step, one row per broker, columns in the order of `load/usage.py`."""
        used = Hosts.usage(self, loads, step)
        known = Rates(*(getattr(loads, name)[self.places] for name in RATE_NAMES))
        used[self.places] = self.whole.usage(known, step) / self.factors[self.places, np.newaxis]
        used[:, CPU] = np.minimum(100.0, used[:, CPU])
        return used


@lru_cache(maxsize=2)
def _opened(source: ChangedSource) -> ChangedTrace:
    return ChangedTrace(source.source.open(), source.change)


def _new_names(added: int) -> list[str]:
    return [f"new-{number}" for number in range(1, added + 1)]


def _expect_known(brokers: Sequence[str], named: Sequence[str]) -> None:
    for name in named:
        if name not in brokers:
            few = ", ".join(brokers[:5]) + (" and more" if len(brokers) > 5 else "")
            raise ImpossibleChangeError(f"{name} is no broker of this load: there are {few}")


def _part_counts(whole: LoadTrace, bundles: Sequence[tuple[str, int]]) -> list[int]:
    """The number of parts into which each bundle is split."""
    counts = dict(bundles)
    known = {namespace_of(name) for name in whole.bundles}
    for namespace in counts:
        if namespace not in known:
            raise ImpossibleChangeError(f"{namespace} has no bundle in this load")
    return [_parts(name, counts.get(namespace_of(name))) for name in whole.bundles]


def _parts(bundle: str, count: int | None) -> int:
    if count is None:
        return 1
    try:
        here = BundleRange.parse(range_of(bundle))
    except InvalidName as error:
        raise ImpossibleChangeError(f"{bundle} cannot be split: {error}") from None
    # Boundaries are rounded down where 2**32 is no multiple of the number of bundles, as of 24.
    share = (here.upper - here.lower) * count / _HASHES
    parts = round(share)
    if parts < 1 or abs(share - parts) > _ROUNDED:
        raise ImpossibleChangeError(
            f"{namespace_of(bundle)} of {count} bundles cannot be replayed: {range_of(bundle)} "
            f"would be {share:.3g} of them, and bundles are split into whole ones, not joined"
        )
    return parts


SizedReplay = Callable[[int], BacktestResult]
"""Replays the load with that many additional brokers (negative: fewer brokers)."""


def resized(change: Change, brokers: Sequence[str], more: int) -> Change:
    """The change with `more` brokers added; if negative, the last ones by name are removed."""
    if more >= 0:
        return replace(change, added=change.added + more)
    there = [name for name in brokers if name not in change.without]
    return replace(change, without=(*change.without, *there[more:]))


def fewest_brokers(replay: SizedReplay, most_used: float, fewest: int, most: int) -> int | None:
    """The least number of brokers to add so that none uses more than `most_used` per cent; None if
    `most` do not suffice.

    Assumes that usage falls as brokers are added. `fewest`, where the search starts, may be
    negative.
    """
    low, high = fewest, 0
    while replay(high).usage > most_used:
        if high >= most:
            return None
        low, high = high + 1, min(most, max(1, 2 * high))
    while low < high:
        middle = (low + high) // 2
        if replay(middle).usage > most_used:
            low = middle + 1
        else:
            high = middle
    return high
