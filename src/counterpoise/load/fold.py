"""The fold of load reports into the averages and the current state of a cluster.

The same fold runs in every broker, with one shard, and inside Spark, with several shards by the
hashes of bundles' names; its result does not depend on how polls are divided into batches, nor on
the number of shards. It is Pulsar's `ModularLoadManagerImpl.updateBundleData` with two differences:

* A report is one sample however often it is read. Pulsar samples every report again whenever any
  broker publishes.
* A bundle that no broker reports has no place in the view, but its averages are kept until
  `forget_after_ms` have passed since its last sample: it is on its way to another broker, which is
  chosen by these averages. Pulsar drops them at once and assumes a default. The averages of a
  bundle in the latest report of a listed broker are kept, however old that report is.

After a gap averages begin again: if a broker was not read for `lapse_after_ms`, its next report is
not averaged with the samples from before.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Final, NamedTuple

import numpy as np

from counterpoise.load.average import LONG_TERM_SAMPLES, SHORT_TERM_SAMPLES, fold_samples
from counterpoise.load.rows import (
    BROKER,
    BUNDLE,
    COLUMNS,
    POLL,
    RATES,
    REPORT,
    SAMPLE,
    SERVED,
    Column,
    ReportRows,
    Table,
    places,
)

TERMS: Final = ("short", "long")

AVERAGES: Final = (
    "bundle",
    "seen_at_ms",
    *(f"{term}_{column}" for term in TERMS for column in ("samples", *RATES)),
)
# The latest report of each listed broker; `report_poll` is the poll that first read it.
BROKERS: Final = (*REPORT, "report_poll")


FORGET_AFTER_MS: Final = 10 * 60 * 1000
LAPSE_AFTER_MS: Final = 3 * 60 * 1000
"""If a broker was not read for longer than this, the averages of its bundles begin again.

