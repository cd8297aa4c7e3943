"""Reads saved responses of Prometheus instead of asking a Prometheus.

Each file is the JSON of one range query or of several, one on each line; a file that ends with
`.gz` is compressed. A file stays in memory while its times are read, and is not read again
afterwards.
"""

import asyncio
import gzip
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from counterpoise.pipeline.prometheus.answer import RangeAnswer, parse_answer
from counterpoise.pipeline.prometheus.series import BUNDLES, RATE_SERIES, TOPICS
from counterpoise.pipeline.prometheus.source import SeriesError, SeriesOutline
from counterpoise.pipeline.prometheus.time_grid import TimeGrid

_KINDS = {TOPICS: "topic", BUNDLES: "bundle"}


@dataclass(frozen=True, slots=True)
class _File:
    """What one file of responses contains, in summary."""

    path: Path
    grid: TimeGrid
    names: frozenset[str]
    clusters: Mapping[str, int]
    loads: int
    """The number of series of topics and bundles that have a rate of published messages."""


class ExportedFiles:
    """A source of series: files with the responses of `/api/v1/query_range`."""

    def __init__(self, paths: Sequence[Path], step_ms: int = 0) -> None:
        """`step_ms` is the time between two values that are imported; 0: as in the files."""
        self._paths = tuple(paths)
        self._step_ms = step_ms
        self._files: list[_File] = []
        self._open: dict[Path, tuple[RangeAnswer, list[Mapping[str, str]]]] = {}

    @property
    def address(self) -> str:
        """The names of the files, as messages show them."""
        first, *more = (str(path) for path in self._paths)
        return f"{first} and {len(more)} more files" if more else first

    async def outline(self, name: str, grid: TimeGrid) -> SeriesOutline:
        """Find at which times in the span of `grid` there are series; raises `SeriesError` if there
        are none of this name.
        """
        if not self._files:
            self._files = [await asyncio.to_thread(_looked_at, path) for path in self._paths]
        if not any(name in file.names for file in self._files):
            found = sorted(frozenset().union(*(file.names for file in self._files)))
            raise SeriesError(
                f"{self.address}: no series {name}, there are {', '.join(found) or 'none'}: export "
                "the answers of /api/v1/query_range of each of Pulsar's series, as "
                "`counterpoise history import --help` lists them"
            )
        if not any(file.loads for file in self._files):
            raise SeriesError(
                f"{self.address}: its series are sums by namespace, which do not say which bundle "
                "carries what: set exposeTopicLevelMetricsInPrometheus=true in broker.conf"
            )
        whole = self._whole(grid)
        clusters: dict[str, int] = {}
        for file in self._files:
            for cluster, count in file.clusters.items():
                clusters[cluster] = max(count, clusters.get(cluster, 0))
        return SeriesOutline(whole, max(file.loads for file in self._files), clusters)

    def _whole(self, requested: TimeGrid) -> TimeGrid:
        """The times of all files that are in the span of `requested`."""
        steps = [file.grid.step_ms for file in self._files if file.grid.count > 1]
        step_ms = self._step_ms or reduce(math.gcd, steps, 0) or requested.step_ms
        first_ms = min(file.grid.first_ms for file in self._files)
        last_ms = max(file.grid.last_ms for file in self._files)
        for file in self._files:
            if (file.grid.first_ms - first_ms) % step_ms:
                raise SeriesError(
                    f"{file.path}: its moments are not whole steps of {step_ms / 1000:g} s away "
                    f"from those of the other files: export all with the same start and step"
                )
        begin = max(0, -((first_ms - requested.first_ms) // step_ms))
        end = (min(last_ms, requested.last_ms) - first_ms) // step_ms
        if end < begin:
            raise SeriesError(f"{self.address}: nothing in it is between --from and --to")
        return TimeGrid(first_ms + begin * step_ms, step_ms, end - begin + 1)

    async def values(self, name: str, labels: Mapping[str, str], grid: TimeGrid) -> RangeAnswer:
        """Return the values of the series with this name and these labels; raises `SeriesError`."""
        lines: list[bytes] = []
        tables = [np.zeros((0, grid.count))]
        warnings: tuple[str, ...] = ()
        for file in self._files:
            if file.grid.last_ms < grid.first_ms:
                self._open.pop(file.path, None)
            elif file.grid.first_ms <= grid.last_ms and name in file.names:
                answer, found = await asyncio.to_thread(self._opened, file)
                labels_of_series = {"__name__": name, **labels}.items()
                rows = [row for row, each in enumerate(found) if labels_of_series <= each.items()]
                table = np.full((len(rows), grid.count), np.nan)
                places = np.array([file.grid.place(at) for at in grid.moments.tolist()], np.intp)
                there = places >= 0
                table[:, there] = answer.values[rows][:, places[there]]
                tables.append(table)
                lines += [answer.labels[row] for row in rows]
                warnings += answer.warnings
        return RangeAnswer(lines, np.concatenate(tables), warnings)

    def _opened(self, file: _File) -> tuple[RangeAnswer, list[Mapping[str, str]]]:
        if file.path not in self._open:
            answers = [parse_answer(each, file.grid) for each in _documents(file.path)]
            lines = [line for each in answers for line in each.labels]
            answer = RangeAnswer(
                lines,
                np.concatenate([each.values for each in answers]),
                tuple(warning for each in answers for warning in each.warnings),
            )
            self._open[file.path] = answer, [orjson.loads(line) for line in lines]
        return self._open[file.path]


def _looked_at(path: Path) -> _File:
    """Summarize the series of a file; raises `SeriesError`."""
    names: set[str] = set()
    clusters: dict[str, int] = {}
    loads = step_ms = 0
    first_ms, last_ms = math.inf, -math.inf
    rate_in = {RATE_SERIES[kind][0]: label for kind, label in _KINDS.items()}
    try:
        for document in _documents(path):
            for series in _series(document, path):
                labels, values = series["metric"], series.get("values") or []
                if not values:
                    continue
                name = str(labels["__name__"])
                names.add(name)
                if name in rate_in and labels.get(rate_in[name]):
                    cluster = str(labels.get("cluster", ""))
                    clusters[cluster] = clusters.get(cluster, 0) + 1
                    loads += 1
                moments = [round(float(moment) * 1000) for moment, _ in values]
                first_ms, last_ms = min(first_ms, *moments), max(last_ms, *moments)
                for before, after in pairwise(moments):
                    if after - before != step_ms:
                        step_ms = math.gcd(step_ms, after - before)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise SeriesError(
            f"{path}: it is no answer of Prometheus's /api/v1/query_range ({error})"
        ) from None
    if not names:
        raise SeriesError(f"{path}: it has no series with values")
    first = int(first_ms)
    step_ms = math.gcd(step_ms, int(last_ms) - first) or 1
    grid = TimeGrid(first, step_ms, (int(last_ms) - first) // step_ms + 1)
    return _File(path, grid, frozenset(names), clusters, loads)


def _series(document: bytes, path: Path) -> Sequence[Any]:
    found = orjson.loads(document)
    if found["status"] != "success":
        raise SeriesError(f"{path}: it is an error of Prometheus: {found.get('error')}")
    if found["data"]["resultType"] != "matrix":
        raise ValueError(f"it has a {found['data']['resultType']} in place of a matrix")
    series: Sequence[Any] = found["data"]["result"]
    return series


def _documents(path: Path) -> list[bytes]:
    """Read the responses in a file; raises `SeriesError`."""
    try:
        data = path.read_bytes()
        whole = gzip.decompress(data) if path.suffix == ".gz" else data
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise SeriesError(f"cannot read {path}: {why}") from None
    if not whole.strip():
        raise SeriesError(f"{path}: it is empty")
    lines = [each for each in whole.split(b"\n") if each.strip()]
    return lines if len(lines) > 1 and all(each.startswith(b"{") for each in lines) else [whole]
