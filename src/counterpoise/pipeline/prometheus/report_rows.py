"""Turns a piece of a cluster's past into the rows that a collector would have stored.

Each moment is a poll. A broker's report is fresh if it differs from the one before, as for a
collector. If there is no series of a broker at a moment, the broker is a gap for ten minutes, and
has left after that. A moment without any broker is a poll that found none.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from counterpoise.load.fold import FORGET_AFTER_MS
from counterpoise.load.rates import Floats
from counterpoise.load.rows import BROKER, BUNDLE, COLUMNS, GAP, POLL, RATES, RESOURCES, TEXT, Table
from counterpoise.load.view import Integers, Masks
from counterpoise.names.load_managers import EXTENSIBLE
from counterpoise.pipeline.prometheus.piece import ClusterPiece, Pair
from counterpoise.pipeline.tables.schema import MOMENT, MOMENTS, REPORTS_SCHEMA

NO_FIGURES: Final = "Prometheus has no figures of this time"
NO_SERIES: Final = "Prometheus has no series of this broker at this time"
ROWS_MOST: Final = 250_000
"""The most rows that are made at once."""
_KINDS: Final = (POLL, BROKER, GAP, BUNDLE)
_COUNTS: Final = ("topics", "producers", "consumers")


@dataclass(slots=True)
class PieceFacts:
    """Counts that are shown to the operator at the end of an import."""

    moments: int = 0
    empty_moments: int = 0
    gaps: int = 0
    """Brokers without series, added up over moments."""
    reports: int = 0
    fresh: int = 0
    bundle_rows: int = 0
    contested: int = 0
    """Bundles that several brokers had at the same moment, added up over moments."""
    owned: int = 0
    """Bundles that a broker had, added up over moments."""

    def add(self, other: "PieceFacts") -> None:
        """Add the counts of another piece."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(frozen=True)
