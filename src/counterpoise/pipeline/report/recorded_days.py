"""The figures of a report: some days of a history, read from its gold tables."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from counterpoise.names.errors import ExplainedError
from counterpoise.pipeline.tables.delta_table import find_table, trouble
from counterpoise.pipeline.tables.location import Location
from counterpoise.pipeline.tables.schema import DAY

UNEVEN: Final = 1.25
"""Largest ÷ mean above which brokers count as uneven."""
HOTTEST: Final = 15
MOVED: Final = "moved"
"""The status of a successful move in the gold tables."""

Rows = list[dict[str, Any]]
Numbers = NDArray[np.float64]


class NotRolledUpError(ExplainedError):
    """The gold tables have none of the requested days; the message says how to add them."""


@dataclass(frozen=True, slots=True)
class HourlyImbalance:
    """Largest broker's bytes/s ÷ mean by the hour: the mean and the highest of its polls."""

    hours: Sequence[datetime]
    mean: Numbers
    highest: Numbers


@dataclass(frozen=True, slots=True)
class BrokerHours:
    """Bytes/s by broker and hour: a row for each broker, NaN where no poll has it."""

    hours: Sequence[datetime]
    brokers: Sequence[str]
    bytes_per_s: Numbers


@dataclass(frozen=True)
class RecordedDays:
    """The rows of the gold tables for some consecutive days."""

    source: str
    days: Sequence[str]
    polls: int
    mean_imbalance: float
    """Largest ÷ mean, averaged over all polls; 1 is even."""
    worst_imbalance: float
    worst_at: datetime
    uneven_part: float
    """The fraction of the polls in which largest ÷ mean was above 1.25."""
    mean_bytes_per_s: float
    """The mean bytes/s of the whole cluster."""
    imbalance: HourlyImbalance
    load: BrokerHours
    brokers: Rows
    hottest: Rows
    moves: Rows = field(default_factory=list)
    rejections: Rows = field(default_factory=list)
    gaps: Rows = field(default_factory=list)

    @property
    def moved(self) -> Rows:
        """The rows of those moves that succeeded."""
        return [move for move in self.moves if move["status"] == MOVED]

    @property
    def gain(self) -> float | None:
        """The mean decrease of imbalance (largest broker ÷ mean) by a move; None without any."""
        lowered = [
            move["max_over_mean_before"] - move["max_over_mean_after"]
            for move in self.moved
            if None not in (move["max_over_mean_before"], move["max_over_mean_after"])
        ]
        return float(np.mean(lowered)) if lowered else None


def read_days(location: Location, first: date | None, last: date | None) -> RecordedDays:
    """The recorded days between two dates; by default the last seven.

    Raises `NotRolledUpError` and `HistoryFaultError`.
    """
    every = _read(location, "gold_imbalance")
    known = sorted(set(every.column(DAY).to_pylist())) if every is not None else []
    until = last.isoformat() if last else (known[-1] if known else "")
    since = first or (date.fromisoformat(until) - timedelta(days=6) if until else None)
    days = [day for day in known if since and since.isoformat() <= day <= until]
    if every is None or not days:
        raise NotRolledUpError(
            f"{location.address} has no gold tables of these days: `counterpoise rollup "
            f"{location.address}` makes them of what was recorded"
        )
    polls = _of_days(every, days).sort_by("at")
    ratios = polls.column("max_over_mean").to_numpy()
    worst = int(ratios.argmax())
    means = polls.column("mean_bytes_per_s").to_numpy() * polls.column("brokers").to_numpy()
    return RecordedDays(
        source=location.address,
        days=days,
        polls=len(polls),
        mean_imbalance=float(ratios.mean()),
        worst_imbalance=float(ratios[worst]),
        worst_at=polls.column("at")[worst].as_py(),
        uneven_part=float((ratios > UNEVEN).mean()),
        mean_bytes_per_s=float(means.mean()),
        imbalance=_by_hour(polls),
        load=_load(_days_of(location, "gold_broker_hours", days)),
        brokers=_brokers(_days_of(location, "gold_broker_days", days)),
        hottest=_hottest(_days_of(location, "gold_hot_bundles", days), len(days)),
        moves=_days_of(location, "gold_moves", days),
        rejections=_rejections(_days_of(location, "gold_rejections", days)),
        gaps=sorted(_days_of(location, "gold_gaps", days), key=lambda gap: gap["first_at"]),
    )


