"""Imports a cluster's past from Prometheus into a history, in pieces; it can be resumed.

While a piece is written the next one is queried. A piece is one commit of `reports`, with the
import's position, so that a run that was killed continues after the last piece.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np

from counterpoise.load.rows import Column
from counterpoise.names.callbacks import Clock, SentenceSink
from counterpoise.names.errors import ExplainedError
from counterpoise.pipeline.prometheus import series
from counterpoise.pipeline.prometheus.answer import RangeAnswer
from counterpoise.pipeline.prometheus.import_record import IMPORTED, ImportRecord, begun
from counterpoise.pipeline.prometheus.piece import ClusterPiece, SeriesGroups, SeriesSums, piece_of
from counterpoise.pipeline.prometheus.report_rows import PieceFacts, PieceReader, PieceReports
from counterpoise.pipeline.prometheus.source import SeriesError, SeriesSource, TooManyValuesError
from counterpoise.pipeline.prometheus.time_grid import TimeGrid
from counterpoise.pipeline.tables.faults import superseded
from counterpoise.pipeline.tables.heartbeat import writing
from counterpoise.pipeline.tables.history import TablesReader, TablesWriter
from counterpoise.pipeline.tables.location import Location
from counterpoise.pipeline.tables.ownership import BundleOwners
from counterpoise.pipeline.tables.reports import land_polls

VALUES_MOST: Final = 1_000_000
"""The most values that one query may return."""
POINTS_MOST: Final = 10_000
"""The most moments that one query may cover: Prometheus allows 11,000."""
COUNTS_EVERY: Final = 10
"""The numbers of producers and consumers are read once in this many moments; no strategy uses
them."""
CONTESTED_MOST: Final = 0.05
"""If more than this part of the bundles is on several brokers at once, boundaries are wrong.

This is checked in the first piece."""
TOPIC_LOADS_EVERY_MS: Final = 6 * 3_600_000
"""Milliseconds between two imports of topics' loads, whose shares of a bundle change slowly."""
REPORT_EVERY_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """Which metrics are imported, and of which span of time."""

    grid: TimeGrid
    """The times to be imported."""
    by: str = series.TOPICS
    cluster: str = ""
    match: str = ""
    """The label matcher of the series, in PromQL; it is only recorded here, the source applies
    it."""
    values_most: int = VALUES_MOST


class NothingNewError(ExplainedError):
    """The requested span of time is already imported."""


