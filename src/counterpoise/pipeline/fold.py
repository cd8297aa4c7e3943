"""The fold of load reports into the averages and the current picture of a cluster.

The same fold runs in the leader's process, one shard, and inside Spark, one shard for each hash of
the bundles' names; its result does not depend on how the polls are cut into batches, nor on the
number of shards. It is Pulsar's `ModularLoadManagerImpl.updateBundleData` with two differences,
both about samples that never were: a report is one sample however often it is read (Pulsar samples
every report again whenever any broker publishes), and a bundle that is in no report for a moment,
because it is moving, keeps its averages until `forget_after_ms` (Pulsar drops them at once).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from counterpoise.load.average import LONG_TERM_SAMPLES, SHORT_TERM_SAMPLES
from counterpoise.load.average import fold as fold_samples
from counterpoise.pipeline.rows import (
    BROKER,
    BUNDLE,
    COLUMNS,
    GAP,
    POLL,
    RATES,
    REPORT,
    SAMPLE,
    Column,
    ReportRows,
    Table,
)

FORGET_AFTER_MS: Final = 10 * 60 * 1000

TERMS: Final[Mapping[str, int]] = {"short": SHORT_TERM_SAMPLES, "long": LONG_TERM_SAMPLES}

AVERAGES: Final = (
    "bundle",
    "seen_at_ms",
    *(f"{term}_{column}" for term in TERMS for column in ("samples", *RATES)),
)
# A listed broker's latest report; `report_poll` is the poll that first read it.
BROKERS: Final = (*REPORT, "report_poll")


@dataclass(frozen=True, slots=True)
class Batch:
    """What one fold takes: bundle samples and broker reports of any number of polls, in order."""

    samples: Table
    reports: Table

    @staticmethod
    def of(rows: ReportRows) -> "Batch":
        """Sort landed rows into the two tables."""
        rows = rows.ordered()
        return Batch(
            select(rows.columns, SAMPLE, rows["kind"] == BUNDLE),
            select(rows.columns, REPORT, rows["kind"] != BUNDLE),
        )


@dataclass(frozen=True, slots=True)
class FoldState:
    """All that is remembered between two folds: three tables of equally long columns.

    `averages` has a row for each bundle (`AVERAGES`), `served` one for each bundle of each broker's
    latest report (`SAMPLE`), `brokers` one for each broker (`BROKERS`), by name.
    """

    averages: Table
    served: Table
    brokers: Table

    @staticmethod
    def empty() -> "FoldState":
        """Nothing seen yet."""
        return FoldState(_empty(AVERAGES), _empty(SAMPLE), _empty(BROKERS))


def fold(state: FoldState, batch: Batch, forget_after_ms: int = FORGET_AFTER_MS) -> FoldState:
    """The state after these polls."""
    brokers = _fold_brokers(state.brokers, batch.reports)
    return FoldState(
        _fold_averages(state.averages, batch, forget_after_ms),
        _fold_served(state.served, batch.samples, brokers),
        brokers,
    )


def _fold_averages(averages: Table, batch: Batch, forget_after_ms: int) -> Table:
    samples = batch.samples
    if len(samples["bundle"]) == 0:
        return averages
    rows, table = _rows_of(averages, samples["bundle"])
    for turn in _turns(rows):
        _take_samples(table, rows[turn], select(samples, SAMPLE, turn), forget_after_ms)
    newest = int(samples["fetched_at_ms"].max())
    kept = newest - table["seen_at_ms"] <= forget_after_ms
    return table if kept.all() else select(table, AVERAGES, kept)


def _take_samples(
    table: dict[str, Column], rows: Column, samples: Table, forget_after_ms: int
) -> None:
    """Fold one sample for each of these (different) rows of the averages."""
    lapsed = samples["fetched_at_ms"] - table["seen_at_ms"][rows] > forget_after_ms
    for term, limit in TERMS.items():
        counts = np.where(lapsed, 0, table[f"{term}_samples"][rows])
        for name in RATES:
            average = table[f"{term}_{name}"]
            folded = fold_samples(counts, average[rows], samples[name], limit)
            average[rows] = folded.values
        table[f"{term}_samples"][rows] = folded.num_samples
    table["seen_at_ms"][rows] = samples["fetched_at_ms"]


def _rows_of(averages: Table, bundles: Column) -> tuple[Column, dict[str, Column]]:
    """The row of each of these bundles in a copy of the averages that has them all."""
    known = dict(zip(averages["bundle"], range(len(averages["bundle"])), strict=True))
    rows = np.fromiter(
        (known.setdefault(bundle, len(known)) for bundle in bundles), np.int64, len(bundles)
    )
    added = len(known) - len(averages["bundle"])
    table = {
        name: np.concatenate([column, np.zeros(added, column.dtype)])
        for name, column in averages.items()
    }
    if added:
        table["bundle"] = np.array(list(known), COLUMNS["bundle"])
    return rows, table


def _turns(rows: Column) -> list[Column]:
    """Positions in turns: the k-th turn holds each bundle's k-th sample."""
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    lengths = np.diff(np.r_[starts, len(ordered)])
    turn = np.arange(len(ordered)) - np.repeat(starts, lengths)
    return [np.sort(order[turn == number]) for number in range(int(lengths.max()))]


