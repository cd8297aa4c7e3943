"""Makes a trace for replay of a recorded history: each bundle's load, whichever broker had it.

Every recording is replayed in steps of five seconds, because brokers measure and bundles move at
any time within a minute. A minute is a whole number of steps, so rounds are exactly a minute apart.
The length of a step is no option, so results do not depend on one.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.load.rates import Floats, Indices, Rates
from counterpoise.load.rows import BROKER, BUNDLE, GAP, RATES, RESOURCES, USAGE
from counterpoise.load.usage import BANDWIDTH_IN, CPU, weighted_max
from counterpoise.load.view import Integers, Masks
from counterpoise.names.errors import ExplainedError
from counterpoise.pipeline.backtest import recorded_load
from counterpoise.pipeline.backtest.topic_shares import TopicShares, topic_shares
from counterpoise.pipeline.backtest.trace import Hosts
from counterpoise.pipeline.clock import EVER
from counterpoise.pipeline.tables.faults import DamagedError
from counterpoise.pipeline.tables.history import TablesReader
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.reports import read_reports
from counterpoise.pipeline.tables.schema import REPORTS, completed

REPLAYED = (
    "poll_id",
    "kind",
    "broker",
    "bundle",
    "fresh",
    "topics",
    "load_average",
    *RATES,
    *USAGE,
)
"""The columns of `reports` that a trace is made of."""
ROOM = 8e9
"""The most bytes of loads in a process: a month of 100 brokers with 5,000 bundles by the minute."""
_BYTES_A_LOAD = 32
_BYTES_A_STEP = 24
"""Bytes of a broker at a step: whether it is listed, whether it measured, and its usage."""
STEP_MS = 5000
"""The length of a step of a replay, in milliseconds."""
_BYTES_MOST = 1.25e9
"""The assumed capacity of a network in bytes/s if no report shows it: ten Gbit/s."""


class NothingRecordedError(ExplainedError, ValueError):
    """The requested span of the history cannot be replayed: no load, or too much for memory."""


@dataclass(frozen=True)
class Recording:
    """A span of a history to replay as a trace; serialisable, as each process reads it itself."""

    uri: str
    first_ms: int = 0
    """The beginning of the span, in milliseconds since 1970."""
    last_ms: int = EVER
    """The end of the span, in milliseconds since 1970."""

    @property
    def when(self) -> str:
        """The recorded span as a phrase for sentences; empty for the whole history."""
        return " between --from and --to" if (self.first_ms, self.last_ms) != (0, EVER) else ""

    def open(self) -> "RecordedTrace":
        """Return the trace, which is read once per process."""
        return _read(self)


@dataclass(eq=False)
class RecordedTrace:
    """A history's load reports as a trace: a bundle's load stays until its next report."""

    name: str
    start_ms: int
    brokers: tuple[str, ...]
    bundles: tuple[str, ...]
    topics: Integers
    owners: Indices
    hosts: Hosts
    moves: recorded_load.OwnerChanges
    _loads: recorded_load.LoadChanges
    _up: Any
    _measured: Any
    _recording: Recording | None
    """The history from which `topic_shares` reads the loads of topics."""

    step_ms = STEP_MS

    def __post_init__(self) -> None:
        self.steps = len(self._up)
        self._changes = np.searchsorted(self._at(self._loads.from_ms), np.arange(self.steps + 1))
        self._went = np.searchsorted(self._at(self.moves.at_ms), np.arange(self.steps + 1))
        self._step = -1
        self._now = np.zeros((len(self.bundles), 4))

    def _at(self, moments: Integers) -> Integers:
        """For each of these times (ms since 1970), the index of the first step after it."""
        return (moments - self.start_ms) // self.step_ms + 1

    def loads(self, step: int) -> Rates:
        """The load of each bundle at a step."""
        if step < self._step:
            self._step = -1
            self._now[:] = 0.0
        changes = self._loads
        begun = self._changes[self._step + 1] if self._step >= 0 else 0
        rows = slice(begun, self._changes[step + 1])
        # The last of several changes of a bundle is what stays.
        self._now[changes.bundle[rows]] = changes.rates[rows]
        self._step = step
        return Rates(*(self._now[:, i].copy() for i in range(4)))

    def topic_shares(self, bundles: Collection[str]) -> Mapping[str, TopicShares]:
        """How the load of these bundles is divided among their topics, where that was recorded.

        Raises `HistoryFaultError`.
        """
        if self._recording is None or not bundles:
            return {}
        return _shares_in(self._recording, frozenset(bundles))

    def up(self, step: int) -> Masks:
        """The brokers that the cluster listed at a step, as a mask."""
        listed: Masks = self._up[step]
        return listed

    def measured(self, step: int) -> Masks:
        """The brokers that had made a new measurement by the end of the step, as a mask."""
        found: Masks = self._measured[step]
        return found

    def moved(self, step: int) -> Sequence[tuple[int, int, int]]:
        """Recorded moves at a step: (bundle, source, destination), each as an index."""
        rows = slice(self._went[step], self._went[step + 1])
        moves = self.moves
        return [
            (int(bundle), int(source), int(destination))
            for bundle, source, destination in zip(
                moves.bundle[rows], moves.source[rows], moves.destination[rows], strict=True
            )
        ]


@dataclass(frozen=True)
class RecordedHosts(Hosts):
    """Hosts with the recorded usage, adjusted if the load differs from the recorded load."""

    used: Any
    """The recorded usage in per cent, by step, broker and resource."""
    carried: Any
    """The recorded rates of each broker, by step and broker."""
    own: Any
    """The average of its usage that each broker computed when it last measured, by step and broker;
    0 where there is none."""

    def usage(self, loads: Rates, step: int = 0) -> Floats:
        """The recorded usage in per cent, adjusted if the load differs from the recorded load."""
        known = self.carried[step].astype(np.float64)
        used: Floats = self.used[step].astype(np.float64)
        used[:, 0] += self.cpu_of_rate * (loads.rate() - known[:, 0] - known[:, 1])
        used[:, 3] += 100.0 * (loads.throughput_in - known[:, 2]) / self.bytes_most
        used[:, 4] += 100.0 * (loads.throughput_out - known[:, 3]) / self.bytes_most
        used[:, 0] = np.minimum(100.0, used[:, 0])
        return np.maximum(used, 0.0)

    def averages(self, usage: Floats, weights: Floats, step: int) -> Floats:
        """The brokers' own averages of their weighted usage at a step, 0 where unknown.

        They are the recorded ones, shifted by how much `usage` differs from the recorded usage.
        """
        own: Floats = self.own[step, :, 0].astype(np.float64)
        then = weighted_max(self.used[step], weights)
        shifted = own + weighted_max(usage.astype(np.float32), weights) - then
        return np.where(own > 0, np.maximum(shifted, np.finfo(float).tiny), 0.0)


@lru_cache(maxsize=1)  # the same bundles are cut for each number of brokers that is tried
def _shares_in(recording: Recording, bundles: frozenset[str]) -> Mapping[str, TopicShares]:
    location = open_location(recording.uri)
    columns = ("bundle", "topic_loads")
    names = pa.array(sorted(bundles), pa.string())
    rows: list[tuple[str, str]] = []
    reader, first, last = TablesReader(location), recording.first_ms, recording.last_ms
    for part in read_reports(reader, first - 1, last, columns, (BUNDLE,)):
        kept = part.filter(pc.not_equal(pc.fill_null(part.column("topic_loads"), ""), ""))
        mine = kept.filter(pc.is_in(kept.column("bundle").cast(pa.string()), names))
        rows += zip(*(mine.column(name).to_pylist() for name in columns), strict=True)
    try:
        return topic_shares(rows)
    except ValueError as error:
        raise DamagedError(
            f"{location.where(REPORTS)} has topic_loads that cannot be read ({error}): replay "
            "without --bundles, or another time (--from, --to)"
        ) from None


@lru_cache(maxsize=1)
def _read(recording: Recording) -> RecordedTrace:
    location = open_location(recording.uri)
    first, last = recording.first_ms, recording.last_ms
    rows = read_reports(TablesReader(location), first - 1, last, REPLAYED)
    parts = [_plain(part) for part in rows]
    whole = pa.concat_tables(parts) if parts else None
    if whole is None or not (whole.column("kind").to_numpy() == BUNDLE).any():
        raise NothingRecordedError(
            f"{location.address} has no report of any bundle{recording.when}: `counterpoise watch "
            "--history` or `counterpoise balance --history` records one"
        )
    return trace_of(whole, recording.uri, recording)


def trace_of(whole: pa.Table, name: str, recording: Recording | None = None) -> RecordedTrace:
    """Build the trace of a recording from rows of the table `reports`."""
    polls = whole.column("poll_id").to_numpy()
    start_ms = int(polls.min())
    steps = -((start_ms - polls) // STEP_MS)
    count = int(steps.max()) + 1
    kinds = np.asarray(whole.column("kind").to_numpy())
    of_bundle, of_broker = kinds == BUNDLE, kinds == BROKER
    brokers, broker_of = _codes(whole.column("broker"), of_bundle | of_broker | (kinds == GAP))
    bundles, bundle_of = _codes(whole.column("bundle"), of_bundle)
    at, seen = np.flatnonzero(of_bundle), np.flatnonzero(of_broker)
    _expect_room(len(at), count * len(brokers))
    rates = np.stack([whole.column(name).to_numpy() for name in RATES], axis=1)
    topics = np.zeros(len(bundles), np.int64)
    topics[bundle_of[at]] = whole.column("topics").to_numpy()[at]
    # Rows are assigned from the last to the first, so the first report of each bundle remains.
    owners = np.zeros(len(bundles), np.intp)
    owners[bundle_of[at[::-1]]] = broker_of[at[::-1]]
    fresh = np.flatnonzero(of_broker & whole.column("fresh").to_numpy(zero_copy_only=False))
    sound = at[np.isfinite(rates[at]).all(axis=1)]
    loads, moves = recorded_load.changes_of(
        recorded_load.BundleReports(
            polls[sound],
            broker_of[sound],
            bundle_of[sound],
            rates[sound],
            polls[fresh],
            broker_of[fresh],
        )
    )
    own = completed(whole, ["load_average"]).column("load_average").to_numpy()
    shape = (count, len(brokers))
    measured = np.zeros(shape, np.bool_)
    measured[steps[fresh], broker_of[fresh]] = True
    hosts = _hosts(whole, broker_of, seen, len(brokers))
    return RecordedTrace(
        name,
        start_ms,
        brokers,
        bundles,
        topics,
        owners,
        RecordedHosts(
            hosts.bytes_most,
            hosts.cpu_idle,
            hosts.cpu_of_rate,
            _kept(steps[seen], broker_of[seen], _used(whole, seen), shape),
            _kept(steps[seen], broker_of[seen], rates[seen], shape),
            _kept(steps[fresh], broker_of[fresh], own[fresh, np.newaxis], shape),
        ),
        moves,
        loads,
        _listed(steps, broker_of, np.flatnonzero(of_broker | (kinds == GAP)), count, len(brokers)),
        measured,
        recording,
    )


def _kept(steps: Any, brokers: Any, values: Any, shape: tuple[int, int]) -> Any:
    """Values by step and broker, each of which holds until the broker's next one.

    The first one also holds before it. A row of `values` with NaN or infinity is ignored; a broker
    without any other has zeros.
    """
    found = np.full((*shape, values.shape[1]), np.nan, np.float32)
    sound = np.isfinite(values).all(axis=1)
    found[steps[sound], brokers[sound]] = values[sound]
    for broker in range(shape[1]):
        known = np.flatnonzero(np.isfinite(found[:, broker, 0]))
        if not len(known):
            found[:, broker] = 0.0
            continue
        place = np.searchsorted(known, np.arange(shape[0]), side="right") - 1
        found[:, broker] = found[known[np.maximum(place, 0)], broker]
    return found


def _used(whole: pa.Table, rows: Any) -> Floats:
    """The usage in per cent, by row and resource; 0 without a limit."""
    columns = []
    for name in RESOURCES:
        usage = whole.column(f"{name}_usage").to_numpy()[rows]
        limit = whole.column(f"{name}_limit").to_numpy()[rows]
        columns.append(np.divide(100.0 * usage, limit, out=np.zeros(len(rows)), where=limit > 0))
    return np.stack(columns, axis=1)


def _expect_room(reports: int, steps: int) -> None:
    """Raise `NothingRecordedError` if the trace would take too much memory (`ROOM`)."""
    size = reports * _BYTES_A_LOAD + steps * _BYTES_A_STEP
    if size > ROOM:
        raise NothingRecordedError(
            f"{reports:,} reports of bundles and {steps:,} steps of brokers are "
            f"{size / 1e9:.1f} GB in every process that replays, and {ROOM / 1e9:.0f} GB are "
            "allowed: replay a part of it (--from, --to)"
        )


def _plain(part: pa.Table) -> pa.Table:
    """The rows with their dictionary-encoded text decoded, since dictionaries differ by file."""
    for column in ("kind", "broker", "bundle"):
        index = part.schema.get_field_index(column)
        part = part.set_column(index, column, part.column(column).cast(pa.string()))
    return part


def _codes(column: Any, rows: Any) -> tuple[tuple[str, ...], Any]:
    """Return the sorted names that occur in `rows` of a column, and for every row the index of its
    name.
    """
    encoded = column.combine_chunks().dictionary_encode()
    words, codes = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
    used = sorted({words[code] for code in np.unique(codes[rows]).tolist()})
    place = {name: number for number, name in enumerate(used)}
    return tuple(used), np.array([place.get(word, 0) for word in words], np.intp)[codes]


def _listed(steps: Any, brokers: Any, rows: Any, count: int, size: int) -> Any:
    up = np.zeros((count, size), np.bool_)
    up[steps[rows], brokers[rows]] = True
    for step in np.flatnonzero(~up.any(axis=1)).tolist():
        # Without a poll, or if no broker answered, the brokers of the previous step still count.
        up[step] = up[step - 1] if step else True
    return up


def _hosts(whole: pa.Table, brokers: Any, rows: Any, count: int) -> Hosts:
    """Estimate what load costs hosts: the capacity of each broker's network, and the processor's
    usage as a linear function of the message rate.
    """
    usage = _used(whole, rows)
    usage[~np.isfinite(usage)] = 0.0
    through = whole.column("msg_throughput_in").to_numpy()[rows]
    used, owner = usage[:, BANDWIDTH_IN], brokers[rows]
    loaded = (used > 0.5) & np.isfinite(through)
    each = np.divide(100.0 * through, used, out=np.zeros(len(rows)), where=loaded)
    # A broker that carried hardly anything is given the median capacity of the others.
    size = np.full(count, float(np.median(each[loaded])) if loaded.any() else _BYTES_MOST)
    for broker in range(count):
        mine = each[loaded & (owner == broker)]
        if len(mine):
            size[broker] = float(np.median(mine))
    rate = sum(whole.column(name).to_numpy()[rows] for name in ("msg_rate_in", "msg_rate_out"))
    known = np.isfinite(rate)
    slope, idle = _line(np.asarray(rate, np.float64)[known], usage[known, CPU])
    return Hosts(np.maximum(size, 1.0), np.full(count, idle), np.full(count, slope))


def _line(x: Floats, y: Floats) -> tuple[float, float]:
    """Slope and intercept of the line that fits the points best, neither below zero."""
    if len(x) < 2 or np.ptp(x) == 0:
        return 0.0, float(np.mean(y)) if len(y) else 0.0
    slope, start = np.polyfit(x, y, 1).tolist()
    if slope < 0:
        return 0.0, float(np.mean(y))
    return float(slope), max(0.0, float(start))


def move_seconds(rows: Iterable[Mapping[str, Any]]) -> float | None:
    """The median duration of the recorded moves in seconds; None without any."""
    took = [row["ended_at_ms"] - row["started_at_ms"] for row in rows if row["status"] == "moved"]
    return float(np.median(took)) / 1000 if took else None
