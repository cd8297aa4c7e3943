"""A poll's responses as the rows to store (`rows.COLUMNS`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterpoise.load.measured import Measured
from counterpoise.load.rows import BROKER, BUNDLE, COLUMNS, GAP, POLL, TEXT, Column, ReportRows


@dataclass(frozen=True, slots=True)
class Gap:
    """Why a broker's report could not be read, in place of the report."""

    reason: str


@dataclass(frozen=True, slots=True)
class Fetched:
    """One broker's response to a poll, and when it arrived (milliseconds since 1970)."""

    broker: str
    at_ms: int
    answer: Measured | Gap
    fresh: bool = False
    """Whether the answer is a measurement that no earlier poll had."""
    reported_ms: int = 0
    """When the report was made: by its own time or, without one, when a poll first read it."""


def poll_rows(poll_id: int, trouble: str, fetched: Sequence[Fetched]) -> ReportRows:
    """The rows to store for one poll of all brokers.

    ``trouble`` says why the brokers could not be listed; it is empty if they could.
    """
    at_ms = fetched[-1].at_ms if fetched else poll_id
    parts = [(1, {"kind": POLL, "note": trouble, "fetched_at_ms": at_ms})]
    for one in fetched:
        parts += _rows_of(one)
    count = sum(rows for rows, _ in parts)
    # A column that a part does not set is empty, zero or false.
    columns: dict[str, Column] = {
        name: np.full(count, "", dtype) if dtype == TEXT else np.zeros(count, dtype)
        for name, dtype in COLUMNS.items()
    }
    first = 0
    for rows, values in parts:
        for name, value in values.items():
            columns[name][first : first + rows] = value
        first += rows
    columns["poll_id"][:] = poll_id
    columns["seq"] = np.arange(count)
    return ReportRows(columns)


def _rows_of(one: Fetched) -> list[tuple[int, dict[str, Any]]]:
    """The rows that a broker's response is stored as, in parts.

    Each part has its number of rows, and its columns: one value for all of these rows, or one for
    each.
    """
    common: dict[str, Any] = {"broker": one.broker, "fetched_at_ms": one.at_ms}
    if isinstance(one.answer, Gap):
        return [(1, {**common, "kind": GAP, "note": one.answer.reason})]
    common |= {
        "report_at_ms": one.reported_ms,
        "age_ms": one.at_ms - one.reported_ms,
        "fresh": one.fresh,
    }
    broker = {**common, **one.answer.broker, "kind": BROKER, "digest": one.answer.figures}
    if not one.fresh:
        return [(1, broker)]
    bundles = one.answer.bundles
    return [(1, broker), (len(bundles["bundle"]), {**common, "kind": BUNDLE, **bundles})]