def _fold_brokers(brokers: Table, reports: Table) -> Table:
    """Each broker's latest report; who is listed is what the latest poll that worked says."""
    if len(reports["poll_id"]) == 0:
        return brokers
    listing = reports["poll_id"][np.isin(reports["kind"], (BROKER, GAP))]
    latest: dict[str, tuple[Table, int, int]] = {}
    for row, name in enumerate(brokers["broker"]):
        latest[name] = (brokers, row, int(brokers["report_poll"][row]))
    for row in np.flatnonzero(reports["kind"] == BROKER).tolist():
        name = reports["broker"][row]
        poll = int(reports["poll_id"][row])
        fresh = bool(reports["fresh"][row]) or name not in latest
        latest[name] = (reports, row, poll if fresh else latest[name][2])
    if len(listing):
        newest = reports["poll_id"] == listing.max()
        listed = set(reports["broker"][newest & (reports["kind"] != POLL)])
    else:
        listed = set(brokers["broker"])
    # A broker that left the cluster is forgotten; one that does not answer is not.
    chosen = [entry for name, entry in sorted(latest.items()) if name in listed]
    table = {
        name: np.array([source[name][row] for source, row, _ in chosen], _dtype(name))
        for name in REPORT
    }
    table["report_poll"] = np.array([poll for _, _, poll in chosen], np.int64)
    return table


def _fold_served(served: Table, samples: Table, brokers: Table) -> Table:
    """The bundles of each broker's latest report, broker by broker."""
    polls = dict(zip(brokers["broker"], brokers["report_poll"], strict=True))
    old = np.fromiter(
        (polls.get(b) == p for b, p in zip(served["broker"], served["poll_id"], strict=True)),
        np.bool_,
        len(served["broker"]),
    )
    new = np.fromiter(
        (polls.get(b) == p for b, p in zip(samples["broker"], samples["poll_id"], strict=True)),
        np.bool_,
        len(samples["broker"]),
    )
    return {name: np.concatenate([served[name][old], samples[name][new]]) for name in SAMPLE}


def merged(shards: Sequence[FoldState]) -> FoldState:
    """One state from the states of all shards, in an order that does not depend on their number."""
    averages = _concatenated([shard.averages for shard in shards], AVERAGES)
    served = _concatenated([shard.served for shard in shards], SAMPLE)
    by_report = np.lexsort((served["seq"], served["poll_id"], served["broker"]))
    return FoldState(
        select(averages, AVERAGES, np.argsort(averages["bundle"], kind="stable")),
        select(served, SAMPLE, by_report),
        shards[0].brokers if shards else _empty(BROKERS),
    )


def _concatenated(tables: Sequence[Table], names: tuple[str, ...]) -> Table:
    return {name: np.concatenate([table[name] for table in tables]) for name in names}


def select(table: Table, names: tuple[str, ...], rows: Column) -> dict[str, Column]:
    """These columns of these rows."""
    return {name: table[name][rows] for name in names}


def _dtype(name: str) -> "np.dtype[Any]":
    if name in COLUMNS:
        return COLUMNS[name]
    return np.dtype(np.int64 if name.endswith(("samples", "poll", "_ms")) else np.float64)


def _empty(names: tuple[str, ...]) -> dict[str, Column]:
    return {name: np.zeros(0, _dtype(name)) for name in names}
