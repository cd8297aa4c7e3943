"""A piece of a cluster's past: what each broker's bundles carried, summed from topics' series."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from counterpoise.load.rates import Floats
from counterpoise.load.rows import RATES, RESOURCES, Column
from counterpoise.load.topic_loads import BundleTopicLoads, TopicLoad
from counterpoise.load.view import Integers
from counterpoise.pipeline.prometheus.series import SeriesPlace
from counterpoise.pipeline.prometheus.time_grid import TimeGrid

Pair = tuple[str, str]
"""A broker, and a bundle that it has series of."""


@dataclass(frozen=True, slots=True)
class SeriesSums:
    """The series of one metric, summed by broker and bundle, for each moment.

    In metrics of brokers themselves the bundle's name is empty.
    """

    pairs: tuple[Pair, ...]
    sums: Floats
    """The sum of the series by pair and moment; 0 where there is no value."""
    counts: Integers
    """How many series have a value, by pair and moment."""
    means: Mapping[Pair, Mapping[str, float]] = field(default_factory=dict)
    """By pair and topic, the mean of the topic's series over all moments; empty if not
    requested."""


@dataclass(frozen=True, slots=True)
class ClusterPiece:
    """A cluster's load at some times; arrays have a row per broker, or per broker and bundle."""

    grid: TimeGrid
    brokers: tuple[str, ...]
    """The brokers, sorted."""
    pairs: tuple[Pair, ...]
    """The pairs of broker and bundle, sorted."""
    present: Integers
    """By pair and moment, the number of series; 0: the broker has no topic of the bundle."""
    rates: Mapping[str, Floats]
    counts: Mapping[str, Integers]
    """The numbers of topics, producers and consumers."""
    usage: Mapping[str, Floats]
    """Per cent used, by resource; NaN where it is not known."""
    averages: Floats
    """Each broker's own average of its usage, as a fraction; NaN where it has none."""
    values: int
    """How many values of series the piece was made of."""
    topic_loads: Mapping[Pair, BundleTopicLoads] = field(default_factory=dict)
    """By pair, the mean loads of topics over the piece's moments; empty if not requested."""


class SeriesGroups:
    """Groups the series of one metric by broker and bundle, for all answers with these series."""

    def __init__(self, places: Sequence[SeriesPlace | None]) -> None:
        rows: dict[tuple[str, str, str], int] = {}
        self._again: list[tuple[int, int]] = []
        for row, place in enumerate(places):
            if place is None:
                continue
            key = (place.broker, place.bundle, place.topic)
            if (first := rows.setdefault(key, row)) != row:
                self._again.append((first, row))
        keys = [(broker, bundle) for broker, bundle, _ in rows]
        self._pairs = tuple(sorted(set(keys)))
        number = {pair: at for at, pair in enumerate(self._pairs)}
        of_row = np.array([number[key] for key in keys], np.intp)
        order = np.argsort(of_row, kind="stable")
        self._starts = np.searchsorted(of_row[order], np.arange(len(self._pairs)))
        self._rows = np.array(list(rows.values()), np.intp)[order]
        names = list(rows)
        self._names = [names[row] for row in order.tolist()]

    def summed(self, values: Floats, *, by_topic: bool = False) -> SeriesSums:
        """Sum series by broker and bundle; with `by_topic`, the result has each topic's mean too.

        Of two series of one topic on one broker only one counts: the broker was scraped twice, or
        under another address.
        """
        if self._again:
            values = values.copy()
            for first, row in self._again:
                values[first] = np.where(np.isnan(values[first]), values[row], values[first])
        if not self._pairs:
            nothing = np.zeros((0, values.shape[1]))
            return SeriesSums((), nothing, nothing.astype(np.int64))
        chosen = values[self._rows]
        missing = np.isnan(chosen)
        chosen[missing] = 0.0
        counts = np.add.reduceat(~missing, self._starts, axis=0, dtype=np.int64)
        sums = np.add.reduceat(chosen, self._starts, axis=0)
        if not by_topic:
            return SeriesSums(self._pairs, sums, counts)
        means: dict[Pair, dict[str, float]] = {pair: {} for pair in self._pairs}
        for name, mean in zip(self._names, chosen.mean(axis=1).tolist(), strict=True):
            broker, bundle, topic = name
            means[broker, bundle][topic] = mean
        return SeriesSums(self._pairs, sums, counts, means)


def piece_of(
    grid: TimeGrid,
    rates: Sequence[SeriesSums],
    counts: Mapping[str, SeriesSums],
    usage: Sequence[SeriesSums],
    averages: SeriesSums,
) -> ClusterPiece:
    """Combine sums of metrics: `rates` in the order of `RATES`, `usage` in that of `RESOURCES`."""
    # A sum by namespace, which may be among the series, has no bundle.
    pairs = tuple(sorted({pair for each in rates for pair in each.pairs if pair[1]}))
    named = {broker for broker, _ in pairs}
    named |= {broker for each in (*usage, averages) for broker, _ in each.pairs}
    brokers = tuple(sorted(named))
    own = tuple((broker, "") for broker in brokers)
    present = np.zeros((len(pairs), grid.count), np.int64)
    for each in rates:
        present = np.maximum(present, _laid(each.pairs, each.counts, pairs))
    found = {
        name: _laid(each.pairs, np.rint(each.sums).astype(np.int64), pairs)
        for name, each in counts.items()
    }
    found.setdefault("topics", present)
    every = (*rates, *counts.values(), *usage, averages)
    return ClusterPiece(
        grid,
        brokers,
        pairs,
        present,
        {
            name: _laid(each.pairs, each.sums, pairs)
            for name, each in zip(RATES, rates, strict=True)
        },
        found,
        {name: _mean(each, own) for name, each in zip(RESOURCES, usage, strict=True)},
        _mean(averages, own),
        sum(int(each.counts.sum()) for each in every),
        {pair: _topic_loads(rates, pair) for pair in pairs if any(each.means for each in rates)},
    )


def _topic_loads(rates: Sequence[SeriesSums], pair: Pair) -> BundleTopicLoads:
    found = [each.means.get(pair, {}) for each in rates]
    names = {name for each in found for name in each}
    loads = {name: TopicLoad(*(each.get(name, 0.0) for each in found)) for name in names}
    return BundleTopicLoads.of(loads)


def _mean(each: SeriesSums, pairs: Sequence[Pair]) -> Floats:
    """By broker and moment: the mean of the broker's series; NaN where it has none."""
    sums, counts = (_laid(each.pairs, table, pairs) for table in (each.sums, each.counts))
    means: Floats = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
    return means


def _laid(names: Sequence[Pair], table: Column, pairs: Sequence[Pair]) -> Column:
    """The rows of `table`, which belong to `names`, in the order of `pairs`; 0 where missing."""
    if tuple(names) == tuple(pairs):
        return table
    place = {pair: at for at, pair in enumerate(pairs)}
    kept = [(at, place[pair]) for at, pair in enumerate(names) if pair in place]
    laid: Column = np.zeros((len(pairs), table.shape[1]), table.dtype)
    if kept:
        source, target = (np.array(each, np.intp) for each in zip(*kept, strict=True))
        laid[target] = table[source]
    return laid
