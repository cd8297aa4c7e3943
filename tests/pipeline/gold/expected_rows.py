"""The rows that each gold table has of a history, by NumPy over the rows that it was made of."""

from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import numpy as np

from counterpoise.load.rows import BROKER, BUNDLE, GAP, POLL, RATES

Row = dict[str, Any]
Rows = list[Row]
HOUR_MS = 3_600_000
AROUND_MS = 600_000


def expected_rows(reports: Rows, journal: Rows) -> dict[str, Rows]:
    """The rows of every gold table, in any order, with all of their columns."""
    bundles, brokers = (
        [row for row in reports if row["kind"] == kind and np.isfinite(through(row))]
        for kind in (BUNDLE, BROKER)
    )
    hours, days = bundle_hours(bundles), bundle_days(bundles)
    namespaces = namespace_hours(hours)
    return {
        "gold_bundle_hours": hours,
        "gold_bundle_days": days,
        "gold_namespace_hours": namespaces,
        "gold_namespace_days": namespace_days(namespaces),
        "gold_imbalance": [imbalance(rows) for rows in grouped(brokers, "poll_id").values()],
        "gold_broker_hours": broker_hours(brokers),
        "gold_broker_days": broker_days(brokers),
        "gold_hot_bundles": hot_bundles(days),
        "gold_moves": moves(brokers, journal),
        "gold_rejections": rejections(journal),
        "gold_gaps": gaps(reports),
        "gold_bundle_features": bundle_features(bundles),
    }


def through(row: Row) -> float:
    """Bytes/s in and out."""
    return float(row["msg_throughput_in"] + row["msg_throughput_out"])