class PieceReports:
    """The load reports that are made of one piece of an import; their rows are made on demand."""

    piece: ClusterPiece
    reported: Masks
    """Whether there is a report, by broker and moment."""
    gap: Masks
    """By broker and moment: whether it has no series then, and had some not long before."""
    fresh: Masks
    """Whether the report is a new measurement, by broker and moment."""
    reported_ms: Integers
    """When the newest fresh report was made, by broker and moment."""
    served: Masks
    """Whether the pair's broker has the bundle, by pair and moment."""
    changed: tuple[int, ...]
    """The indexes of the moments at which a bundle appeared, disappeared or moved."""
    facts: PieceFacts = field(default_factory=PieceFacts)

    def tables(self) -> Iterator[pa.Table]:
        """The rows in order of time, in tables of bounded size."""
        each = max(1, ROWS_MOST // (1 + len(self.piece.brokers) + len(self.piece.pairs)))
        loads = _topic_loads(self)
        for first in range(0, self.piece.grid.count, each):
            yield _table(self, slice(first, min(first + each, self.piece.grid.count)), loads)

    def polls_with_changes(self) -> Iterator[Table]:
        """The bundle rows of the polls at which some bundle may have changed its owner."""
        names = np.array(self.piece.pairs, TEXT).reshape(-1, 2)
        owner = _owners_of(self.piece)
        for moment in self.changed:
            at_ms = int(self.piece.grid.moments[moment])
            rows = np.flatnonzero(self.served[:, moment] & self.fresh[owner, moment])
            if len(rows):
                yield {
                    "poll_id": np.full(len(rows), at_ms),
                    "kind": np.full(len(rows), BUNDLE, TEXT),
                    "bundle": names[rows, 1],
                    "broker": names[rows, 0],
                    "report_at_ms": np.full(len(rows), at_ms),
                }


class PieceReader:
    """Turns consecutive pieces of an import into reports; remembers the last poll between them."""

    def __init__(self) -> None:
        self._since: dict[Pair, int] = {}
        """When the series of each pair that still has any began."""
        self._figures: dict[str, bytes] = {}
        """A digest of each broker's last report, by which a repeated one is recognised."""
        self._fresh_ms: dict[str, int] = {}
        self._seen_ms: dict[str, int] = {}

    def take(self, piece: ClusterPiece) -> PieceReports:
        """Turn the next piece into reports; pieces have to come in order of time."""
        facts = PieceFacts(moments=piece.grid.count)
        known = tuple(sorted({*piece.brokers, *self._seen_ms}))
        piece = _with_brokers(piece, known)
        served = self._served(piece, facts)
        owner = _owners_of(piece)
        cpu = next(iter(piece.usage.values()))
        reported = ~np.isnan(cpu)
        np.logical_or.at(reported, owner, piece.present > 0)
        gap = self._gaps(piece, reported)
        fresh, reported_ms = self._fresh(piece, reported, served, owner)
        facts.empty_moments = int((~reported.any(axis=0)).sum())
        facts.gaps, facts.reports, facts.fresh = (int(x.sum()) for x in (gap, reported, fresh))
        facts.bundle_rows = int((served & fresh[owner]).sum()) if len(owner) else 0
        before = np.zeros((len(piece.pairs), 1), np.bool_)
        moved = np.any(np.diff(served, axis=1, prepend=before), axis=0)
        moved[0] = True  # the first time is not compared with the end of the previous piece
        changed = tuple(np.flatnonzero(moved).tolist())
        return PieceReports(piece, reported, gap, fresh, reported_ms, served, changed, facts)

    def _served(self, piece: ClusterPiece, facts: PieceFacts) -> Masks:
        """Whether a pair's broker has the bundle, by pair and moment; counted in `facts`.

        For a moment or two after a move, both brokers have series of the bundle. Of several brokers
        the one whose series began last has it.
        """
        served: Masks = piece.present > 0
        moments = piece.grid.moments
        starts = served.copy()
        starts[:, 1:] &= ~served[:, :-1]
        since = np.where(starts, moments, -1)
        for row, pair in enumerate(piece.pairs):
            if served[row, 0]:
                since[row, 0] = self._since.get(pair, moments[0])
        since = np.where(served, np.maximum.accumulate(since, axis=1), -1)
        rows: dict[str, list[int]] = {}
        for row, (_, bundle) in enumerate(piece.pairs):
            rows.setdefault(bundle, []).append(row)
        ends = {pair: int(since[row, -1]) for row, pair in enumerate(piece.pairs)}
        self._since = {pair: at for pair, at in ends.items() if at >= 0}
        for several in (each for each in rows.values() if len(each) > 1):
            there = served[several]
            contested = there.sum(axis=0) > 1
            facts.contested += int(contested.sum())
            newest = np.argmax(since[several], axis=0)
            for place, row in enumerate(several):
                served[row] &= ~contested | (newest == place)
        facts.owned += int(served.sum())
        return served

    def _gaps(self, piece: ClusterPiece, reported: Masks) -> Masks:
        """Whether a broker that had series not long ago (`FORGET_AFTER_MS`) has none, by broker and
        moment.
        """
        moments = piece.grid.moments
        before = np.array([self._seen_ms.get(broker, -(1 << 60)) for broker in piece.brokers])
        seen = np.where(reported, moments, before[:, np.newaxis])
        last = np.maximum.accumulate(seen, axis=1)
        for broker, at in zip(piece.brokers, last[:, -1].tolist(), strict=True):
            if moments[-1] - at <= FORGET_AFTER_MS:
                self._seen_ms[broker] = at
            else:
                self._seen_ms.pop(broker, None)
        gap: Masks = ~reported & (moments - last <= FORGET_AFTER_MS) & reported.any(axis=0)
        return gap

    def _fresh(
        self, piece: ClusterPiece, reported: Masks, served: Masks, owner: Integers
    ) -> tuple[Masks, Integers]:
        """Which reports differ from the one before, and when the newest such report was made.

        Both are by broker and moment.
        """
        moments = piece.grid.moments
        fresh = reported.copy()
        made = np.zeros(reported.shape, np.int64)
        tables = [piece.rates[name] for name in RATES] + [piece.counts[name] for name in _COUNTS]
        starts = np.searchsorted(owner, np.arange(len(piece.brokers) + 1))
        for broker, name in enumerate(piece.brokers):
            mine = slice(starts[broker], starts[broker + 1])
            figures = np.concatenate([*(each[mine] for each in tables), served[mine]]).T
            names = ",".join(bundle for _, bundle in piece.pairs[mine]).encode()
            same = np.zeros(len(moments), np.bool_)
            same[1:] = (figures[1:] == figures[:-1]).all(axis=1) & reported[broker, :-1]
            same[0] = self._figures.get(name) == names + figures[0].tobytes()
            idle = ~figures[:, : 4 * (mine.stop - mine.start)].any(axis=1)
            fresh[broker] &= ~same | idle
            self._figures[name] = names + figures[-1].tobytes()
            before = self._fresh_ms.get(name, int(moments[0]))
            at = np.where(fresh[broker], moments, before)
            made[broker] = np.maximum.accumulate(at)
            self._fresh_ms[name] = int(made[broker, -1])
        return fresh, made


def _owners_of(piece: ClusterPiece) -> Integers:
    """The index of each pair's broker."""
    place = {broker: at for at, broker in enumerate(piece.brokers)}
    return np.array([place[broker] for broker, _ in piece.pairs], np.int64)


def _with_brokers(piece: ClusterPiece, brokers: Sequence[str]) -> ClusterPiece:
    """The piece with additional brokers that have no series in it."""
    if tuple(brokers) == piece.brokers:
        return piece
    place = {broker: at for at, broker in enumerate(piece.brokers)}
    nothing = len(place)
    rows = [place.get(broker, nothing) for broker in brokers]
    more = np.full((1, piece.grid.count), np.nan)

    def laid(table: Floats) -> Floats:
        return np.concatenate([table, more])[rows]

    return replace(
        piece,
        brokers=tuple(brokers),
        usage={name: laid(each) for name, each in piece.usage.items()},
        averages=laid(piece.averages),
    )


def _table(reports: PieceReports, part: slice, loads: "_TopicLoads") -> pa.Table:
    """The rows of the moments in `part`.

    Each moment has a place for its poll, each broker and each pair, in the order in which rows are
    written. Only places with something to report become rows.
    """
    piece = reports.piece
    owner = _owners_of(piece)
    moments = piece.grid.moments[part]
    first_moment = part.indices(piece.grid.count)[0]
    brokers, pairs = len(piece.brokers), len(piece.pairs)
    of_broker = 1 + np.arange(brokers) + np.searchsorted(owner, np.arange(brokers))
    of_pair = 2 + np.arange(pairs) + owner
    places = 1 + brokers + pairs
    there = np.zeros((len(moments), places), np.bool_)
    kind = np.full((len(moments), places), _KINDS.index(BUNDLE), np.int8)
    there[:, 0], kind[:, 0] = True, _KINDS.index(POLL)
    reported, gap = reports.reported[:, part].T, reports.gap[:, part].T
    there[:, of_broker] = reported | gap
    kind[:, of_broker] = np.where(gap, _KINDS.index(GAP), _KINDS.index(BROKER))
    there[:, of_pair] = (reports.served & reports.fresh[owner])[:, part].T
    at, place = np.nonzero(there)
    columns = _columns(reports, part, of_broker, of_pair, places)
    names = _names(piece, of_broker, of_pair, places)
    kinds = kind[at, place]
    empty: Masks = np.logical_not(reported.any(axis=1))
    found: dict[str, Any] = {
        name: np.zeros(len(at), dtype) for name, dtype in COLUMNS.items() if dtype != TEXT
    }
    found |= {name: each[at, place] for name, each in columns.items()}
    found["poll_id"] = moments[at]
    found["seq"] = np.arange(len(at)) - np.searchsorted(at, np.arange(len(moments)))[at]
    found["fetched_at_ms"] = moments[at]
    is_broker = np.equal(kinds, _KINDS.index(BROKER))
    found["persistent_topics"] = found["non_persistent_topics"] = is_broker
    found["digest"] = np.where(kinds == _KINDS.index(BUNDLE), names["digest"][place], 0)
    of_report = is_broker | np.equal(kinds, _KINDS.index(BUNDLE))
    found["report_at_ms"] *= of_report
    found["age_ms"] = (found["fetched_at_ms"] - found["report_at_ms"]) * of_report
    note = np.where(kinds == _KINDS.index(GAP), 1, np.where((place == 0) & empty[at], 2, 0))
    manager = is_broker & np.isfinite(columns["load_average"][at, place])
    found["load_average"] = np.where(manager, found["load_average"], 0.0)
    texts = {
        name: _texts([""], np.zeros(len(at), np.int8))
        for name, dtype in COLUMNS.items()
        if dtype == TEXT
    }
    texts["kind"] = _texts(_KINDS, kinds)
    texts["broker"] = _texts(["", *piece.brokers], names["broker"][place])
    texts["bundle"] = _texts(["", *(bundle for _, bundle in piece.pairs)], names["bundle"][place])
    texts["note"] = _texts(["", NO_SERIES, NO_FIGURES], note)
    pair = names["bundle"][place]
    texts["topic_loads"] = _texts(
        loads.texts, np.where(loads.moments[pair] == first_moment + at, pair, 0)
    )
    texts["load_manager"] = _texts(["", EXTENSIBLE], manager.astype(np.int8))
    arrays = [texts[name] if name in texts else pa.array(found[name]) for name in COLUMNS]
    arrays += [pa.array(found[name]).cast(MOMENT) for name in MOMENTS.values()]
    return pa.table(arrays, schema=REPORTS_SCHEMA)


@dataclass(frozen=True, slots=True)
class _TopicLoads:
    """The loads of topics over a piece, at 1 + the index of their pair; at 0 is an empty entry."""

    texts: Sequence[str]
    """The topic loads as JSON; empty if they are not known."""
    moments: Integers
    """The index of the moment of a pair's first report, which gets the topic loads; -1 for none."""


def _topic_loads(reports: PieceReports) -> _TopicLoads:
    piece = reports.piece
    if not piece.topic_loads:
        return _TopicLoads([""], np.full(1 + len(piece.pairs), -1))
    loads = [piece.topic_loads[pair].to_json() for pair in piece.pairs]
    reported = reports.served & reports.fresh[_owners_of(piece)]
    return _TopicLoads(["", *loads], np.concatenate([[-1], np.argmax(reported, axis=1)]))


def _columns(
    reports: PieceReports, part: slice, of_broker: Integers, of_pair: Integers, places: int
) -> dict[str, Any]:
    """The columns of figures, each by moment and place (see `_table`)."""
    piece = reports.piece
    owner = _owners_of(piece)
    count = len(range(*part.indices(piece.grid.count)))
    served = reports.served[:, part]
    starts = np.searchsorted(owner, np.arange(len(piece.brokers)))
    empty = np.diff(np.append(starts, len(owner))) == 0

    def laid(table: Any, totals: Any, dtype: Any) -> Any:
        values = np.zeros((count, places), dtype)
        values[:, of_pair] = table.T
        values[:, of_broker] = totals.T
        return values

    def total(table: Any) -> Any:
        padded = np.concatenate([table, np.zeros((1, count), table.dtype)])
        sums = np.add.reduceat(padded, starts, axis=0) if len(starts) else padded[:0]
        sums[empty] = 0
        return sums

    columns: dict[str, Any] = {}
    for name in RATES:
        mine = np.where(served, piece.rates[name][:, part], 0.0)
        columns[name] = laid(mine, total(mine), np.float64)
    for name in _COUNTS:
        mine = np.where(served, piece.counts[name][:, part], 0)
        columns[name] = laid(mine, total(mine), np.int64)
    nothing = np.zeros(served.shape, np.int64)
    columns["bundles"] = laid(nothing, total(served.astype(np.int64)), np.int64)
    made, fresh = reports.reported_ms[:, part], reports.fresh[:, part]
    columns["report_at_ms"] = laid(made[owner], made, np.int64)
    columns["fresh"] = laid(nothing.astype(np.bool_), fresh, np.bool_)
    for name in RESOURCES:
        used = piece.usage[name][:, part]
        known = ~np.isnan(used)
        columns[f"{name}_usage"] = laid(nothing, np.where(known, used, 0.0), np.float64)
        columns[f"{name}_limit"] = laid(nothing, np.where(known, 100.0, 0.0), np.float64)
    averages = np.full((count, places), np.nan)
    averages[:, of_broker] = piece.averages[:, part].T
    columns["load_average"] = averages
    return columns


def _names(
    piece: ClusterPiece, of_broker: Integers, of_pair: Integers, places: int
) -> Mapping[str, Integers]:
    """At each place 1 + the index of its broker and of its pair (0: none), and the digest of the
    bundle's name.
    """
    broker, bundle, digest = (np.zeros(places, np.int64) for _ in range(3))
    owner = _owners_of(piece)
    broker[of_broker], broker[of_pair] = 1 + np.arange(len(of_broker)), 1 + owner
    bundle[of_pair] = 1 + np.arange(len(of_pair))
    digest[of_pair] = [zlib.crc32(name.encode()) for _, name in piece.pairs]
    return {"broker": broker, "bundle": bundle, "digest": digest}


def _texts(words: Sequence[str], which: Any) -> pa.Array:
    return pa.array(list(words), pa.string()).take(pa.array(which))
