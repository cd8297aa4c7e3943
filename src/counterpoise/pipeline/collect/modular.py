"""Reads the load report (`LocalBrokerData`) of a broker under Pulsar's modular load manager."""

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import orjson

from counterpoise.load import measured
from counterpoise.load.fields import LoadDataError
from counterpoise.load.report import LocalBrokerData
from counterpoise.load.rows import Table
from counterpoise.pipeline.collect.admin import Admin, RefusedError

_RATES = {
    "msg_rate_in": "msgRateIn",
    "msg_rate_out": "msgRateOut",
    "msg_throughput_in": "msgThroughputIn",
    "msg_throughput_out": "msgThroughputOut",
}
_COUNTS = {
    "topics": "topics",
    "producers": "producerCount",
    "consumers": "consumerCount",
    "cache_size": "cacheSize",
}
_PULSARS = (*_RATES.values(), *_COUNTS.values())
_ALL = itemgetter(*_PULSARS)
_NUMBERS, _WHOLE = frozenset((int, float)), frozenset((int,))


async def fetch(admin: Admin, address: str) -> bytes:
    """The body of `broker-stats/load-report` of a broker, for `parse`."""
    return await admin.get(f"{address}/admin/v2/broker-stats/load-report", of_itself=True)


def parse(body: bytes, broker: str) -> measured.Measured:
    """A broker's load from its load report's body; raises `RefusedError` or `LoadDataError`."""
    what = f"load report of {broker}"
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RefusedError(f"{what} is not JSON: {error}") from None
    if document is None:
        raise RefusedError("the broker has no load report")
    if not isinstance(document, dict):
        raise LoadDataError(what, "an object", document)
    stats = document.get("lastStats") or {}
    if isinstance(stats, dict):
        measured.expect_bundles(list(stats), f"{what}.lastStats")
    bundles = _columns(stats)
    if bundles is None:
        # A value is invalid or has an unusual form. This slower parser reads all valid forms, and
        # names an invalid value in its error.
        return measured.measured_of(LocalBrokerData.from_json(document, what))
    report = LocalBrokerData.from_json({**document, "lastStats": {}}, what)
    return measured.Measured.of(measured.broker_row(report), bundles, report.last_update)


def _columns(stats: Any) -> Table | None:
    """The columns of a broker's bundles; None if a value is not a plain number."""
    if not isinstance(stats, dict) or not set(map(type, stats.values())) <= {dict}:
        return None
    figures = _figures(list(stats.values()))
    rates = dict(zip(_RATES, figures, strict=False))
    counts = dict(zip(_COUNTS, figures[len(_RATES) :], strict=True))
    plain = all(set(map(type, each)) <= _NUMBERS for each in rates.values()) and all(
        set(map(type, each)) <= _WHOLE for each in counts.values()
    )
    return measured.bundle_columns(list(stats), rates, counts) if plain else None


def _figures(rows: list[dict[str, Any]]) -> list[Sequence[Any]]:
    """For each figure, in the order of `_PULSARS`, its values by bundle; a missing value is 0."""
    if not rows:
        return [()] * len(_PULSARS)
    try:
        return list(zip(*map(_ALL, rows), strict=True))
    except KeyError:
        missing = [0.0] * len(_RATES) + [0] * len(_COUNTS)
        return [
            [row.get(name, nothing) for row in rows]
            for name, nothing in zip(_PULSARS, missing, strict=True)
        ]