That is three measurements at Pulsar's default of one a minute, and three dozen polls of the
collector at its default."""


@dataclass(frozen=True, slots=True)
class FoldOptions:
    """How many samples an average covers, and how many milliseconds it is kept without new ones."""

    short_samples: int = SHORT_TERM_SAMPLES
    long_samples: int = LONG_TERM_SAMPLES
    forget_after_ms: int = FORGET_AFTER_MS
    lapse_after_ms: int = LAPSE_AFTER_MS

    @property
    def limits(self) -> Mapping[str, int]:
        """The largest number of samples of each average, ``short`` and ``long``."""
        return dict(zip(TERMS, (self.short_samples, self.long_samples), strict=True))


DEFAULT_OPTIONS: Final = FoldOptions()


@dataclass(frozen=True, slots=True)
class Batch:
    """Input of one `fold`: bundle samples and broker reports of any number of polls, sorted."""

    samples: Table
    reports: Table

    @staticmethod
    def of(rows: ReportRows) -> "Batch":
        """Split stored poll rows into bundle samples and broker reports."""
        bundles = rows["kind"] == BUNDLE
        return Batch.joined(
            [select(rows.columns, SAMPLE, bundles)], [select(rows.columns, REPORT, ~bundles)]
        )

    @staticmethod
    def joined(samples: Sequence[Table], reports: Sequence[Table]) -> "Batch":
        """Make one batch of the tables of several polls, given in any order."""
        return Batch(
            _in_order(_concatenated(samples, SAMPLE)), _in_order(_concatenated(reports, REPORT))
        )


@dataclass(frozen=True, slots=True)
class FoldState:
    """What `fold` remembers between two calls: three tables of equally long columns.

    `averages` has a row for each bundle (`AVERAGES`), `served` one for each bundle of each broker's
    latest report (`SERVED`), `brokers` one for each broker (`BROKERS`), by name.
    """

    averages: Table
    served: Table
    brokers: Table

    @staticmethod
    def empty() -> "FoldState":
        """The state before the first poll."""
        return FoldState(_empty(AVERAGES), _empty(SERVED), _empty(BROKERS))


def fold(state: FoldState, batch: Batch, options: FoldOptions = DEFAULT_OPTIONS) -> FoldState:
    """Add polled load reports to the state: bundles' averages and each broker's latest report."""
    brokers, gaps = _fold_brokers(state.brokers, batch.reports, options.lapse_after_ms)
    served = _fold_served(state.served, batch.samples, brokers)
    averages = _fold_averages(state.averages, batch.samples, gaps, served, options)
    return FoldState(averages, served, brokers)


def _fold_averages(
    averages: Table,
    samples: Table,
    gaps: Collection[tuple[int, str]],
    served: Table,
    options: FoldOptions,
) -> Table:
    """The averages with these samples added; ``gaps`` has each poll and broker at which averages
    begin again, because the broker had not been read for too long.
    """
    if len(samples["bundle"]) == 0:
        return averages
    rows, table = _rows_of(averages, samples["bundle"])
    figures = {term: _figures(table, f"{term}_") for term in TERMS}
    sampled, fetched, lapsed = _figures(samples), samples["fetched_at_ms"], _is_in(gaps, samples)
    for turn in _turns(rows):
        taken = (rows[turn], sampled[turn], fetched[turn], lapsed[turn])
        _take_samples(table, figures, *taken, options)
    for term in TERMS:
        for number, name in enumerate(RATES):
            table[f"{term}_{name}"] = figures[term][:, number].copy()
    newest = int(samples["fetched_at_ms"].max())
    kept = newest - table["seen_at_ms"] <= options.forget_after_ms
    if kept.all():
        return table
    reported = set(served["bundle"])
    kept |= np.fromiter((bundle in reported for bundle in table["bundle"]), np.bool_, len(kept))
    return select(table, AVERAGES, kept)


def _figures(table: Table, prefix: str = "") -> Column:
    """The rates of a table as one array, a row for each of its rows; ``prefix`` of the columns."""
    return np.stack([table[prefix + name] for name in RATES], axis=1)


def _is_in(gaps: Collection[tuple[int, str]], samples: Table) -> Column:
    """By sample: whether its poll and broker are one of these pairs."""
    found: Column = np.isin(samples["poll_id"], [poll for poll, _ in gaps])
    for row in np.flatnonzero(found).tolist():
        found[row] = (samples["poll_id"][row], samples["broker"][row]) in gaps
    return found


def _take_samples(
    table: dict[str, Column],
    figures: Mapping[str, Column],
    rows: Column,
    sampled: Column,
    fetched: Column,
    lapsed: Column,
    options: FoldOptions,
) -> None:
    """Add one sample to each of these rows of the averages, no row twice."""
    lapsed = lapsed | (fetched - table["seen_at_ms"][rows] > options.forget_after_ms)
    for term, limit in options.limits.items():
        counts = np.where(lapsed, 0, table[f"{term}_samples"][rows])
        folded = fold_samples(counts, figures[term][rows], sampled, limit)
        figures[term][rows] = folded.values
        table[f"{term}_samples"][rows] = folded.num_samples
    table["seen_at_ms"][rows] = fetched


def _rows_of(averages: Table, bundles: Column) -> tuple[Column, dict[str, Column]]:
    """The row of each of these bundles in a copy of the averages that has them all.

    Whenever bundles are new all are sorted by name, which makes it quick to merge shards.
    """
    had = len(averages["bundle"])
    rows = places(bundles, averages["bundle"])
    new = np.flatnonzero(rows < 0)
    if not len(new):
        table = {name: column.copy() for name, column in averages.items() if name != "bundle"}
        return rows, {"bundle": averages["bundle"], **table}
    coming: dict[str, int] = {}
    rows[new] = [coming.setdefault(name, had + len(coming)) for name in bundles[new].tolist()]
    added = len(coming)
    names = [*averages["bundle"].tolist(), *coming]
    order = np.array(sorted(range(len(names)), key=names.__getitem__), np.int64)
    place = np.empty(len(names), np.int64)
    place[order] = np.arange(len(names))
    table = {
        name: np.concatenate([column, np.zeros(added, column.dtype)])[order]
        for name, column in averages.items()
        if name != "bundle"
    }
    return place[rows], {"bundle": np.array(names, COLUMNS["bundle"])[order], **table}


def _turns(rows: Column) -> list[Column]:
    """Group samples so that each group has at most one of each bundle: the k-th has every bundle's
    k-th.

    Returns the positions of each group's samples.
    """
    if np.bincount(rows).max() == 1:
        return [np.arange(len(rows))]
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    lengths = np.diff(np.r_[starts, len(ordered)])
    turn = np.arange(len(ordered)) - np.repeat(starts, lengths)
    by_turn = order[np.lexsort((order, turn))]
    # Cut once: looking for each turn among all rows would take their number squared.
    return np.split(by_turn, np.cumsum(np.bincount(turn))[:-1])


def _fold_brokers(
    brokers: Table, reports: Table, lapse_after_ms: int
) -> tuple[Table, set[tuple[int, str]]]:
    """The latest report of each broker that is listed in the latest successful poll.

    A broker that leaves is removed at once; one that does not answer is not. The second result has
    each poll and broker that was read again after more than ``lapse_after_ms``.
    """
    gaps = set()
    latest = {
        name: _Latest(brokers, row, int(brokers["report_poll"][row]))
        for row, name in enumerate(brokers["broker"])
    }
    listing = np.flatnonzero((reports["kind"] != POLL) | (reports["note"] == ""))
    # `split` needs reports in the order of polls, as they are.
    polls, starts = np.unique(reports["poll_id"][listing], return_index=True)
    for poll, those in zip(polls.tolist(), np.split(listing, starts[1:]), strict=False):
        rows = [row for row in those.tolist() if reports["kind"][row] != POLL]
        listed = {reports["broker"][row] for row in rows}
        latest = {name: known for name, known in latest.items() if name in listed}
        for row in rows:
            name = reports["broker"][row]
            if reports["kind"][row] == BROKER:
                known = latest.get(name)
                read_ms = int(reports["fetched_at_ms"][row])
                if known is not None and read_ms - known.read_ms > lapse_after_ms:
                    gaps.add((poll, name))
                again = known is not None and not reports["fresh"][row]
                first = known.report_poll if known is not None and again else poll
                latest[name] = _Latest(reports, row, first)
    chosen = [latest[name] for name in sorted(latest)]
    table = {
        name: np.array([one.table[name][one.row] for one in chosen], _dtype(name))
        for name in REPORT
    }
    table["report_poll"] = np.array([one.report_poll for one in chosen], np.int64)
    return table, gaps


class _Latest(NamedTuple):
    """The row of a broker's latest report, and the poll at which it was first read."""

    table: Table
    row: int
    report_poll: int

    @property
    def read_ms(self) -> int:
        """The time at which the report was read, in milliseconds."""
        return int(self.table["fetched_at_ms"][self.row])


