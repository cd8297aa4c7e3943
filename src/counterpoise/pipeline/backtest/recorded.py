"""A recorded history as a trace: each bundle's load by the minute, whichever broker had it."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.load.fold import FORGET_AFTER_MS
from counterpoise.load.rates import Floats, Indices, Rates
from counterpoise.load.rows import BROKER, BUNDLE, GAP, RATES
from counterpoise.load.view import Integers, Masks
from counterpoise.pipeline.backtest.trace import Hosts
from counterpoise.pipeline.history.layout import files
from counterpoise.pipeline.history.names import EVER, span
from counterpoise.pipeline.history.store import Store, open_store
from counterpoise.pipeline.tables.parquet import read_rows

_COLUMNS = (
    *("poll_id", "kind", "broker", "bundle", "topics", *RATES),
    *("cpu_usage", "cpu_limit", "bandwidth_in_usage", "bandwidth_in_limit"),
)
ROOM = 4e9
"""Bytes of loads: a month of 100 brokers with 5,000 bundles by the minute."""
_BYTES_A_LOAD = 16
_BYTES_MOST = 1.25e9
"""Bytes/s that a network carries where no report says: ten Gbit/s."""


class NothingRecordedError(ValueError):
    """A history that has no load to play."""


@dataclass(frozen=True)
class Recording:
    """Where a trace is recorded; a value, so that it is read wherever it is played."""

    uri: str
    step_ms: int = 60_000
    first_ms: int = 0
    """From when on it is played."""
    last_ms: int = EVER
    """Until when."""

    @property
    def when(self) -> str:
        """Which part of what was recorded, for a person; empty for all of it."""
        return " between --from and --to" if (self.first_ms, self.last_ms) != (0, EVER) else ""

    def open(self) -> "RecordedTrace":
        """The trace; read once for each process."""
        return _read(self)


class RecordedTrace:
    """A trace of a recording: a load stays what it was until the bundle is reported again."""

    def __init__(self, name: str, start_ms: int, step_ms: int, table: "_Table") -> None:
        self.name = name
        self.start_ms = start_ms
        self.step_ms = step_ms
        self.steps = len(table.loads)
        self.brokers = table.brokers
        self.bundles = table.bundles
        self.topics: Integers = table.topics
        self.owners: Indices = table.owners
        self.hosts = table.hosts
        self._loads = table.loads
        self._up = table.up

    def loads(self, step: int) -> Rates:
        """What flows through each bundle."""
        columns = self._loads[step].astype(np.float64)
        return Rates(*(np.ascontiguousarray(columns[:, i]) for i in range(4)))

    def up(self, step: int) -> Masks:
        """The brokers that were listed."""
        listed: Masks = self._up[step]
        return listed


@dataclass(frozen=True)
class _Table:
    brokers: tuple[str, ...]
    bundles: tuple[str, ...]
    topics: Any
    owners: Any
    hosts: Hosts
    loads: Any
    up: Any


@lru_cache(maxsize=1)
def _read(recording: Recording) -> RecordedTrace:
    store = open_store(recording.uri)
    parts = [_part(store, name, recording) for name in _files(store, recording)]
    whole = pa.concat_tables(parts) if parts else None
    if whole is None or not (whole.column("kind").to_numpy() == BUNDLE).any():
        raise NothingRecordedError(
            f"{store.address} has no report of any bundle{recording.when}: `counterpoise watch "
            "--history` or `counterpoise balance --history` records one"
        )
    polls = whole.column("poll_id").to_numpy()
    start_ms = int(polls.min())
    steps = ((polls - start_ms) // recording.step_ms).astype(np.int64)
    count = int(steps.max()) + 1
    kinds = np.asarray(whole.column("kind").to_numpy())
    of_bundle, of_broker = kinds == BUNDLE, kinds == BROKER
    brokers, broker_of = _codes(whole.column("broker"), of_bundle | of_broker | (kinds == GAP))
    bundles, bundle_of = _codes(whole.column("bundle"), of_bundle)
    at = np.flatnonzero(of_bundle)
    _expect_room(count, len(bundles), recording)
    rates = np.stack([whole.column(name).to_numpy()[at] for name in RATES], axis=1)
    topics = np.zeros(len(bundles), np.int64)
    topics[bundle_of[at]] = whole.column("topics").to_numpy()[at]
    # The first report of each bundle: rows from the last to the first, so that it is what stays.
    owners = np.zeros(len(bundles), np.intp)
    owners[bundle_of[at[::-1]]] = broker_of[at[::-1]]
    table = _Table(
        brokers,
        bundles,
        topics,
        owners,
        _hosts(whole, broker_of, np.flatnonzero(of_broker), len(brokers)),
        _held(steps[at], bundle_of[at], rates, (count, len(bundles)), recording.step_ms),
        _listed(steps, broker_of, np.flatnonzero(of_broker | (kinds == GAP)), count, len(brokers)),
    )
    return RecordedTrace(recording.uri, start_ms, recording.step_ms, table)


def _files(store: Store, recording: Recording) -> list[str]:
    def played(name: str) -> bool:
        first, last = span(name) or (0, 0)
        return first <= recording.last_ms and last >= recording.first_ms

    return [name for name in files(store, "reports") if played(name)]


def _expect_room(steps: int, bundles: int, recording: Recording) -> None:
    """Raise `NothingRecordedError` for more than a process should hold."""
    size = steps * bundles * _BYTES_A_LOAD
    if size > ROOM:
        raise NothingRecordedError(
            f"{steps:,} steps of {recording.step_ms / 1000:g} s and {bundles:,} bundles are "
            f"{size / 1e9:.1f} GB in every process that plays, and {ROOM / 1e9:.0f} GB are allowed:"
            " play a part of it (--from, --to), or a longer --step"
        )


def _part(store: Store, name: str, recording: Recording) -> pa.Table:
    part: pa.Table = store.read(name, lambda file: read_rows(file, _COLUMNS))
    polls = part.column("poll_id")
    first, last = recording.first_ms, recording.last_ms
    part = part.filter(pc.and_(pc.greater_equal(polls, first), pc.less_equal(polls, last)))
    for column in ("kind", "broker", "bundle"):
        index = part.schema.get_field_index(column)
        part = part.set_column(index, column, part.column(column).cast(pa.string()))
    return part


def _codes(column: Any, rows: Any) -> tuple[tuple[str, ...], Any]:
    """The sorted names among some rows, and where each row's name stands among them."""
    encoded = column.combine_chunks().dictionary_encode()
    words, codes = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
    used = sorted({words[code] for code in np.unique(codes[rows]).tolist()})
    place = {name: number for number, name in enumerate(used)}
    return tuple(used), np.array([place.get(word, 0) for word in words], np.intp)[codes]


