"""A history of some days, made up: its rows as Arrow tables, and the Delta tables of them."""

from datetime import UTC, datetime
from math import inf, nan, pi, sin
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from counterpoise.load.rows import BROKER, BUNDLE, GAP, POLL
from counterpoise.pipeline.tables.schema import DAY, SCHEMAS, day_of

START = int(datetime(2026, 11, 20, tzinfo=UTC).timestamp() * 1000)
MINUTE, DAY_MS = 60_000, 86_400_000
EVERY = 10 * MINUTE
BROKERS = ("b0:8080", "b1:8080", "b2:8080")
BUNDLES = tuple(f"tenant/ns{n % 2}/0x{n:08x}_0x{n + 1:08x}" for n in range(6))
MOVED_AT = START + 30 * 6 * EVERY
"""A round in the sixth hour of the second day: a bundle goes from the first broker to the last."""


def history(home: Path, days: int = 2) -> Path:
    """Write the tables of a history, and give its directory."""
    append(home, "reports", reports(0, days * 144))
    if START + days * DAY_MS > MOVED_AT:
        append(home, "journal", journal())
    return home


def append(home: Path, table: str, rows: list[dict[str, Any]]) -> None:
    """Add rows to a table."""
    schema = SCHEMAS[table]
    empty = {each.name: _empty(each.type) for each in schema if not each.nullable}
    made = pa.Table.from_pylist([{**empty, **row} for row in rows], schema)
    days = pa.array([day_of(row["poll_id"]) for row in rows])
    write_deltalake(
        str(home / table), made.append_column(DAY, days), mode="append", partition_by=[DAY]
    )


def _empty(kind: pa.DataType) -> Any:
    if pa.types.is_dictionary(kind) or pa.types.is_string(kind):
        return ""
    return 0.0 if pa.types.is_floating(kind) else False if pa.types.is_boolean(kind) else 0


def reports(first: int, last: int) -> list[dict[str, Any]]:
    """The rows of these polls; every tenth has a gap, some an infinite rate, some are missing.

    A bundle comes after two hours, and three polls fail. Of topics and clients there are a few
    more at each poll, up to three.
    """
    rows: list[dict[str, Any]] = []
    for number in range(first, last):
        if 100 <= number < 104:
            continue
        poll_id = START + number * EVERY
        seq = iter(range(100))
        common = {"poll_id": poll_id, "at": poll_id, "fetched_at_ms": poll_id}

        def row(kind: str, common: Any = common, seq: Any = seq, **values: Any) -> dict[str, Any]:
            return {**common, "seq": next(seq), "kind": kind, **values}

        rows.append(row(POLL, note="no broker answers" if number in (50, 51, 54) else ""))
        for place, broker in enumerate(BROKERS):
            if number % 10 == 3 and place == 1:
                rows.append(
                    row(GAP, broker=broker, note="refused" if number == 13 else "timed out")
                )
                continue
            mine = [
                b
                for b in range(len(BUNDLES))
                if owner(b, poll_id) == place and (b < 5 or number >= 12)
            ]
            loads = [load(b, poll_id) for b in mine]
            odd = {(78, 2): inf, (181, 1): nan}.get((number, place), 0.0)
            rows.append(
                row(
                    BROKER, broker=broker, fresh=True, bundles=len(mine), topics=3 * len(mine),
                    report_at_ms=poll_id, report_at=poll_id, age_ms=0,
                    msg_rate_in=sum(loads), msg_rate_out=2 * sum(loads),
                    msg_throughput_in=100 * sum(loads) + odd, msg_throughput_out=50 * sum(loads),
                    cpu_usage=10.0 * len(mine), cpu_limit=100.0 if place else 0.0,
                    memory_usage=1.0 + number % 3, memory_limit=4.0,
                    direct_memory_usage=1.0 + number % 2, direct_memory_limit=16.0,
                )
            )  # fmt: skip
            for b, carried in zip(mine, loads, strict=True):
                rows.append(
                    row(
                        BUNDLE, broker=broker, bundle=BUNDLES[b], topics=3 + number % 4,
                        producers=b + number % 4,
                        report_at_ms=poll_id, report_at=poll_id,
                        consumers=2 * b + number % 4, msg_rate_in=carried, msg_rate_out=2 * carried,
                        msg_throughput_in=(nan if b else inf) if number == 77 else 100 * carried,
                        msg_throughput_out=50 * carried,
                    )
                )  # fmt: skip
    return rows


def owner(bundle: int, poll_id: int) -> int:
    """Which broker has a bundle: the first has most, until one moves."""
    if bundle == 0 and poll_id > MOVED_AT:
        return 2
    return (0, 0, 0, 0, 1, 2)[bundle]


def load(bundle: int, poll_id: int) -> float:
    """Messages a second: a swing over the day, a trend, and a little of all others."""
    hours = (poll_id - START) / 3_600_000
    wave = 1 + 0.5 * sin(2 * pi * hours / 24) + 0.01 * hours
    noise = ((poll_id // MINUTE * 7919 + bundle * 104_729) % 1000) / 10_000
    return 10.0 * (bundle + 1) * (wave + noise)


def journal() -> list[dict[str, Any]]:
    """A round with moves that succeed and fail, one without its decision, and what it refused."""
    common = {"poll_id": MOVED_AT, "at": MOVED_AT}
    moves = [
        ("a", 0, "b2:8080", "moved", ""),
        ("b", 1, "b1:8080", "failed", "HTTP 500"),
        ("c", 2, "b1:8080", "moved", ""),
    ]
    rows: list[dict[str, Any]] = [
        {**common, "kind": "round", "strategy": "ThresholdShedder", "imbalance": 0.7, "brokers": 3,
         "bundles": 6, "decisions": 2, "rejections": 3}
    ]  # fmt: skip
    for name, bundle, destination, status, error in moves:
        ends = {"id": name, "bundle": BUNDLES[bundle], "source": BROKERS[0],
                "destination": destination}  # fmt: skip
        if name != "c":
            rows.append(
                {
                    **common,
                    "kind": "decision",
                    **ends,
                    "action": "unload",
                    "reason": "overloaded",
                    "sentence": f"{BUNDLES[bundle]} is much",
                }
            )
        started, ended = MOVED_AT + 2000, MOVED_AT + 4500
        rows.append(
            {**common, "kind": "outcome", **ends, "status": status, "carried_out": True,
             "started_at_ms": started, "ended_at_ms": ended, "started_at": started,
             "ended_at": ended, "error": error, "owner": destination}
        )  # fmt: skip
    most = "MaxUnloadPercentage"
    refused = [(0, most, 0.3, "b0"), (0, most, 0.5, "b1"), (EVERY, most, 0.1, "b0"),
               (0, "NoDestination", None, "b2")]  # fmt: skip
    rows += [
        {"poll_id": MOVED_AT + later, "at": MOVED_AT + later, "kind": "rejection", "rule": rule,
         "value": value, "limit": (value or 0.0) / 2, "subject": who,
         "setting": "maxUnloadPercentage", "sentence": f"{who} may shed no more"}
        for later, rule, value, who in refused
    ]  # fmt: skip
    return rows
