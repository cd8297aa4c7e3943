"""One strategy over one trace: the same averages, the same decisions, owners that follow them.

What is modelled, because it hurts: a decision goes by what brokers reported last, and each broker
measures when it did in the recording (on made-up load, once a step); a bundle that moved is in the
old broker's report until that measures again, and in the new one's from its next measurement on,
which is about the time since its clients came back and what they had held back by then; averages
lag behind the load; a bundle that moved is left alone for the grace period and unavailable for a
moment; the bundles of a broker that leaves are placed one by one, as lookups would, by the
strategy's own placement; where a strategy plays Pulsar's own leader, destinations are chosen as
that does (`decide/balancing/as_leader.py`). What is not: isolation policies and anti-affinity
groups, which no history has; or that load changes because it was moved.
"""

from collections import Counter
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np

from counterpoise.decide.balancing.as_leader import select_as_leader
from counterpoise.decide.balancing.due import is_time, unmeasured
from counterpoise.decide.balancing.moves import Round, RoundMemory
from counterpoise.decide.balancing.round import Strategy, store_weights
from counterpoise.decide.balancing.snapshot import ClusterSnapshot
from counterpoise.decide.placement.selection import Chooser
from counterpoise.decide.plan import Decision, DecisionKind
from counterpoise.load.average import LONG_TERM_SAMPLES, SHORT_TERM_SAMPLES, fold_samples
from counterpoise.load.rates import Floats, Indices, Rates
from counterpoise.load.usage import BANDWIDTH_IN, BANDWIDTH_OUT, CPU
from counterpoise.load.view import (
    BrokerColumns,
    BundleColumns,
    ClusterView,
    Masks,
    movable_mask,
)
from counterpoise.names.bundle import namespace_of
from counterpoise.pipeline.backtest.measure import BacktestResult, Measure
from counterpoise.pipeline.backtest.publications import Publications
from counterpoise.pipeline.backtest.trace import LoadTrace

_RATES = ("rate_in", "rate_out", "throughput_in", "throughput_out")
_NEAR_STEPS = 12
"""A broker that is not listed so many steps around a change of owner was leaving."""
_PLACED_STEPS = 60
"""How many steps around the end of a broker its bundles were placed in the recording."""
_TERMS = (SHORT_TERM_SAMPLES, LONG_TERM_SAMPLES)


@dataclass(frozen=True, slots=True)
class BacktestCandidate:
    """A strategy with its settings, under the name that the operator gave it."""

    label: str
    strategy: Strategy | None
    """None: the baseline, in which no bundle moves."""
    as_recorded: bool = False
    """Whether bundles move when and where they did in the recording."""