def _held(steps: Any, bundles: Any, rates: Any, shape: tuple[int, int], step_ms: int) -> Any:
    """Loads by step and bundle; a report counts until the next one, or until it is forgotten.

    One with a figure that is no number is left out: it would be the sum of all brokers.
    """
    count, size = shape
    sound = np.isfinite(rates).all(axis=1)
    steps, bundles, rates = steps[sound], bundles[sound], rates[sound]
    loads = np.zeros((count, size, 4), np.float32)
    loads[steps, bundles] = rates
    reported = np.zeros((count, size), np.bool_)
    reported[steps, bundles] = True
    last = np.full(size, -(10**9))
    for step in range(count):
        silent = ~reported[step]
        if step:
            kept = silent & ((step - last) * step_ms <= FORGET_AFTER_MS)
            loads[step, kept] = loads[step - 1, kept]
        last[reported[step]] = step
    return loads


def _listed(steps: Any, brokers: Any, rows: Any, count: int, size: int) -> Any:
    up = np.zeros((count, size), np.bool_)
    up[steps[rows], brokers[rows]] = True
    for step in np.flatnonzero(~up.any(axis=1)).tolist():
        # No poll, or one that reached no broker: what was there is still there.
        up[step] = up[step - 1] if step else True
    return up


def _hosts(whole: pa.Table, brokers: Any, rows: Any, count: int) -> Hosts:
    """What load cost in the recording: the network's size, and a line for the processor."""

    def percent(name: str) -> Floats:
        usage = whole.column(f"{name}_usage").to_numpy()[rows]
        limit = whole.column(f"{name}_limit").to_numpy()[rows]
        used: Floats = np.divide(100.0 * usage, limit, out=np.zeros(len(rows)), where=limit > 0)
        return np.where(np.isfinite(used), used, 0.0)

    through = whole.column("msg_throughput_in").to_numpy()[rows]
    used, owner = percent("bandwidth_in"), brokers[rows]
    loaded = (used > 0.5) & np.isfinite(through)
    each = np.divide(100.0 * through, used, out=np.zeros(len(rows)), where=loaded)
    # A broker that hardly carried anything is taken for one like the others.
    size = np.full(count, float(np.median(each[loaded])) if loaded.any() else _BYTES_MOST)
    for broker in range(count):
        mine = each[loaded & (owner == broker)]
        if len(mine):
            size[broker] = float(np.median(mine))
    rate = sum(whole.column(name).to_numpy()[rows] for name in ("msg_rate_in", "msg_rate_out"))
    known = np.isfinite(rate)
    slope, idle = _line(np.asarray(rate, np.float64)[known], percent("cpu")[known])
    return Hosts(np.maximum(size, 1.0), np.full(count, idle), np.full(count, slope))


def _line(x: Floats, y: Floats) -> tuple[float, float]:
    """Slope and start of the line through points, neither less than nothing."""
    if len(x) < 2 or np.ptp(x) == 0:
        return 0.0, float(np.mean(y)) if len(y) else 0.0
    slope, start = np.polyfit(x, y, 1).tolist()
    if slope < 0:
        return 0.0, float(np.mean(y))
    return float(slope), max(0.0, float(start))


def move_seconds(rows: Iterable[dict[str, Any]]) -> float | None:
    """What a move took on a cluster, by its recorded outcomes: the median; None without any."""
    took = [row["ended_at_ms"] - row["started_at_ms"] for row in rows if row["status"] == "moved"]
    return float(np.median(took)) / 1000 if took else None
