"""One strategy over one trace: the same averages, the same decisions, owners that follow them.

What is modelled, because it hurts: reports come once a step, and a decision sees the load of the
last one; averages lag behind the load; a bundle that moved is left alone for the grace period and
unavailable for a moment; the bundles of a broker that leaves are placed one by one, as lookups
would, by the strategy's own placement; where a strategy plays Pulsar's own leader, destinations are
chosen as that does (`decide/balancing/as_leader.py`). What is not: isolation policies and
anti-affinity groups, which no history has; that a client reconnects later than others; or that load
changes because it was moved.
"""

from collections import Counter
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np

from counterpoise.decide.balancing.as_leader import select_as_leader
from counterpoise.decide.balancing.due import is_time
from counterpoise.decide.balancing.moves import Round, RoundMemory
from counterpoise.decide.balancing.round import Strategy
from counterpoise.decide.balancing.snapshot import ClusterSnapshot
from counterpoise.decide.placement.selection import Chooser
from counterpoise.decide.plan import Decision, DecisionKind
from counterpoise.load.average import LONG_TERM_SAMPLES, SHORT_TERM_SAMPLES, fold_samples
from counterpoise.load.rates import Floats, Indices, Rates
from counterpoise.load.view import (
    BrokerColumns,
    BundleColumns,
    ClusterView,
    Masks,
    movable_mask,
)
from counterpoise.names.bundle import namespace_of
from counterpoise.pipeline.backtest.measure import BacktestResult, Measure
from counterpoise.pipeline.backtest.trace import LoadTrace

_RATES = ("rate_in", "rate_out", "throughput_in", "throughput_out")
_TERMS = (SHORT_TERM_SAMPLES, LONG_TERM_SAMPLES)


@dataclass(frozen=True, slots=True)
class BacktestCandidate:
    """What is tried: a strategy with its settings, under the name that a person gave it."""

    label: str
    strategy: Strategy | None
    """None: the baseline, in which no bundle moves."""


def simulate(
    candidate: BacktestCandidate,
    trace: LoadTrace,
    first: int,
    last: int,
    *,
    move_s: float,
    seed: int,
) -> BacktestResult:
    """Play these steps of a trace; a bundle that moves is unavailable for `move_s` seconds."""
    play = _Simulation(candidate, trace, move_s, seed)
    for step in range(first, last):
        play.step(step)
    return play.measure.result(candidate.label, trace, first, last)


