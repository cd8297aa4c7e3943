"""The cluster as columns, the input of every strategy of the modular load manager.

A :class:`ClusterView` has the content of Pulsar's ``LoadData``: brokers with their reports, bundles
with their averages, and which bundles were unloaded recently. Brokers and bundles are sorted by
name, so iteration is deterministic, and ties are broken by name.
"""

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, repeat
from operator import le
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from counterpoise.load.rates import Columns, Floats, Indices, Rates
from counterpoise.load.store_view import NO_RULES, BundleRules
from counterpoise.load.usage import Float32s, weighted_max
from counterpoise.names.bundle import namespace_of
from counterpoise.names.namespace import bound_to_broker

Masks = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class BrokerColumns(Columns):
    """One entry per broker, in the order of ``ClusterView.brokers``."""

    usage: Float32s
    """Percent used, one row per broker, columns in ``usage.RESOURCES`` order; not clamped."""
    traffic: Rates
    """The broker's traffic as it reports it."""
    bundle_count: Integers
    """How many bundles the broker reports, system ones and those without ``bundleData``
    included."""
    topics: Integers
    short_average: Rates
    """``timeAverageData``, short term: the sums over its bundles' averages."""
    long_average: Rates
    preallocated_rate: Floats
    """Long-term messages/s of bundles assigned but not yet reported."""
    load_average: Floats
    """The broker's own average of its usage (extensible manager), a fraction; 0: unknown."""
    measured_ms: Integers
    """When the broker made its report, in milliseconds since 1970; 0 if that is not known."""

    @staticmethod
    def of(
        usage: Float32s, traffic: Rates, bundle_count: Integers | Sequence[int], **more: Any
    ) -> "BrokerColumns":
        """Build the columns; an optional column that ``more`` omits is zero."""
        count = len(traffic)
        return BrokerColumns(
            usage,
            traffic,
            np.asarray(bundle_count, dtype=np.int64),
            more.get("topics", np.zeros(count, np.int64)),
            more.get("short_average", Rates.zeros(count)),
            more.get("long_average", Rates.zeros(count)),
            more.get("preallocated_rate", np.zeros(count)),
            more.get("load_average", np.zeros(count)),
            more.get("measured_ms", np.zeros(count, np.int64)),
        )


@dataclass(frozen=True, slots=True, eq=False)
class BundleColumns(Columns):
    """One entry per bundle of ``bundleData``, in the order of ``ClusterView.bundles``."""

    short: Rates
    long: Rates
    topics: Integers
    samples: Integers
    """Rows of four numbers: the limit and the number of samples, short and long term."""
    recently_unloaded: Masks
    movable: Masks
    """False in namespaces that are bound to one broker (heartbeat, SLA monitor)."""

    @staticmethod
    def of(
        bundles: Sequence[str],
        short: Rates,
        long: Rates,
        topics: Integers | None = None,
        samples: Integers | None = None,
        recently_unloaded: Collection[str] = (),
    ) -> "BundleColumns":
        """Build the columns of these bundles; a column that is not given is zero."""
        count = len(bundles)
        return BundleColumns(
            short,
            long,
            np.zeros(count, np.int64) if topics is None else topics,
            np.zeros((count, 4), np.int64) if samples is None else samples,
            unloaded_mask(bundles, recently_unloaded),
            movable_mask(bundles),
        )