def _fold_served(served: Table, samples: Table, brokers: Table) -> Table:
    """The bundles of each broker's latest report, broker by broker."""
    polls = dict(zip(brokers["broker"].tolist(), brokers["report_poll"].tolist(), strict=True))

    def current(table: Table) -> Column:
        names = table["broker"].tolist()
        expected = np.fromiter(map(polls.get, names, repeat(-1)), np.int64, len(names))
        matches: Column = np.equal(expected, table["poll_id"])
        return matches

    old, new = current(served), current(samples)
    return {name: np.concatenate([served[name][old], samples[name][new]]) for name in SERVED}


def without_brokers(state: FoldState, brokers: Collection[str]) -> FoldState:
    """The state without these brokers and the bundles that they report."""
    if not brokers:
        return state
    kept = ~np.isin(state.brokers["broker"], [*brokers])
    served = ~np.isin(state.served["broker"], [*brokers])
    return FoldState(
        state.averages,
        {name: column[served] for name, column in state.served.items()},
        {name: column[kept] for name, column in state.brokers.items()},
    )


def merged(shards: Sequence[FoldState]) -> FoldState:
    """Combine the states of all shards into one, sorted, whatever their number."""
    averages = _concatenated([shard.averages for shard in shards], AVERAGES)
    served = _concatenated([shard.served for shard in shards], SERVED)
    names = served["broker"].tolist()
    rank = {name: number for number, name in enumerate(sorted(set(names)))}
    brokers = np.fromiter(map(rank.__getitem__, names), np.int64, len(names))
    by_report = np.lexsort((served["seq"], served["poll_id"], brokers))
    return FoldState(
        select(averages, AVERAGES, np.argsort(averages["bundle"], kind="stable")),
        select(served, SERVED, by_report),
        shards[0].brokers if shards else _empty(BROKERS),
    )


def _concatenated(tables: Sequence[Table], names: tuple[str, ...]) -> Table:
    return {name: np.concatenate([table[name] for table in tables]) for name in names}


def _in_order(table: Table) -> Table:
    """The rows sorted by poll and position in it (``poll_id``, ``seq``)."""
    order = np.lexsort((table["seq"], table["poll_id"]))
    return select(table, tuple(table), order)


def select(table: Table, names: tuple[str, ...], rows: Column) -> dict[str, Column]:
    """The columns ``names`` of a table, reduced to ``rows`` (indices or a mask)."""
    return {name: table[name][rows] for name in names}


def _dtype(name: str) -> "np.dtype[Any]":
    if name in COLUMNS:
        return COLUMNS[name]
    return np.dtype(np.int64 if name.endswith(("samples", "poll", "_ms")) else np.float64)


def _empty(names: tuple[str, ...]) -> dict[str, Column]:
    return {name: np.zeros(0, _dtype(name)) for name in names}
