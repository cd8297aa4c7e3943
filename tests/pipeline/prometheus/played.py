"""A recording of a collector as the series that a Prometheus would have of the same cluster."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from counterpoise.load.rows import BROKER, BUNDLE, GAP, RATES, RESOURCES
from counterpoise.pipeline.bundle_lookup import name_in
from counterpoise.pipeline.prometheus.series import (
    AVERAGE_SERIES,
    COUNT_SERIES,
    RATE_SERIES,
    TOPICS,
    USAGE_SERIES,
)

Labels = tuple[tuple[str, str], ...]


@dataclass
class Series:
    """One series: its values by the moment at which they were scraped, milliseconds since 1970."""

    name: str
    labels: Mapping[str, str]
    values: dict[int, float] = field(default_factory=dict)


class Recorder:
    """Collects series; `scrape` adds one value."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, Labels], Series] = {}

    def scrape(self, name: str, labels: Mapping[str, str], at_ms: int, value: float) -> None:
        key = (name, tuple(sorted(labels.items())))
        series = self._found.setdefault(key, Series(name, dict(labels)))
        series.values[at_ms] = value

    def series(self) -> list[Series]:
        return list(self._found.values())


def series_of(reports: pa.Table, cluster: str = "play") -> list[Series]:
    """What scraping at each poll of a recording would have given: a topic for each bundle.

    Between two reports of a broker with new figures a scrape has the old ones, as Pulsar measures
    once a minute.
    """
    recorder = Recorder()
    last: dict[str, list[dict[str, Any]]] = {}
    for rows in _polls(reports):
        at_ms = rows[0]["poll_id"]
        fresh: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            target = {"cluster": cluster, "instance": row["broker"], "job": "broker"}
            if row["kind"] == BROKER:
                if row["fresh"]:
                    fresh[row["broker"]] = []
                for name, series in zip(RESOURCES, USAGE_SERIES, strict=True):
                    limit = row[f"{name}_limit"]
                    used = 100.0 * row[f"{name}_usage"] / limit if limit else 0.0
                    recorder.scrape(series, {**target, "metric": "loadBalancing"}, at_ms, used)
                if row.get("load_average"):
                    labels = {**target, "feature": "max_ema", "metric": "loadBalancing"}
                    recorder.scrape(AVERAGE_SERIES, labels, at_ms, row["load_average"])
            elif row["kind"] == BUNDLE:
                fresh[row["broker"]].append(row)
        gone = {row["broker"] for row in rows if row["kind"] == GAP}
        last = {**last, **fresh}
        for broker in {row["broker"] for row in rows if row["broker"]} - gone:
            for row in last.get(broker, ()):
                topic = name_in(row["bundle"])
                target = {"cluster": cluster, "instance": broker, "job": "broker"}
                labels = {**target, "namespace": row["bundle"].rpartition("/")[0], "topic": topic}
                for name, series in zip(RATES, RATE_SERIES[TOPICS], strict=True):
                    recorder.scrape(series, labels, at_ms, row[name])
                for name, series in COUNT_SERIES[TOPICS].items():
                    recorder.scrape(series, labels, at_ms, float(row.get(name, 0)))
    return recorder.series()


def at_steps(series: list[Series], step_ms: int, lookback_ms: int = 300_000) -> list[Series]:
    """The values that a range query gives: at each step the newest one, unless it ended before."""
    scrapes = sorted({at for each in series for at in each.values})
    first, last = scrapes[0] // step_ms * step_ms + step_ms, scrapes[-1]
    places = {at: number for number, at in enumerate(scrapes)}
    found = []
    for each in series:
        values = {}
        moments = iter(sorted(each.values))
        newest, following = None, next(moments, None)
        for step in range(first, last + 1, step_ms):
            while following is not None and following <= step:
                newest, following = following, next(moments, None)
            if newest is None or step - newest > lookback_ms:
                continue
            # A series that a scrape does not have any more is stale from then on.
            after = places[newest] + 1
            if after < len(scrapes) and scrapes[after] <= step:
                continue
            values[step] = each.values[newest]
        if values:
            found.append(Series(each.name, each.labels, values))
    return found


def _polls(reports: pa.Table) -> Iterator[list[dict[str, Any]]]:
    """The rows of each poll, in order."""
    rows: list[dict[str, Any]] = []
    for row in sorted(reports.to_pylist(), key=lambda row: int(row["poll_id"])):
        if rows and rows[0]["poll_id"] != row["poll_id"]:
            yield rows
            rows = []
        rows.append(row)
    if rows:
        yield rows
