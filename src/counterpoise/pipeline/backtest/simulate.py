"""Replays one trace under one strategy: the same averages and decisions as on a live cluster.

Modelled are the delays that affect decisions. A decision uses what brokers reported last. Each
broker measures when it did in the recording, or once a step on synthetic load. A moved bundle stays
in the old broker's report until that broker measures again. The new broker's next report covers the
time since the bundle's clients reconnected, with what they published late. Averages lag behind the
load. A moved bundle is unavailable for a moment, and not moved again in its grace period. Bundles
of a broker that leaves are placed one by one, as lookups would, by the strategy's own placement. A
strategy that simulates Pulsar's own leader chooses destinations as it would
(`decide/balancing/as_leader.py`).

Not modelled are isolation policies and anti-affinity groups, which no history contains, and load
that changes because it was moved.
"""

from collections import Counter
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np

from counterpoise.decide.balancing.as_leader import select_as_leader
from counterpoise.decide.balancing.due import is_time, unmeasured
from counterpoise.decide.balancing.moves import MoveOutcome, MoveStatus, Round, RoundMemory
from counterpoise.decide.balancing.round import Strategy, store_weights
from counterpoise.decide.balancing.snapshot import ClusterSnapshot
from counterpoise.decide.placement.selection import Chooser
from counterpoise.decide.plan import Decision, DecisionKind
from counterpoise.load.rates import Floats, Indices, Rates
from counterpoise.load.usage import BANDWIDTH_IN, BANDWIDTH_OUT, CPU
from counterpoise.load.view import BrokerColumns, BundleColumns, ClusterView, Masks, movable_mask
from counterpoise.names.bundle import namespace_of
from counterpoise.pipeline.backtest.measure import BacktestResult, Measure
from counterpoise.pipeline.backtest.measurements import RATE_NAMES, Measurements
from counterpoise.pipeline.backtest.publications import Publications
from counterpoise.pipeline.backtest.trace import LoadTrace

_NEAR_STEPS = 12
"""A source that is not listed at some step this close to a recorded move was leaving."""
_PLACED_STEPS = 60
"""A recorded move this many steps before or after a broker left was a placement."""


@dataclass(frozen=True, slots=True)
class BacktestCandidate:
    """A strategy with its settings, under the name that the operator gave it."""

    label: str
    strategy: Strategy | None
    """The strategy; None: the baseline, in which no bundle moves."""
    as_recorded: bool = False
    """Whether bundles move when and where they did in the recording."""


AS_RECORDED = BacktestCandidate("as recorded", None, as_recorded=True)
"""The moves of the balancer that was running when the load was recorded."""


def simulate(
    candidate: BacktestCandidate,
    trace: LoadTrace,
    first: int,
    last: int,
    *,
    move_s: float,
    seed: int,
    followed: int = 0,
    begins_ms: int = 0,
) -> BacktestResult:
    """Replay steps `first` up to `last` of a trace under a strategy; a moved bundle is unavailable
    for `move_s` seconds.

    In the first ``followed`` steps the recorded moves are repeated, and nothing counts: this gives
    the strategy realistic averages and grace periods. Its first round is due ``begins_ms`` after
    them.
    """
    replay = _Simulation(candidate, trace, first, move_s, seed)
    counted = first + followed
    for step in range(first, counted):
        replay.follow(step)
    replay.begin(counted, begins_ms)
    for step in range(counted, last):
        replay.step(step)
    result = replay.measure.result(candidate.label, trace, counted, last)
    return replace(result, as_recorded=candidate.as_recorded, begins_ms=begins_ms)


