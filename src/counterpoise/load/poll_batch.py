"""Builds the fold's input directly from brokers' answers, without the rows that a history stores.

The result equals `Batch.of(poll_rows(...))`. A broker uses it, since it stores no history: to make
those rows would take longer than to fold them.
"""

from collections.abc import Sequence

import numpy as np

from counterpoise.load.fold import Batch
from counterpoise.load.measured import Measured
from counterpoise.load.poll_rows import Fetched
from counterpoise.load.rows import BROKER, COLUMNS, GAP, POLL, REPORT, SAMPLE, TEXT, Column, Table


def poll_batch(poll_id: int, fetched: Sequence[Fetched]) -> Batch:
    """The input of `fold` from a poll's responses; ``poll_id`` is its time in milliseconds."""
    at_ms = fetched[-1].at_ms if fetched else poll_id
    reports = [{"kind": POLL, "fetched_at_ms": at_ms, "poll_id": poll_id, "seq": 0}]
    samples, seq = [], 1
    for one in fetched:
        common = {"broker": one.broker, "fetched_at_ms": one.at_ms, "poll_id": poll_id, "seq": seq}
        seq += 1
        if not isinstance(one.answer, Measured):
            reports.append({**common, "kind": GAP, "note": one.answer.reason})
            continue
        broker = {"kind": BROKER, "report_at_ms": one.reported_ms, "fresh": one.fresh}
        reports.append({**common, **one.answer.broker, **broker})
        if one.fresh:
            samples.append(_samples(poll_id, seq, one, one.answer.bundles))
            seq += len(one.answer.bundles["bundle"])
    return Batch.joined([_nothing(SAMPLE), *samples], [_table(reports)])


def _samples(poll_id: int, seq: int, one: Fetched, bundles: Table) -> Table:
    count = len(bundles["bundle"])
    common = {
        "poll_id": np.full(count, poll_id, np.int64),
        "seq": np.arange(seq, seq + count),
        "fetched_at_ms": np.full(count, one.at_ms, np.int64),
        "broker": np.full(count, one.broker, TEXT),
    }
    return {name: common[name] if name in common else bundles[name] for name in SAMPLE}


def _table(rows: Sequence[dict[str, object]]) -> Table:
    table: dict[str, Column] = {}
    for name in REPORT:
        dtype = COLUMNS[name]
        nothing = "" if dtype == TEXT else 0
        table[name] = np.array([row.get(name, nothing) for row in rows], dtype)
    return table


def _nothing(names: tuple[str, ...]) -> Table:
    return {name: np.zeros(0, COLUMNS[name]) for name in names}