class HistoryImport:
    """One import of Prometheus series into one history; `log` gets sentences on its progress."""

    def __init__(
        self,
        source: SeriesSource,
        labels: series.SeriesLabels,
        location: Location,
        options: ImportOptions,
        log: SentenceSink,
        clock: Clock,
    ) -> None:
        self._source = source
        self._labels = labels
        self._location = location
        self._options = options
        self._log = log
        self._clock = clock
        self._match: dict[str, str] = {}
        self._warned: set[str] = set()
        self._count = VALUES_MOST
        self._groups: dict[str, tuple[Sequence[bytes], SeriesGroups]] = {}
        self._topic_loads_from_ms = 0
        """The time from which on the next piece contains the loads of topics."""

    async def run(self) -> ImportRecord:
        """Import the requested span, and return the history's record.

        Raises `SeriesError`, `HistoryFaultError` and `HistoryInUseError`; if the first piece fails,
        nothing is written.
        """
        options = self._options
        outline = await self._source.outline(series.RATE_SERIES[options.by][0], options.grid)
        self._choose_cluster(outline.clusters)
        whole = outline.grid
        requested = ImportRecord(
            self._source.address,
            ",".join(filter(None, (options.match, options.cluster))),
            options.by,
            whole.first_ms,
            whole.step_ms,
            counts_every_ms=whole.step_ms * COUNTS_EVERY,
        )
        before = await asyncio.to_thread(begun, TablesReader(self._location), requested)
        grid = self._left_of(whole, before)
        self._count = max(1, options.values_most // max(1, outline.most))
        self._log(
            f"{outline.most:,} series of each name; {grid.count:,} moments, "
            f"{timedelta(milliseconds=grid.step_ms)} apart, from {_time(grid.first_ms)} to "
            f"{_time(grid.last_ms)}"
        )
        reader = PieceReader()
        piece = await self._fetched(grid)
        if not piece.pairs and self._labels.left_out:
            raise SeriesError(f"{self._source.address}: {self._left_out()}")
        reports = await asyncio.to_thread(reader.take, piece)
        self._expect_whole_bundles(reports.facts)
        lost = asyncio.Event()
        async with writing(self._location, lost=lost.set) as writer:
            if await asyncio.to_thread(begun, writer, requested) != before:
                raise superseded(self._location.address)
            record = before or requested
            await asyncio.to_thread(record.write, self._location)
            return await self._imported(writer, reader, reports, grid, record)

    def _left_of(self, grid: TimeGrid, before: ImportRecord | None) -> TimeGrid:
        """The part of the requested times that has not been imported yet."""
        if before is None:
            return grid
        step = grid.step_ms
        first_ms = before.last_ms + step
        count = (grid.last_ms - first_ms) // step + 1
        if count < 1:
            raise NothingNewError(
                f"{self._location.address} has all of it already, up to {_time(before.last_ms)}"
            )
        self._log(f"goes on behind {_time(before.last_ms)}, up to which it was imported")
        return TimeGrid(first_ms, step, count)

    def _choose_cluster(self, clusters: Mapping[str, int]) -> None:
        requested = self._options.cluster
        named = ", ".join(sorted(each or "(none)" for each in clusters))
        if requested and requested not in clusters:
            raise SeriesError(
                f"--cluster {requested}: {self._source.address} has series of {named}"
            )
        if not requested and len(clusters) > 1:
            raise SeriesError(
                f"{self._source.address} has series of several clusters ({named}): choose one by "
                "--cluster, since a history is of one"
            )
        if requested:
            self._match = {"cluster": requested}

    def _expect_whole_bundles(self, facts: PieceFacts) -> None:
        if facts.contested > CONTESTED_MOST * max(1, facts.owned):
            raise SeriesError(
                f"{facts.contested / max(1, facts.owned):.0%} of the bundles have topics on "
                "several brokers at the same time, which no bundle has: the boundaries are not the "
                "cluster's own; give --admin-url of the cluster, or a file of them (--bundles)"
            )

    async def _imported(
        self,
        writer: TablesWriter,
        reader: PieceReader,
        reports: PieceReports,
        grid: TimeGrid,
        record: ImportRecord,
    ) -> ImportRecord:
        owners = await asyncio.to_thread(BundleOwners.of, writer)
        progress = _Progress(grid, self._clock, self._log)
        left: TimeGrid | None = grid
        while left is not None:
            piece = reports.piece
            left = left.behind(piece.grid)
            following = asyncio.create_task(self._fetched(left)) if left else None
            try:
                await asyncio.to_thread(_land, writer, owners, reports)
                record = replace(
                    record,
                    last_ms=piece.grid.last_ms,
                    facts=_sum_of(record.facts, reports.facts),
                    notes=self._notes(),
                )
                await asyncio.to_thread(record.write, self._location)
                progress.imported(piece)
                if following is not None:
                    reports = await asyncio.to_thread(reader.take, await following)
            finally:
                if following is not None:
                    following.cancel()
        return record

    async def _fetched(self, grid: TimeGrid) -> ClusterPiece:
        """Read the next piece of the span, which is as large as the source returns at once."""
        # Once the source has refused a piece as too large, the following ones are smaller, too.
        part = grid.within_day().at_most(min(POINTS_MOST, self._count))
        while True:
            try:
                return await self._read(part)
            except TooManyValuesError as error:
                if part.count == 1:
                    raise SeriesError(
                        f"{self._source.address} does not give a single moment at once: {error}; "
                        "raise its limits (--query.max-samples, --query.timeout), or choose less "
                        "by --match"
                    ) from None
                part = part.at_most(part.count // 2)
                self._count = part.count
                self._log(
                    f"{part.count:,} moments at once from now on: {self._source.address} says "
                    f"{error}"
                )

    async def _read(self, grid: TimeGrid) -> ClusterPiece:
        by = self._options.by
        coarse = grid.every(COUNTS_EVERY)
        by_topic = by == series.TOPICS and grid.first_ms >= self._topic_loads_from_ms
        rates_asked = [(name, self._match, grid) for name in series.RATE_SERIES[by]]
        queries = [(name, self._match, coarse) for name in series.COUNT_SERIES[by].values()]
        queries += [(name, self._match, grid) for name in series.USAGE_SERIES]
        queries.append((series.AVERAGE_SERIES, {**self._match, **series.AVERAGE_LABELS}, grid))
        tasks = [
            *(asyncio.create_task(self._sums(*each, by_topic=by_topic)) for each in rates_asked),
            *(asyncio.create_task(self._sums(*each)) for each in queries),
        ]
        try:
            found = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if by_topic:  # only now: if the piece was refused as too large, its parts follow
            self._topic_loads_from_ms = grid.first_ms + TOPIC_LOADS_EVERY_MS
        rates, rest = found[: len(series.RATE_SERIES[by])], found[len(series.RATE_SERIES[by]) :]
        names = list(series.COUNT_SERIES[by])
        counts = {
            name: _repeated(sums, grid.count)
            for name, sums in zip(names, rest[: len(names)], strict=True)
        }
        usage = rest[len(names) : -1]
        return await asyncio.to_thread(piece_of, grid, rates, counts, usage, rest[-1])

    async def _sums(
        self, name: str, match: Mapping[str, str], grid: TimeGrid, *, by_topic: bool = False
    ) -> SeriesSums:
        answer: RangeAnswer = await self._source.values(name, match, grid)
        for warning in answer.warnings:
            if warning not in self._warned:
                self._warned.add(warning)
                self._log(f"{self._source.address} warns: {warning}")
        groups = await self._groups_of(name, answer.labels)
        return await asyncio.to_thread(groups.summed, answer.values, by_topic=by_topic)

    async def _groups_of(self, name: str, labels: Sequence[bytes]) -> SeriesGroups:
        """How a metric's series are grouped by broker and bundle; cached for the same series."""
        known = self._groups.get(name)
        if known is None or known[0] != labels:
            known = labels, SeriesGroups(await self._labels.places(labels))
            self._groups[name] = known
        return known[1]

    def _left_out(self) -> str:
        reason, example = next(iter(self._labels.unreadable.items()))
        return (
            f"{self._labels.left_out:,} series were left out, as their labels cannot be read: "
            f"{reason}, of {example}"
        )

    def _notes(self) -> tuple[str, ...]:
        """Sentences on what was left out or assumed in the import."""
        notes = [f"{self._source.address} warns: {each}" for each in sorted(self._warned)]
        if self._labels.left_out:
            notes.append(self._left_out())
        if self._labels.assumed:
            notes.append(
                f"{len(self._labels.assumed):,} namespaces were taken to have the default "
                f"number of bundles, {self._labels.assumed[0]} for one"
            )
        return tuple(notes)


class _Progress:
    """Reports an import's progress, at most every few seconds."""

    def __init__(self, grid: TimeGrid, clock: Clock, log: SentenceSink) -> None:
        self._grid = grid
        self._clock = clock
        self._log = log
        self._began = self._logged = clock()
        self._values = 0

    def imported(self, piece: ClusterPiece) -> None:
        """Count a piece that was stored in the history, and log the progress now and then."""
        self._values += piece.values
        now = self._clock()
        if now - self._logged < REPORT_EVERY_S:
            return
        self._logged = now
        done = (piece.grid.last_ms - self._grid.first_ms) / self._grid.step_ms + 1
        share, took = done / self._grid.count, now - self._began
        left = timedelta(seconds=round(took / share - took))
        self._log(
            f"imported up to {_time(piece.grid.last_ms)}, {share:.0%}, "
            f"{self._values / took / 1e6:.1f} million values/s, about {left} left"
        )


def _land(writer: TablesWriter, owners: BundleOwners, reports: PieceReports) -> None:
    grid = reports.piece.grid
    owners.land(writer, reports.polls_with_changes())
    land_polls(writer, reports.tables(), grid.first_ms, grid.last_ms, also=(IMPORTED,))


def _repeated(each: SeriesSums, count: int) -> SeriesSums:
    """Repeat each value until the next one, so that there are `count` values again."""

    def longer(table: Column) -> Column:
        return np.repeat(table, COUNTS_EVERY, axis=1)[:, :count]

    return SeriesSums(each.pairs, longer(each.sums), longer(each.counts))


def _sum_of(one: PieceFacts, other: PieceFacts) -> PieceFacts:
    both = replace(one)
    both.add(other)
    return both


def _time(moment_ms: int) -> str:
    return f"{datetime.fromtimestamp(moment_ms / 1000, UTC):%Y-%m-%dT%H:%M:%S}Z"