class _Simulation:
    def __init__(
        self, candidate: BacktestCandidate, trace: LoadTrace, first: int, move_s: float, seed: int
    ) -> None:
        self._strategy = candidate.strategy
        self._trace = trace
        self._bundles = trace.bundles
        self._row = {name: row for row, name in enumerate(self._bundles)}
        self._brokers = trace.brokers
        self._rank = {name: rank for rank, name in enumerate(self._brokers)}
        self._movable = movable_mask(self._bundles)
        self._unmarked = np.zeros(len(self._bundles), np.bool_)
        self._as_recorded = candidate.as_recorded
        self._owners = trace.owners.copy()
        for step in range(first):
            for row, _, destination in trace.moved(step):
                self._owners[row] = destination
        by = candidate.strategy
        # Whenever a broker reports, Pulsar's leader folds all brokers' latest reports again.
        self._leads = by is not None and by.as_leader is not None
        self._measurements = Measurements(self._owners, sampled_together=self._leads)
        self._published: Publications | None = None
        """What brokers published under PIP-192, if the strategy is a leader that decides by it."""
        if by is not None and self._leads and by.reads_stores:
            self._published = Publications(len(self._brokers), by.balance)
        self._step = 0
        self._memory = RoundMemory()
        self._placement_memory: Any = None
        self._rng = Random(seed)
        self._view: ClusterView | None = None
        self.measure = Measure(move_s)

    def follow(self, step: int) -> None:
        """Simulate a step in which bundles move as they did in the recording."""
        loads, _ = self._report(step)
        moved = self._follow(step, loads)
        if self._strategy is not None:
            span_ms = self._strategy.balance.thrash_span_ms
            self._memory = self._memory.after(moved, span_ms=span_ms)

    def begin(self, step: int, wait_ms: int) -> None:
        """Start counting results at this step; the first round is due `wait_ms` ms later."""
        self.measure = Measure(self.measure.move_s)
        if self._strategy is not None:
            due_ms = self._trace.start_ms + step * self._trace.step_ms + wait_ms
            decided_ms = due_ms - self._strategy.balance.decide_every_ms
            self._memory = replace(self._memory, decided_at_ms=decided_ms)

    def step(self, step: int) -> None:
        """Simulate a step in which the strategy moves bundles if a round is due; with `as_recorded`
        the recorded moves are repeated instead.
        """
        trace, up = self._trace, self._trace.up(step)
        loads, now_ms = self._report(step)
        if self._as_recorded:
            self._follow(step, loads)
        else:
            self._place_orphans(now_ms, loads, up)
        used = self._used(step, loads)[up].max()
        self.measure.step(loads.throughput(), self._owners, up, trace.hosts.bytes_most, used)
        if self._strategy is None or not is_time(now_ms, self._memory, self._strategy.balance):
            return
        view = self._seen(now_ms, up)
        if self._waits(view):
            return
        seen = ClusterSnapshot(view, view.brokers, newest=self._measurements.reported)
        made = self._strategy.plan(seen, self._memory)
        self.measure.refused(made.rejections)
        carried_out = []
        for move in made.moves:
            row = self._row[move.bundle]
            if self._owners[row] != self._rank[move.source]:
                continue  # it has moved already, but its old broker's last report still has it
            self.measure.moved(step, row, loads)
            self._bring(row, self._rank[move.destination])
            carried_out.append(move)
        self._memory = self._after(replace(made, moves=tuple(carried_out)), view)

    def _report(self, step: int) -> tuple[Rates, int]:
        """Let brokers measure and report; returns the loads, and the time."""
        trace, self._step = self._trace, step
        now_ms = trace.start_ms + step * trace.step_ms
        loads, measured = trace.loads(step), trace.measured(step)
        self._measurements.measure(measured, loads, self.measure.move_s * 1000 / trace.step_ms)
        self._publish(now_ms, measured, step)
        return loads, now_ms

    def _used(self, step: int, loads: Rates) -> Floats:
        """Each broker's usage in per cent: of its processor or network, whichever is higher."""
        size = len(self._brokers)
        carried = [
            np.bincount(self._owners, getattr(loads, n), size).astype(float) for n in RATE_NAMES
        ]
        usage = self._trace.hosts.usage(Rates.of(*carried), step)
        return np.asarray(usage[:, (CPU, BANDWIDTH_IN, BANDWIDTH_OUT)].max(axis=1), np.float64)

    def _publish(self, now_ms: int, measured: Masks | None, step: int) -> None:
        """Let the brokers that measured publish the load data that a leader under PIP-192 reads."""
        if self._published is None or self._strategy is None:
            return
        count = len(self._brokers)
        served = np.flatnonzero(self._measurements.listed >= 0)
        owner, reported = self._measurements.listed[served], self._measurements.reported
        each = (getattr(reported, name)[served] for name in RATE_NAMES)
        rates = Rates(*(np.bincount(owner, flow, count).astype(float) for flow in each))
        usage = self._trace.hosts.usage(rates, step)
        bundles = np.bincount(self._owners, minlength=count)
        used = usage[:, (CPU, BANDWIDTH_IN, BANDWIDTH_OUT)].max(axis=1)
        figures = np.stack([rates.rate(), rates.throughput(), bundles, used], axis=1)
        averages = self._trace.hosts.averages(usage, store_weights(self._strategy), step)
        there = np.ones(count, np.bool_) if measured is None else measured
        self._published.publish(now_ms, there, figures, averages)

    def _bring(self, row: int, broker: int) -> None:
        """Move a bundle to a broker, to which its clients reconnect."""
        if self._published is not None:
            self._published.moved(np.array([self._owners[row], broker]))
        self._owners[row] = broker
        self._measurements.brought(row)

    def _follow(self, step: int, loads: Rates) -> list[MoveOutcome]:
        """Repeat the recorded moves of a step, and return those that a balancer made.

        Moves off a broker that was leaving count as placements.
        """
        now_ms = self._trace.start_ms + step * self._trace.step_ms
        moved = []
        around = range(max(0, step - _NEAR_STEPS), min(self._trace.steps, step + _NEAR_STEPS))
        for row, source, destination in self._trace.moved(step):
            if all(self._trace.up(each)[source] for each in around):
                self.measure.moved(step, row, loads)
                there, here = self._brokers[source], self._brokers[destination]
                moved.append(
                    MoveOutcome(
                        "",
                        now_ms,
                        self._bundles[row],
                        there,
                        here,
                        MoveStatus.MOVED,
                        here,
                        now_ms,
                        now_ms,
                    )
                )
            else:
                self.measure.orphan()
            self._bring(row, destination)
        return moved

    def _waits(self, view: ClusterView) -> bool:
        """Whether a round must wait until the brokers of the last moves have measured again.

        Pulsar's leader never waits.
        """
        if self._strategy is None or self._leads:
            return False
        options = self._strategy.balance
        return bool(unmeasured(view.now_ms, _traffic(view), self._memory, options))

    def _after(self, made: Round, view: ClusterView) -> RoundMemory:
        """The memory after the round's moves have all succeeded."""
        if self._strategy is None or not made.moves:
            return made.memory
        # Pulsar's leader counts a grace period from its round. Its rounds are slightly more than
        # an interval apart, so the round a whole grace period later may move the bundle again.
        took_ms = -1 if self._leads else round(self.measure.move_s * 1000)
        return made.memory.after(
            made.as_moved(made.poll_id + took_ms),
            span_ms=self._strategy.balance.thrash_span_ms,
            traffic=_traffic(view),
            carried={move.bundle: view.carried(move.bundle) for move in made.moves},
        )

    def _seen(self, now_ms: int, up: Masks) -> ClusterView:
        """Make the view that strategies decide on, from the brokers' last reports."""
        there = np.flatnonzero(up)
        rank = np.full(len(up), -1, np.intp)
        rank[there] = np.arange(len(there))
        listed = self._measurements.listed
        owner = np.where(listed >= 0, rank[listed], -1)
        served = np.flatnonzero(owner >= 0)
        # NumPy sorts numbers of 16 bits by counting them, and there are few brokers.
        narrow = owner[served].astype(np.min_scalar_type(len(there)))
        order = served[np.argsort(narrow, kind="stable")]
        counts = np.bincount(owner[served], minlength=len(there))
        offsets = np.zeros(len(there) + 1, np.intp)
        np.cumsum(counts, out=offsets[1:])
        broker = self._broker_columns(owner, served, there, counts)
        bundle = BundleColumns(
            self._measurements.short_average,
            self._measurements.long_average,
            self._trace.topics,
            self._measurements.samples,
            self._unmarked,
            self._movable,
        )
        names = tuple(self._brokers[i] for i in there.tolist())
        known = self._view
        if known is None or known.brokers != names:
            known = ClusterView.from_columns(
                now_ms=now_ms,
                brokers=names,
                broker=broker,
                bundles=self._bundles,
                bundle=bundle,
                reported=(owner[order], order),
            )
        seen = known.with_reports(offsets, order)
        self._view = replace(seen, now_ms=now_ms, broker=broker, bundle=bundle)
        return self._view

    def _broker_columns(
        self, owner: Indices, served: Indices, there: Indices, counts: Indices
    ) -> BrokerColumns:
        mine = slice(None) if len(served) == len(owner) else served
        owners, size = owner[mine], len(there)

        def added(column: Floats) -> Floats:
            return np.bincount(owners, column[mine], minlength=size).astype(np.float64)

        def summed(columns: Rates) -> Rates:
            return Rates(*(added(getattr(columns, name)) for name in RATE_NAMES))

        carried, traffic = Rates.zeros(len(self._brokers)), summed(self._measurements.reported)
        for name in RATE_NAMES:
            getattr(carried, name)[there] = getattr(traffic, name)
        topics = np.bincount(owners, self._trace.topics[served], minlength=len(there))
        known = {}
        if self._published is not None:
            known = {
                "load_average": self._published.averages[there],
                "measured_ms": self._published.at_ms[there],
            }
        return BrokerColumns.of(
            self._trace.hosts.usage(carried, self._step)[there].astype(np.float32),
            traffic,
            counts,
            topics=topics.astype(np.int64),
            short_average=summed(self._measurements.short_average),
            long_average=summed(self._measurements.long_average),
            **known,
        )

    def _place_orphans(self, now_ms: int, loads: Rates, up: Masks) -> None:
        """Place the bundles of brokers that left, one after the other."""
        orphans = np.flatnonzero(~up[self._owners])
        if not len(orphans):
            return
        view = self._seen(now_ms, up)
        extra = np.zeros(len(view.brokers))
        rate = self._measurements.long_average.rate()
        self._given: dict[str, Counter[str]] = {}
        usage = view.broker.usage.copy()
        known = self._placed_in_recording()
        for row in orphans.tolist():
            name = self._brokers[known.get((row, int(self._owners[row])), 0)]
            if (row, int(self._owners[row])) in known and name in view.row_of:
                chosen = view.row_of[name]
            else:
                chosen = self._placed(self._bundles[row], view, usage, extra)
            self._bring(row, self._rank[view.brokers[chosen]])
            extra[chosen] += rate[row]
            # Count what the bundle will cost there when the next one is placed.
            usage[chosen] += self._trace.hosts.more(int(self._owners[row]), loads, row)
            self.measure.orphan()

    def _placed_in_recording(self) -> dict[tuple[int, int], int]:
        """Where the cluster placed the bundles of brokers that left, by bundle and former broker.

        Brokers place bundles themselves, whichever balancer moves them otherwise. Empty for a
        strategy that simulates Pulsar's own leader, which uses its own placement.
        """
        if self._leads:
            return {}
        step = self._step
        near = range(max(0, step - _PLACED_STEPS), min(self._trace.steps, step + _PLACED_STEPS))
        return {
            (bundle, source): destination
            for each in near
            for bundle, source, destination in self._trace.moved(each)
        }

    def _placed(self, bundle: str, view: ClusterView, usage: Any, extra: Floats) -> int:
        if self._strategy is None:
            return self._rng.randrange(len(view.brokers))
        placement = self._strategy.placement
        if self._placement_memory is None:
            self._placement_memory = placement.initial_memory()
        seen = replace(view, broker=replace(view.broker, usage=usage, preallocated_rate=extra))
        memory = placement.forget(self._placement_memory, view.brokers)
        options, filters = self._strategy.placement_options, self._strategy.as_leader
        if filters is None:
            placed = placement.place(bundle, view.brokers, seen, memory, options, self._rng)
        else:
            given = self._given.setdefault(namespace_of(bundle), Counter())
            chooser = Chooser(placement, seen, options, self._rng)
            lookup = Decision(DecisionKind.UNLOAD, bundle, "", None, "lookup", "")
            placed = select_as_leader(
                lookup, view.brokers, chooser, memory, filters, given
            ).placement
            given[placed.broker or ""] += 1
        self._placement_memory = placed.memory
        if placed.broker is None:
            return self._rng.randrange(len(view.brokers))
        return view.row_of[placed.broker]


def _traffic(view: ClusterView) -> dict[str, float]:
    """By broker, messages/s plus bytes/s, as `due.traffic` computes them."""
    figures = view.broker.traffic.rate() + view.broker.traffic.throughput()
    return dict(zip(view.brokers, figures.tolist(), strict=True))