@dataclass(frozen=True, slots=True, eq=False)
class ClusterView:
    """Load of brokers and bundles at one time, and which broker reports which bundle.

    ``members[offsets[i]:offsets[i + 1]]`` are the bundles that broker ``i`` reports, as rising
    indices into ``bundles``. Reports may be stale: a bundle can be reported by several brokers, or
    by none, and a reported bundle without ``bundleData`` is only counted (``bundle_count``).
    """

    now_ms: int
    brokers: tuple[str, ...]
    bundles: tuple[str, ...]
    broker: BrokerColumns
    bundle: BundleColumns
    offsets: Indices
    members: Indices
    row_of: Mapping[str, int]
    """The row of each broker, by name."""
    reporter: Indices
    """By bundle: the first broker that reports it, or -1 for none."""
    rules: BundleRules = NO_RULES
    """Where policies allow bundles, for strategies that choose destinations themselves.

    For other strategies the destinations are checked afterwards."""

    @staticmethod
    def from_load_data(value: object) -> "ClusterView":
        """Build the view from a parsed ``LoadData`` JSON object.

        Raises ``LoadDataError`` naming the field and what was expected there.
        """
        from counterpoise.load.view_json import view_from_json

        return view_from_json(value)

    @staticmethod
    def from_columns(
        *,
        now_ms: int,
        brokers: Sequence[str],
        broker: BrokerColumns,
        bundles: Sequence[str],
        bundle: BundleColumns,
        reported: tuple[Indices, Indices],
    ) -> "ClusterView":
        """Build the view from columns in any order.

        ``reported`` holds pairs (broker index, bundle index), each pair once: which broker reports
        which bundle.
        """
        names, broker, owner = _by_name(brokers, broker, reported[0])
        sorted_bundles, bundle, member = _by_name(bundles, bundle, reported[1])
        order = np.lexsort((member, owner))
        offsets = np.zeros(len(brokers) + 1, dtype=np.intp)
        np.cumsum(np.bincount(owner, minlength=len(brokers)), out=offsets[1:])
        members = member[order]
        return ClusterView(
            now_ms,
            names,
            sorted_bundles,
            broker,
            bundle,
            offsets,
            members,
            {name: row for row, name in enumerate(names)},
            _first_reporters(offsets, members, len(bundles)),
        )

    def with_reports(self, offsets: Indices, members: Indices) -> "ClusterView":
        """A copy in which brokers report other bundles; arguments as the fields so named."""
        first = _first_reporters(offsets, members, len(self.bundles))
        return replace(self, offsets=offsets, members=members, reporter=first)

    def with_preallocated(self, rates: Sequence[float]) -> "ClusterView":
        """A copy with another ``preallocated_rate`` (messages/s) for each broker."""
        column = np.array(rates, dtype=np.float64)
        return replace(self, broker=replace(self.broker, preallocated_rate=column))

    def reported_by(self, broker: int) -> Indices:
        """The bundles that broker ``broker`` (an index) reports, as ascending indices."""
        found: Indices = self.members[self.offsets[broker] : self.offsets[broker + 1]]
        return found

    def reporters(self, bundle: int) -> list[int]:
        """The brokers (ascending indices) that report bundle ``bundle`` (an index)."""
        places = np.flatnonzero(self.members == bundle)
        found: list[int] = (np.searchsorted(self.offsets, places, side="right") - 1).tolist()
        return found

    def first_reporter(self, bundle: int) -> int | None:
        """The index of the first broker that reports this bundle (an index); None if none does."""
        first = self.reporter.item(bundle)
        return None if first < 0 else first

    def carried(self, bundle: str) -> float:
        """A bundle's bytes/s in plus out, by its short-term average; 0 if it is unknown."""
        row = self.bundle_index(bundle)
        return 0.0 if row is None else self.bundle.short.throughput_of(row)

    def candidates(self, brokers: Indices, movable: Masks | None = None) -> tuple[Indices, Indices]:
        """The bundles of ``brokers`` (indices) that may be unloaded: movable, and not unloaded
        recently.

        Returns bundle indices, broker after broker and rising within each, and the bounds of each
        broker's part in them. ``movable`` replaces the view's own mask, for a strategy with another
        rule.
        """
        starts = self.offsets[brokers]
        lengths = self.offsets[brokers + 1] - starts
        ends = lengths.cumsum()
        places = np.arange(ends[-1] if len(ends) else 0) + (starts - ends + lengths).repeat(lengths)
        rows = self.members[places]
        may_move = (self.bundle.movable if movable is None else movable)[rows]
        free = may_move & ~self.bundle.recently_unloaded[rows]
        before = np.zeros(len(rows) + 1, dtype=np.intp)
        free.cumsum(out=before[1:])
        bounds = np.zeros(len(brokers) + 1, dtype=np.intp)
        bounds[1:] = before[ends]
        return rows[free], bounds

    def weighted_usage(self, weights: Floats) -> Floats:
        """Each broker's largest resource usage after weighting, as a fraction (0.85, not 85)."""
        return weighted_max(self.broker.usage, weights)

    def broker_index(self, name: str) -> int | None:
        """The index of a broker in ``brokers``; None if it is not there."""
        return self.row_of.get(name)

    def bundle_index(self, name: str) -> int | None:
        """The index of a bundle in ``bundles``; None if it is not there."""
        index = bisect_left(self.bundles, name)
        return index if index < len(self.bundles) and self.bundles[index] == name else None


_Columns = TypeVar("_Columns", BrokerColumns, BundleColumns)


def _first_reporters(offsets: Indices, members: Indices, bundles: int) -> Indices:
    first = np.full(bundles, -1, dtype=np.intp)
    # Assigned from the last broker to the first, so that the first one remains.
    first[members[::-1]] = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))[::-1]
    return first


def _by_name(
    names: Sequence[str], columns: _Columns, rows: Indices
) -> tuple[tuple[str, ...], _Columns, Indices]:
    """Names and their columns, sorted by name, and the new index of each of ``rows``."""
    if all(map(le, names, islice(names, 1, None))):
        return tuple(names), columns, np.asarray(rows, dtype=np.intp)
    order = np.array(sorted(range(len(names)), key=names.__getitem__), dtype=np.intp)
    rank = np.empty(len(names), dtype=np.intp)
    rank[order] = np.arange(len(names))
    return tuple(map(names.__getitem__, order.tolist())), columns.take(order), rank[rows]


def movable_mask(bundles: Sequence[str]) -> Masks:
    """Whether a shedder may move each bundle: not if its namespace is bound to one broker."""
    mask = np.ones(len(bundles), dtype=np.bool_)
    maybe = np.fromiter(map(str.startswith, bundles, repeat(BOUND_TENANTS)), np.bool_, len(bundles))
    for index in np.flatnonzero(maybe).tolist():
        mask[index] = not bound_to_broker(bundle_namespace(bundles[index]))
    return mask


BOUND_TENANTS: Final = ("pulsar/", "sla-monitor/")
"""The prefixes of the names of bundles that may be bound to a broker."""


def bundle_namespace(bundle: str) -> str:
    """The namespace in a bundle's name; a text without one is returned as it is."""
    namespace = namespace_of(bundle)
    return namespace if "/" in namespace else bundle


def unloaded_mask(bundles: Sequence[str], recently_unloaded: Collection[str]) -> Masks:
    """For each of ``bundles``, whether it is in ``recently_unloaded``."""
    if not recently_unloaded:
        return np.zeros(len(bundles), dtype=np.bool_)
    recent = frozenset(recently_unloaded)
    return np.fromiter(map(recent.__contains__, bundles), np.bool_, len(bundles))