def _read(location: Location, table: str, days: Sequence[str] = ()) -> pa.Table | None:
    """A gold table's rows of these days or of all; None if there is no such table."""
    handle = find_table(location, table)
    if handle is None:
        return None
    with trouble(location, table):
        return handle.to_pyarrow_table(filters=[(DAY, "in", list(days))] if days else None)


def _of_days(table: pa.Table, days: Sequence[str]) -> pa.Table:
    return table.filter(pc.is_in(table.column(DAY), pa.array(days, pa.string())))


def _days_of(location: Location, table: str, days: Sequence[str]) -> Rows:
    found = _read(location, table, days)
    return [] if found is None else list(found.to_pylist())


def _grouped(rows: Rows, *names: str) -> Iterable[Rows]:
    """Yield the rows in groups that have the same values of the columns in `names`."""
    found: dict[tuple[Any, ...], Rows] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in names), []).append(row)
    return found.values()


def _by_hour(polls: pa.Table) -> HourlyImbalance:
    hours = pc.floor_temporal(polls.column("at"), unit="hour")
    made = (
        polls.append_column("hour", hours)
        .group_by("hour")
        .aggregate([("max_over_mean", "mean"), ("max_over_mean", "max")])
        .sort_by("hour")
    )
    return HourlyImbalance(
        made.column("hour").to_pylist(),
        made.column("max_over_mean_mean").to_numpy(),
        made.column("max_over_mean_max").to_numpy(),
    )


def _load(rows: Rows) -> BrokerHours:
    """The load by broker, the most loaded first, and by every hour from the first to the last."""
    if not rows:
        return BrokerHours([], [], np.zeros((0, 0)))
    first, last = min(row["hour"] for row in rows), max(row["hour"] for row in rows)
    count = round((last - first).total_seconds() / 3600) + 1
    hours = [first + timedelta(hours=number) for number in range(count)]
    brokers = sorted({row["broker"] for row in rows})
    place = {broker: number for number, broker in enumerate(brokers)}
    carried = np.full((len(brokers), count), np.nan)
    for row in rows:
        at = round((row["hour"] - first).total_seconds() / 3600)
        carried[place[row["broker"]], at] = row["bytes_per_s"]
    order = np.argsort(-np.nansum(carried, axis=1), kind="stable")
    return BrokerHours(hours, [brokers[number] for number in order.tolist()], carried[order])


def _brokers(rows: Rows) -> Rows:
    """A row for each broker with its figures over all days, the most loaded first."""

    def summed(days: Rows) -> dict[str, Any]:
        polls = sum(day["polls"] for day in days)
        return {
            "broker": days[0]["broker"],
            "bytes_per_s": sum(day["bytes_per_s"] * day["polls"] for day in days) / polls,
            "bytes_per_s_max": max(day["bytes_per_s_max"] for day in days),
            "bundles": sum(day["bundles"] * day["polls"] for day in days) / polls,
            "cpu_percent_max": max(day["cpu_percent_max"] or 0.0 for day in days),
            "hottest_part": sum(day["polls_hottest"] for day in days) / polls,
            "above_part": sum(day["polls_above_mean"] for day in days) / polls,
        }

    return sorted(
        map(summed, _grouped(rows, "broker")), key=lambda row: (-row["bytes_per_s"], row["broker"])
    )


def _hottest(rows: Rows, days: int) -> Rows:
    """A row for each of the bundles that carried the most over all days."""

    def summed(of: Rows) -> dict[str, Any]:
        highest = max(of, key=lambda row: row["bytes_per_s"])
        return {
            "bundle": highest["bundle"],
            "broker": max(of, key=lambda row: row[DAY])["broker"],
            "bytes_per_s": sum(row["bytes_per_s"] for row in of) / days,
            "bytes_per_s_max": max(row["bytes_per_s_max"] for row in of),
            "part": sum(row["part"] or 0.0 for row in of) / days,
            "busiest_hour": highest["busiest_hour"],
            "days": len(of),
        }

    made = sorted(
        map(summed, _grouped(rows, "bundle")), key=lambda row: (-row["bytes_per_s"], row["bundle"])
    )
    return made[:HOTTEST]


def _rejections(rows: Rows) -> Rows:
    """A row for each rule and setting with its rejections over all days, most frequent first."""

    def summed(of: Rows) -> dict[str, Any]:
        highest = max(of, key=lambda row: row["highest"] or 0.0)
        times = {name: sum(row[name] for row in of) for name in ("times", "rounds")}
        return {**highest, **times, "subjects": max(row["subjects"] for row in of)}

    return sorted(
        map(summed, _grouped(rows, "rule", "setting")), key=lambda row: (-row["times"], row["rule"])
    )