AS_RECORDED = BacktestCandidate("as recorded", None, as_recorded=True)
"""What the balancer did that was at work when the load was recorded."""


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
    result = play.measure.result(candidate.label, trace, first, last)
    return replace(result, as_recorded=candidate.as_recorded)


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
        self._as_recorded = candidate.as_recorded
        self._owners = trace.owners.copy()
        self._listed = self._owners
        """By bundle: the broker whose last report has it; -1 for none."""
        shape = len(self._bundles), 4  # each of four figures lies in one piece
        self._reported = np.zeros(shape, order="F")
        self._flow = np.zeros(shape, order="F")
        """What flowed since the last measurement, or since the bundle came; a sum of steps."""
        self._flowed = np.zeros(len(self._bundles), np.int64)
        """For how many steps."""
        self._arrived = np.zeros(len(self._bundles), np.bool_)
        self._published: Publications | None = None
        """What brokers published for a leader that goes by it."""
        if self._strategy and self._strategy.as_leader and self._strategy.reads_stores:
            self._published = Publications(len(self._brokers), self._strategy.balance)
        self._step: int | None = None
        self._counts = [np.zeros(len(self._bundles), np.int64) for _ in _TERMS]
        self._averages = [np.zeros(shape, order="F") for _ in _TERMS]
        self._memory = RoundMemory()
        self._placement_memory: Any = None
        self._rng = Random(seed)
        self._view: ClusterView | None = None
        self.measure = Measure(move_s)

    def step(self, step: int) -> None:
        trace = self._trace
        now_ms = trace.start_ms + step * trace.step_ms
        loads, up = trace.loads(step), trace.up(step)
        measured = trace.measured(step)
        self._measure(measured, loads)
        self._publish(now_ms, measured, step)
        self._step = step
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
        seen = ClusterSnapshot(view, view.brokers, newest=_rates(self._reported))
        made = self._strategy.plan(seen, self._memory)
        self.measure.refused(made.rejections)
        for move in made.moves:
            row = self._row[move.bundle]
            if self._owners[row] != self._rank[move.source]:
                continue  # it has gone already, and its old broker's report still has it
            self.measure.moved(step, row, loads)
            self._bring(row, self._rank[move.destination])
        self._memory = self._after(made, view)

    def _used(self, step: int, loads: Rates) -> Floats:
        """By broker: per cent used of its processor or its network, whichever is higher."""
        size = len(self._brokers)
        carried = [np.bincount(self._owners, getattr(loads, n), size).astype(float) for n in _RATES]
        usage = self._trace.hosts.usage(Rates.of(*carried), step)
        return np.asarray(usage[:, (CPU, BANDWIDTH_IN, BANDWIDTH_OUT)].max(axis=1), np.float64)

    def _measure(self, measured: Masks | None, loads: Rates) -> None:
        """Let brokers measure the load of their bundles since their last measurement."""
        sample = np.stack([getattr(loads, name) for name in _RATES]).T
        if measured is None:
            self._reported = sample
            self._sample(slice(None))
            return
        if self._step is None:  # the first reports
            self._listed = self._owners.copy()
            measured = np.ones_like(measured)
        self._flow += sample
        self._flowed += 1
        self._listed[(self._listed != self._owners) & measured[self._listed]] = -1
        mine = np.flatnonzero(measured[self._owners])
        steps = self._flowed[mine, np.newaxis]
        held_back = self.measure.move_s * 1000 / self._trace.step_ms * self._arrived[mine]
        self._reported[mine] = self._flow[mine] / steps * (1 + held_back[:, np.newaxis] / steps)
        self._listed[mine] = self._owners[mine]
        self._forget_flow(mine)
        if len(mine):
            # Pulsar's leader averages all reports again whenever there is a new one.
            leads = self._strategy is not None and self._strategy.as_leader is not None
            self._sample(np.flatnonzero(self._listed >= 0) if leads else mine)

    def _publish(self, now_ms: int, measured: Masks | None, step: int) -> None:
        """Let the brokers that measured publish what a leader under PIP-192 reads."""
        if self._published is None or self._strategy is None:
            return
        count = len(self._brokers)
        served = np.flatnonzero(self._listed >= 0)
        owner = self._listed[served]
        rates = Rates(
            *(np.bincount(owner, self._reported[served, i], count).astype(float) for i in range(4))
        )
        usage = self._trace.hosts.usage(rates, step)
        figures = np.stack(
            [rates.rate(), rates.throughput(), np.bincount(self._owners, minlength=count),
             usage[:, (CPU, BANDWIDTH_IN, BANDWIDTH_OUT)].max(axis=1)], axis=1,
        )  # fmt: skip
        averages = self._trace.hosts.averages(usage, store_weights(self._strategy), step)
        there = np.ones(count, np.bool_) if measured is None else measured
        self._published.publish(now_ms, there, figures, averages)

    def _sample(self, rows: Any) -> None:
        """Fold the latest reports of these bundles into their averages."""
        for term, limit in enumerate(_TERMS):
            counts, averages = self._counts[term], self._averages[term]
            folded = fold_samples(counts[rows], averages[rows], self._reported[rows], limit)
            counts[rows], averages[rows] = folded

    def _forget_flow(self, rows: Any, *, arrived: bool = False) -> None:
        self._flow[rows] = 0.0
        self._flowed[rows] = 0
        self._arrived[rows] = arrived

    def _bring(self, row: int, broker: int) -> None:
        """Give a bundle to a broker, to which its clients reconnect."""
        if self._published is not None:
            self._published.moved(np.array([self._owners[row], broker]))
        self._owners[row] = broker
        self._forget_flow(row, arrived=True)

    def _follow(self, step: int, loads: Rates) -> None:
        """Repeat the recording's moves; those off a leaving broker count as placements, not as
        moves.
        """
        around = range(max(0, step - _NEAR_STEPS), min(self._trace.steps, step + _NEAR_STEPS))
        for row, source, destination in self._trace.moved(step):
            if all(self._trace.up(each)[source] for each in around):
                self.measure.moved(step, row, loads)
            else:
                self.measure.orphan()
            self._bring(row, destination)

    def _waits(self, view: ClusterView) -> bool:
        """Whether brokers of the last moves have not measured since. Pulsar's leader does not
        wait.
        """
        if self._strategy is None or self._strategy.as_leader is not None:
            return False
        options = self._strategy.balance
        return bool(unmeasured(view.now_ms, _traffic(view), self._memory, options))

    def _after(self, made: Round, view: ClusterView) -> RoundMemory:
        """The memory after all the round's moves have succeeded."""
        if self._strategy is None or not made.moves:
            return made.memory
        # Pulsar's leader counts a grace period from its round, and its rounds are an interval and
        # what a round takes apart, so a bundle is free at the round that is a whole period later.
        leads = self._strategy.as_leader is not None
        took_ms = -1 if leads else round(self.measure.move_s * 1000)
        return made.memory.after(
            made.as_moved(made.poll_id + took_ms),
            self._strategy.balance.thrash_span_ms,
            _traffic(view),
            {move.bundle: view.carried(move.bundle) for move in made.moves},
        )

    def _seen(self, now_ms: int, up: Masks) -> ClusterView:
        """The brokers' reports, as the view that strategies decide on."""
        there = np.flatnonzero(up)
        rank = np.full(len(up), -1, np.intp)
        rank[there] = np.arange(len(there))
        owner = np.where(self._listed >= 0, rank[self._listed], -1)
        served = np.flatnonzero(owner >= 0)
        # NumPy sorts numbers of 16 bits by counting them, and there are few brokers.
        narrow = owner[served].astype(np.min_scalar_type(len(there)))
        order = served[np.argsort(narrow, kind="stable")]
        counts = np.bincount(owner[served], minlength=len(there))
        offsets = np.zeros(len(there) + 1, np.intp)
        np.cumsum(counts, out=offsets[1:])
        broker = self._broker_columns(owner, served, there, counts)
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
        self, owner: Indices, served: Indices, there: Indices, counts: Indices
    ) -> BrokerColumns:
        mine = slice(None) if len(served) == len(owner) else served
        owners, size = owner[mine], len(there)

        def added(column: Floats) -> Floats:
            return np.bincount(owners, column[mine], minlength=size).astype(np.float64)

        def summed(columns: Rates) -> Rates:
            return Rates(*(added(getattr(columns, name)) for name in _RATES))

        carried, traffic = Rates.zeros(len(self._brokers)), summed(_rates(self._reported))
        for name in _RATES:
            getattr(carried, name)[there] = getattr(traffic, name)
        topics = np.bincount(owners, self._trace.topics[served], minlength=len(there))
        known = {}
        if self._published is not None:
            known = {"load_average": self._published.averages[there],
                     "measured_ms": self._published.at_ms[there]}  # fmt: skip
        return BrokerColumns.of(
            self._trace.hosts.usage(carried, self._step or 0)[there].astype(np.float32),
            traffic,
            counts,
            topics=topics.astype(np.int64),
            short_average=summed(_rates(self._averages[0])),
            long_average=summed(_rates(self._averages[1])),
            **known,
        )

    def _place_orphans(self, now_ms: int, loads: Rates, up: Masks) -> None:
        """Place the bundles of brokers that left, one after the other."""
        orphans = np.flatnonzero(~up[self._owners])
        if not len(orphans):
            return
        view = self._seen(now_ms, up)
        extra = np.zeros(len(view.brokers))
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
            extra[chosen] += self._averages[1][row, :2].sum()
            # What the bundle will cost there, so that the next one sees it.
            usage[chosen] += self._trace.hosts.more(int(self._owners[row]), loads, row)
            self.measure.orphan()

    def _placed_in_recording(self) -> dict[tuple[int, int], int]:
        """Where the cluster placed the bundles of brokers that left, by bundle and broker.

        The cluster places them itself, whichever balancer moves bundles otherwise. Where a strategy
        plays Pulsar's own leader, this is not used.
        """
        if self._strategy is not None and self._strategy.as_leader is not None:
            return {}
        step = self._step or 0
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
    """As `due.traffic`: messages/s and bytes/s by broker."""
    figures = view.broker.traffic.rate() + view.broker.traffic.throughput()
    return dict(zip(view.brokers, figures.tolist(), strict=True))


def _rates(columns: Floats) -> Rates:
    return Rates(*(np.ascontiguousarray(columns[:, i]) for i in range(4)))