class _Simulation:
    def __init__(
        self, candidate: BacktestCandidate, trace: LoadTrace, move_s: float, seed: int
    ) -> None:
        self._strategy = candidate.strategy
        self._trace = trace
        self._bundles = trace.bundles
        self._row = {name: row for row, name in enumerate(self._bundles)}
        self._brokers = trace.brokers
        self._rank = {name: rank for rank, name in enumerate(self._brokers)}
        self._movable = movable_mask(self._bundles)
        self._unmarked = np.zeros(len(self._bundles), np.bool_)
        self._owners = trace.owners.copy()
        self._counts = [np.zeros(len(self._bundles), np.int64) for _ in _TERMS]
        self._averages = [np.zeros((len(self._bundles), 4)) for _ in _TERMS]
        self._memory = RoundMemory()
        self._placement_memory: Any = None
        self._rng = Random(seed)
        self._view: ClusterView | None = None
        self.measure = Measure(move_s)

    def step(self, step: int) -> None:
        trace = self._trace
        now_ms = trace.start_ms + step * trace.step_ms
        loads, up = trace.loads(step), trace.up(step)
        sample = np.stack(
            [loads.rate_in, loads.rate_out, loads.throughput_in, loads.throughput_out], axis=1
        )
        for term, limit in enumerate(_TERMS):
            folded = fold_samples(self._counts[term], self._averages[term], sample, limit)
            self._counts[term], self._averages[term] = folded
        self._place_orphans(now_ms, loads, up)
        self.measure.step(loads.throughput(), self._owners, up, trace.hosts.bytes_most)
        if self._strategy is None or not is_time(now_ms, self._memory, self._strategy.balance):
            return
        view = self._seen(now_ms, loads, up)
        made = self._strategy.plan(ClusterSnapshot(view, view.brokers), self._memory)
        self.measure.refused(made.rejections)
        for move in made.moves:
            row = self._row[move.bundle]
            self.measure.moved(step, row, loads)
            self._owners[row] = self._rank[move.destination]
        self._memory = self._after(made, view)

    def _after(self, made: Round, view: ClusterView) -> RoundMemory:
        """The memory once the round's moves have all succeeded."""
        if self._strategy is None or not made.moves:
            return made.memory
        traffic = (view.broker.traffic.rate() + view.broker.traffic.throughput()).tolist()
        return made.memory.after(
            made.as_moved(made.poll_id + round(self.measure.move_s * 1000)),
            self._strategy.balance.thrash_span_ms,
            dict(zip(view.brokers, traffic, strict=True)),
            {move.bundle: view.carried(move.bundle) for move in made.moves},
        )

    def _seen(self, now_ms: int, loads: Rates, up: Masks) -> ClusterView:
        """What brokers report, as the view that strategies decide on."""
        there = np.flatnonzero(up)
        rank = np.full(len(up), -1, np.intp)
        rank[there] = np.arange(len(there))
        owner = rank[self._owners]
        served = np.flatnonzero(owner >= 0)
        # NumPy sorts numbers of 16 bits by counting them, and there are few brokers.
        narrow = owner[served].astype(np.min_scalar_type(len(there)))
        order = served[np.argsort(narrow, kind="stable")]
        counts = np.bincount(owner[served], minlength=len(there))
        offsets = np.zeros(len(there) + 1, np.intp)
        np.cumsum(counts, out=offsets[1:])
        broker = self._broker_columns(loads, owner, served, there, counts)
        bundle = BundleColumns(
            _rates(self._averages[0]),
            _rates(self._averages[1]),
            self._trace.topics,
            self._samples(),
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

    def _samples(self) -> Any:
        count = len(self._bundles)
        columns = [
            column
            for limit, counts in zip(_TERMS, self._counts, strict=True)
            for column in (np.full(count, limit, np.int64), counts)
        ]
        return np.stack(columns, axis=1)

    def _broker_columns(
        self, loads: Rates, owner: Indices, served: Indices, there: Indices, counts: Indices
    ) -> BrokerColumns:
        owners, size = owner[served], len(there)

        def added(column: Floats) -> Floats:
            return np.bincount(owners, column[served], minlength=size).astype(np.float64)

        def summed(columns: Rates) -> Rates:
            return Rates(*(added(getattr(columns, name)) for name in _RATES))

        carried = Rates.zeros(len(self._brokers))
        traffic = summed(loads)
        for name in _RATES:
            getattr(carried, name)[there] = getattr(traffic, name)
        topics = np.bincount(owner[served], self._trace.topics[served], minlength=len(there))
        return BrokerColumns.of(
            self._trace.hosts.usage(carried)[there].astype(np.float32),
            traffic,
            counts,
            topics=topics.astype(np.int64),
            short_average=summed(_rates(self._averages[0])),
            long_average=summed(_rates(self._averages[1])),
        )

    def _place_orphans(self, now_ms: int, loads: Rates, up: Masks) -> None:
        """Give the bundles of brokers that are gone to others, one after the other."""
        orphans = np.flatnonzero(~up[self._owners])
        if not len(orphans):
            return
        view = self._seen(now_ms, loads, up)
        extra = np.zeros(len(view.brokers))
        self._given: dict[str, Counter[str]] = {}
        usage = view.broker.usage.copy()
        for row in orphans.tolist():
            chosen = self._placed(self._bundles[row], view, usage, extra)
            self._owners[row] = self._rank[view.brokers[chosen]]
            extra[chosen] += self._averages[1][row, :2].sum()
            # What the bundle will cost there, so that the next one sees it.
            usage[chosen] += self._trace.hosts.more(int(self._owners[row]), loads, row)
            self.measure.orphan()

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


def _rates(columns: Floats) -> Rates:
    return Rates(*(np.ascontiguousarray(columns[:, i]) for i in range(4)))