def moment(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def hour_of(row: Row) -> datetime:
    return moment(row["poll_id"] // HOUR_MS * HOUR_MS)


def day_of(row: Row) -> str:
    return f"{hour_of(row):%Y-%m-%d}"


def grouped(rows: Rows, *keys: str | Callable[[Row], Any]) -> dict[Any, Rows]:
    """Rows by the values of columns or functions, in order."""
    found: dict[Any, Rows] = defaultdict(list)
    for row in rows:
        found[tuple(row[key] if isinstance(key, str) else key(row) for key in keys)].append(row)
    return found


def mean(rows: Rows, *names: str) -> Row:
    return {name: np.mean([row[name] for row in rows]) for name in names}


def carried(rows: Rows) -> Row:
    loads = [through(row) for row in rows]
    return {"bytes_per_s": np.mean(loads), "bytes_per_s_max": max(loads)}


def summary(name: str, rows: Rows) -> Row:
    """What is known of a bundle from some of its measurements."""
    return {
        "day": day_of(rows[0]), "bundle": name, "namespace": name.rpartition("/")[0],
        "broker": rows[-1]["broker"], "measurements": len(rows),
        "topics": max(row["topics"] for row in rows), **mean(rows, *RATES), **carried(rows),
    }  # fmt: skip


def bundle_hours(bundles: Rows) -> Rows:
    return [
        {
            **summary(name, rows),
            "hour": hour,
            "brokers": len({row["broker"] for row in rows}),
            **{most: max(row[most] for row in rows) for most in ("producers", "consumers")},
        }
        for (name, hour), rows in grouped(bundles, "bundle", hour_of).items()
    ]


def bundle_days(bundles: Rows) -> Rows:
    return [
        {**summary(name, rows), "busiest_hour": busiest(bundle_hours(rows))}
        for (name, _), rows in grouped(bundles, "bundle", day_of).items()
    ]


def busiest(hours: Rows) -> datetime:
    found: datetime = max(hours, key=lambda row: row["bytes_per_s"])["hour"]
    return found


def namespace_hours(hours: Rows) -> Rows:
    added = (*RATES, "bytes_per_s", "topics")
    return [
        {
            "day": rows[0]["day"], "hour": hour, "namespace": name, "bundles": len(rows),
            **{each: sum(row[each] for row in rows) for each in added},
        }
        for (hour, name), rows in grouped(hours, "hour", "namespace").items()
    ]  # fmt: skip


def namespace_days(hours: Rows) -> Rows:
    return [
        {
            "day": day, "namespace": name, "hours": len(rows), "busiest_hour": busiest(rows),
            "bundles": max(row["bundles"] for row in rows), **mean(rows, *RATES, "bytes_per_s"),
            "bytes_per_s_max": max(row["bytes_per_s"] for row in rows),
        }
        for (day, name), rows in grouped(hours, "day", "namespace").items()
    ]  # fmt: skip


def imbalance(brokers: Rows) -> Row:
    """How uneven the brokers of one poll were."""
    loads = np.array([through(row) for row in brokers])
    return {
        "day": day_of(brokers[0]), "poll_id": brokers[0]["poll_id"],
        "at": moment(brokers[0]["poll_id"]), "brokers": len(brokers),
        "hottest": brokers[int(loads.argmax())]["broker"], "mean_bytes_per_s": loads.mean(),
        "max_bytes_per_s": loads.max(), "max_over_mean": loads.max() / loads.mean(),
        "deviation": loads.std() / loads.mean(),
    }  # fmt: skip


def percent(rows: Rows, resource: str) -> list[float]:
    """How much was used of a limit, at the polls where there is one."""
    return [
        100 * row[f"{resource}_usage"] / row[f"{resource}_limit"]
        for row in rows
        if row[f"{resource}_limit"]
    ]


def cpu(rows: Rows) -> Row:
    used = percent(rows, "cpu")
    return {
        "cpu_percent": np.mean(used) if used else None,
        "cpu_percent_max": max(used) if used else None,
    }


def broker_hours(brokers: Rows) -> Rows:
    return [
        {
            "day": day_of(rows[0]), "hour": hour, "broker": name, "polls": len(rows), **cpu(rows),
            **mean(rows, *RATES, "bundles", "topics"), **carried(rows),
            "memory_percent": np.mean(percent(rows, "memory")),
            "direct_memory_percent": np.mean(percent(rows, "direct_memory")),
        }
        for (name, hour), rows in grouped(brokers, "broker", hour_of).items()
    ]  # fmt: skip


def broker_days(brokers: Rows) -> Rows:
    at = {poll: imbalance(rows) for (poll,), rows in grouped(brokers, "poll_id").items()}
    made = []
    for (name, day), rows in grouped(brokers, "broker", day_of).items():
        ratios = [through(row) / at[row["poll_id"]]["mean_bytes_per_s"] for row in rows]
        made.append(
            {
                "day": day, "broker": name, "polls": len(rows), **carried(rows), **cpu(rows),
                **mean(rows, "bundles"), "max_over_mean": max(ratios),
                "polls_hottest": sum(at[row["poll_id"]]["hottest"] == name for row in rows),
                "polls_above_mean": sum(ratio > 1.25 for ratio in ratios),
            }
        )  # fmt: skip
    return made


def hot_bundles(days: Rows) -> Rows:
    names = ("day", "bundle", "namespace", "broker", "bytes_per_s", "bytes_per_s_max")
    return [
        {
            **{name: row[name] for name in (*names, "busiest_hour")},
            "rank": rank,
            "part": row["bytes_per_s"] / sum(each["bytes_per_s"] for each in rows),
        }
        for rows in grouped(days, "day").values()
        for rank, row in enumerate(sorted(rows, key=lambda each: -each["bytes_per_s"]), 1)
    ]


def moves(brokers: Rows, journal: Rows) -> Rows:
    decided = {row["id"]: row for row in journal if row["kind"] == "decision"}
    polls = {poll: rows for (poll,), rows in grouped(brokers, "poll_id").items()}
    made = []
    for row in (row for row in journal if row["kind"] == "outcome"):
        started, ended = row["started_at_ms"], row["ended_at_ms"]
        names = ("id", "poll_id", "bundle", "source", "destination", "status", "error")
        why = decided.get(row["id"], {})
        found = {
            **{name: row[name] for name in names},
            "day": day_of(row), "at": moment(row["poll_id"]), "reason": why.get("reason"),
            "sentence": why.get("sentence"), "started_at": moment(started),
            "ended_at": moment(ended), "seconds": (ended - started) / 1000,
        }  # fmt: skip
        for side, first, last in (
            ("before", started - AROUND_MS, started - 1),
            ("after", ended + 1, ended + AROUND_MS),
        ):
            those = [rows for poll, rows in polls.items() if first <= poll <= last]
            assert those, "the history has polls around each move"
            ratios = [imbalance(rows)["max_over_mean"] for rows in those]
            found[f"max_over_mean_{side}"] = np.mean(ratios)
            for end in ("source", "destination"):
                loads = [through(b) for rows in those for b in rows if b["broker"] == row[end]]
                found[f"{end}_{side}"] = np.mean(loads) if loads else None
        made.append(found)
    return made


def rejections(journal: Rows) -> Rows:
    refused = [row for row in journal if row["kind"] == "rejection"]
    made = []
    for (day, rule, setting), rows in grouped(refused, day_of, "rule", "setting").items():
        highest = max(rows, key=lambda row: row["value"] or 0.0)
        made.append(
            {
                "day": day, "rule": rule, "setting": setting, "times": len(rows),
                "subjects": len({row["subject"] for row in rows}),
                "rounds": len({row["poll_id"] for row in rows}), "highest": highest["value"],
                "limit": highest["limit"], "sentence": highest["sentence"],
            }
        )  # fmt: skip
    return made


def gaps(reports: Rows) -> Rows:
    """By the hour what did not answer, and pauses of more than three usual ones."""
    polls = [row for row in reports if row["kind"] == POLL]
    missing = [("broker", row) for row in reports if row["kind"] == GAP]
    missing += [("poll", row) for row in polls if row["note"]]
    found: dict[Any, list[int]] = defaultdict(list)
    for kind, row in missing:
        key = (day_of(row), kind, row.get("broker", ""), row["note"], hour_of(row))
        found[key].append(row["poll_id"])
    for (day,), rows in grouped(polls, day_of).items():
        at = [row["poll_id"] for row in rows]
        usual = np.median(np.diff(at))
        for before, after in pairwise(at):
            if after - before > 3 * usual:
                found[day, "silence", "", "", before] = [before, after]
    return [
        {
            "day": day, "kind": kind, "broker": broker, "note": note,
            "polls": 0 if kind == "silence" else len(at),
            "first_at": moment(min(at)), "last_at": moment(max(at)),
        }
        for (day, kind, broker, note, _), at in found.items()
    ]  # fmt: skip


def bundle_features(bundles: Rows) -> Rows:
    """A history of less than a week: all days before one have its shape."""
    made = []
    for (name, day), today in grouped(bundles, "bundle", day_of).items():
        mine = [row for row in bundles if row["bundle"] == name and day_of(row) <= day]
        hours = {
            hour: carried(rows)["bytes_per_s"] for (hour,), rows in grouped(mine, hour_of).items()
        }
        loads, of_day = np.array([*hours.values()]), np.array([hour.hour for hour in hours])
        factors = [
            loads[of_day == hour].mean() / loads.mean() if hour in of_day else 1.0
            for hour in range(24)
        ]
        level = carried(today)["bytes_per_s"]
        rest = [through(row) / (level * factors[hour_of(row).hour]) - 1 for row in today]
        since = [hour.timestamp() / 3600 for hour in hours]
        quantiles = np.quantile(rest, [0.05, 0.5, 0.95, 0.99])
        made.append(
            {
                "day": day, "bundle": name, "level": level, "hours": len(hours),
                "trend": np.polyfit(np.array(since) - since[0], loads, 1)[0],
                "measurements": len(today), "hour_factors": factors,
                **dict(zip((f"residual_p{q}" for q in ("05", "50", "95", "99")), quantiles,
                           strict=True)),
            }
        )  # fmt: skip
    return made
