"""A week's gold tables, made up: ten brokers, a gap, an interruption, moves that help."""

from datetime import UTC, datetime, timedelta
from math import sin
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

START = datetime(2026, 11, 16, tzinfo=UTC)
DAYS = 7
BROKERS = tuple(f"broker-{n}.pulsar:8080" for n in range(10))
SILENT = range(50, 55)
"""Hours without a poll."""
FIRST_MOVE = 24
"""The hour from which on a bundle moves every second hour, and loads get closer."""

Rows = list[dict[str, Any]]


def gold_week(home: Path) -> Path:
    """Write the tables, and give the history's directory."""
    for table, rows in tables().items():
        write_deltalake(str(home / table), pa.Table.from_pylist(rows), partition_by=["day"])
    return home


def carried(hour: int, broker: int) -> float:
    """Bytes/s of a broker: uneven at first, and more even with every move."""
    spread = max(0.15, 0.9 - max(0, hour - FIRST_MOVE) / 60)
    uneven = spread * (4.5 - broker) / 4.5
    return (
        40e6 * (1 + uneven) * (1 + 0.3 * sin(hour / 24 * 6.283)) * (1 + 0.02 * sin(hour * broker))
    )


def tables() -> dict[str, Rows]:
    """The rows of each table."""
    made: dict[str, Rows] = {name: [] for name in ("gold_imbalance", "gold_broker_hours")}
    for hour in range(24 * DAYS):
        if hour in SILENT:
            continue
        at = START + timedelta(hours=hour)
        loads = [carried(hour, broker) for broker in range(len(BROKERS))]
        mean = sum(loads) / len(loads)
        for minute in (0, 20, 40):
            highest = max(loads) * (1 + minute / 400)
            poll = at + timedelta(minutes=minute)
            made["gold_imbalance"].append(
                {"poll_id": _ms(poll), "at": poll, "brokers": len(loads), "hottest": BROKERS[0],
                 "mean_bytes_per_s": mean, "max_bytes_per_s": highest,
                 "max_over_mean": highest / mean, "deviation": 0.1, "day": _day(at)}
            )  # fmt: skip
        made["gold_broker_hours"] += [
            {"hour": at, "broker": broker, "bytes_per_s": load, "day": _day(at)}
            for broker, load in zip(BROKERS, loads, strict=True)
            if not (broker == BROKERS[3] and 100 <= hour < 106)
        ]
    return made | _by_day()


def _by_day() -> dict[str, Rows]:
    days = [START + timedelta(days=n) for n in range(DAYS)]
    brokers = [
        {"broker": broker, "polls": 72, "bytes_per_s": carried(24 * day + 12, number),
         "bytes_per_s_max": 1.2 * carried(24 * day + 6, number), "bundles": 10.0 - number / 2,
         "cpu_percent_max": 70.0 - 4 * number, "polls_hottest": 72 if number == 0 else 0,
         "polls_above_mean": max(0, 60 - 10 * number - 8 * day), "day": _day(days[day])}
        for number, broker in enumerate(BROKERS)
        for day in range(DAYS)
    ]  # fmt: skip
    bundles = [
        {"rank": rank + 1, "bundle": f"ads/clicks/0x{rank:08x}_0x{rank + 1:08x}",
         "broker": BROKERS[rank % 10], "bytes_per_s": 30e6 / (rank + 1),
         "bytes_per_s_max": 45e6 / (rank + 1), "busiest_hour": day + timedelta(hours=14),
         "part": 0.07 / (rank + 1), "day": _day(day)}
        for rank in range(20)
        for day in days
    ]  # fmt: skip
    moves = [_move(hour) for hour in range(FIRST_MOVE, 24 * DAYS, 2) if hour not in SILENT]
    rejections = [
        {"rule": rule, "setting": setting, "times": times, "subjects": 3, "rounds": times,
         "highest": 0.9, "limit": 0.5, "sentence": f"{BROKERS[0]} keeps its bundles: {why}",
         "day": _day(day)}
        for rule, setting, times, why in (
            ("GracePeriod", "loadBalancerSheddingGracePeriodMinutes", 40, "they moved lately"),
            ("NoDestination", None, 7, "every other broker carries more"),
        )
        for day in days
    ]  # fmt: skip
    at = START + timedelta(hours=100)
    gaps = [
        {"kind": "broker", "broker": BROKERS[3], "note": "no answer within 3 s", "polls": 18,
         "first_at": at, "last_at": at + timedelta(hours=6), "day": _day(at)},
        {"kind": "silence", "broker": "", "note": "", "polls": 0,
         "first_at": START + timedelta(hours=SILENT[0]),
         "last_at": START + timedelta(hours=SILENT[-1] + 1), "day": _day(days[2])},
    ]  # fmt: skip
    return {
        "gold_broker_days": brokers, "gold_hot_bundles": bundles, "gold_moves": moves,
        "gold_rejections": rejections, "gold_gaps": gaps,
    }  # fmt: skip


def _move(hour: int) -> dict[str, Any]:
    at = START + timedelta(hours=hour, minutes=3)
    failed = hour % 40 == 0
    loads = [carried(hour, n) for n in range(10)]
    before = max(loads) / (sum(loads) / 10)
    status = "failed" if failed else "moved"
    error = "HTTP 500: the bundle is being unloaded" if failed else ""
    return {
        "id": f"{_ms(at)}-a", "poll_id": _ms(at), "at": at, "status": status,
        "bundle": f"iot/<b>telemetry</b>/0x{hour:08x}_0x{hour + 1:08x}", "source": BROKERS[0],
        "destination": BROKERS[9], "error": error,
        "reason": "overloaded", "sentence": f"{BROKERS[0]} carries {before:.2f} times the mean",
        "started_at": at, "ended_at": at + timedelta(seconds=2), "seconds": 2.0,
        "max_over_mean_before": before, "max_over_mean_after": None if failed else before - 0.06,
        "source_before": 80e6 - hour * 1e5, "source_after": 70e6 - hour * 5e4,
        "destination_before": 30e6, "destination_after": 38e6, "day": _day(at),
    }  # fmt: skip


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def _day(at: datetime) -> str:
    return f"{at:%Y-%m-%d}"
