"""Saved answers as a source: which of their moments are read, and what is wrong with some."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from counterpoise.pipeline.bundle_lookup import name_in
from counterpoise.pipeline.prometheus.exported import ExportedFiles
from counterpoise.pipeline.prometheus.source import SeriesError
from counterpoise.pipeline.prometheus.time_grid import TimeGrid
from tests.pipeline.prometheus.fake_prometheus import FakePrometheus
from tests.pipeline.prometheus.importing import (
    BUNDLE_OF,
    FIRST_MS,
    OTHER,
    STEP_MS,
    moments,
    rates,
    steady,
)
from tests.pipeline.prometheus.played import Series

NAME = "pulsar_rate_in"
EVER = TimeGrid(FIRST_MS, STEP_MS, 20)


def file_of(at: Path, series: Sequence[Series], first_ms: int, count: int, *warnings: str) -> Path:
    fake = FakePrometheus(series, warnings=warnings)
    at.write_bytes(fake.body(NAME, range(first_ms, first_ms + count * STEP_MS, STEP_MS)))
    return at


async def test_moments_between_the_first_and_the_last_that_were_asked_for_are_read(
    tmp_path: Path,
) -> None:
    topic, other = name_in(BUNDLE_OF), name_in(OTHER)
    both = [*steady("b1:80", topic, *range(10)), *steady("b1:80", other, *range(5))]
    files = [
        file_of(tmp_path / f"{first}.json", both, FIRST_MS + first * STEP_MS, 5) for first in (0, 5)
    ]
    half_later = TimeGrid(FIRST_MS + 2 * STEP_MS + STEP_MS // 2, STEP_MS, 6)
    source = ExportedFiles(files)
    found = await source.outline(NAME, half_later)
    assert found.grid.moments.tolist() == moments(3, 4, 5, 6, 7)
    assert (found.most, found.clusters) == (2, {"c": 2})
    # A piece may begin with the last moment of a file and end with the first of another.
    last, first = moments(4, 5)
    read = await source.values(NAME, {}, TimeGrid(last, STEP_MS, 2))
    assert np.nansum(read.values, axis=0).tolist() == [
        2 * (100.0 + last % 977),
        100.0 + first % 977,
    ]


async def test_files_of_other_moments_are_named(tmp_path: Path) -> None:
    shifted = FIRST_MS + STEP_MS // 2
    topic = name_in(BUNDLE_OF)
    at_halves = rates("b1:80", topic, {shifted + n * STEP_MS: 1.0 for n in range(3)})
    files = [
        file_of(tmp_path / "whole.json", steady("b1:80", topic, 0, 1, 2), FIRST_MS, 3),
        file_of(tmp_path / "half.json", at_halves, shifted, 3),
    ]
    with pytest.raises(SeriesError, match=r"half\.json: its moments are not whole steps of 60 s"):
        await ExportedFiles(files).outline(NAME, EVER)


async def test_each_file_whose_moments_are_read_has_its_warnings_passed_on(tmp_path: Path) -> None:
    series = steady("b1:80", name_in(BUNDLE_OF), *range(4))
    files = [
        file_of(
            tmp_path / f"{first}.json", series, FIRST_MS + first * STEP_MS, 2, f"beware {first}"
        )
        for first in (0, 2)
    ]
    source = ExportedFiles(files)
    grid = (await source.outline(NAME, EVER)).grid
    answer = await source.values(NAME, {}, grid)
    assert answer.warnings == ("beware 0", "beware 2")
