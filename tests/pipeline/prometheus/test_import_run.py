"""An import piece by piece: what is said on its way, and what is left when a piece fails."""

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from counterpoise.pipeline.bundle_lookup import name_in
from counterpoise.pipeline.prometheus import import_run
from counterpoise.pipeline.prometheus.answer import RangeAnswer, parse_answer
from counterpoise.pipeline.prometheus.boundaries import KnownBundles
from counterpoise.pipeline.prometheus.import_record import ImportRecord, read_record
from counterpoise.pipeline.prometheus.import_run import HistoryImport, ImportOptions
from counterpoise.pipeline.prometheus.series import SeriesLabels
from counterpoise.pipeline.prometheus.source import SeriesError, SeriesOutline
from counterpoise.pipeline.prometheus.time_grid import TimeGrid
from counterpoise.pipeline.tables.faults import HistoryFaultError
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.reports import land_polls
from tests.pipeline.prometheus.fake_prometheus import FakePrometheus
from tests.pipeline.prometheus.importing import BUNDLE_OF, FIRST_MS, STEP_MS, steady
from tests.pipeline.prometheus.played import Series

GRID = TimeGrid(FIRST_MS, STEP_MS, 20)


class Answers:
    """A source of these series, which answers nothing from one moment on."""

    address = "http://p"

    def __init__(self, series: Sequence[Series], *, until_ms: float = float("inf")) -> None:
        self._prometheus = FakePrometheus(series)
        self._until_ms = until_ms
        self.waiting = 0
        """Queries that wait for an answer."""

    async def outline(self, _: str, grid: TimeGrid) -> SeriesOutline:
        return SeriesOutline(grid, 1, {"c": 1})

    async def values(self, name: str, _: Mapping[str, str], grid: TimeGrid) -> RangeAnswer:
        if grid.first_ms >= self._until_ms:
            self.waiting += 1
            try:
                await asyncio.Event().wait()
            finally:
                self.waiting -= 1
        moments = range(grid.first_ms, grid.last_ms + 1, grid.step_ms)
        return parse_answer(self._prometheus.body(name, moments), grid)


async def imported(source: Answers, history: Path, logged: list[str]) -> ImportRecord:
    """The record of an import of five moments at once; each look at the clock is 10 s later."""
    options = ImportOptions(GRID, values_most=5)
    labels, clock = SeriesLabels(KnownBundles(None)), itertools.count(0, 10)
    location = open_location(history)
    return await HistoryImport(
        source, labels, location, options, logged.append, lambda: float(next(clock))
    ).run()


def of_two_brokers(contested: int) -> list[Series]:
    """A bundle that moves, of which so many moments are in the series of both brokers."""
    topic = name_in(BUNDLE_OF)
    return [*steady("b1:80", topic, *range(2 + contested)), *steady("b2:80", topic, *range(2, 20))]


async def test_how_far_an_import_is_and_how_long_it_still_takes_is_said(tmp_path: Path) -> None:
    logged: list[str] = []
    source = Answers(steady("b1:80", name_in(BUNDLE_OF), *range(20)))
    record = await imported(source, tmp_path / "h", logged)
    assert (record.last_ms, record.facts.moments) == (GRID.last_ms, 20)
    progress = [said for said in logged if said.startswith("imported up to")]
    assert ["25%" in progress[0], "about 0:00:30 left" in progress[0]] == [True, True]
    assert ["75%" in progress[2], "about 0:00:10 left" in progress[2]] == [True, True]
    assert len(progress) == 4


async def test_of_a_piece_that_is_not_stored_nothing_is_recorded_and_nothing_is_asked_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    third = FIRST_MS + 10 * STEP_MS
    source = Answers(steady("b1:80", name_in(BUNDLE_OF), *range(20)), until_ms=third)
    landed: list[int] = []

    def land(*given: object, **more: object) -> None:
        if landed:
            raise HistoryFaultError("no space left")
        landed.append(1)
        land_polls(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(import_run, "land_polls", land)
    with pytest.raises(HistoryFaultError, match="no space left"):
        await imported(source, tmp_path / "h", [])
    record = read_record(open_location(tmp_path / "h"))
    assert record is not None
    assert (record.last_ms, record.facts.moments) == (FIRST_MS + 4 * STEP_MS, 5)
    await asyncio.sleep(0)
    assert source.waiting == 0


@pytest.mark.parametrize("contested", [0, 1, 2])
async def test_one_moment_of_twenty_may_have_a_bundle_on_two_brokers(
    tmp_path: Path, contested: int
) -> None:
    """As after a move; where it is more, the boundaries are others than the cluster's."""
    source, options = Answers(of_two_brokers(contested)), ImportOptions(GRID)
    labels = SeriesLabels(KnownBundles(None))
    made = HistoryImport(
        source, labels, open_location(tmp_path / "h"), options, lambda _: None, lambda: 0.0
    )
    if contested < 2:
        assert (await made.run()).facts.contested == contested
    else:
        with pytest.raises(SeriesError, match="10% of the bundles have topics on several brokers"):
            await made.run()
