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

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np

from counterpoise.decide.balancing.as_leader import select_as_leader
from counterpoise.decide.balancing.due import is_time, unmeasured
from counterpoise.decide.balancing.moves import MoveOutcome, MoveStatus, Round, RoundMemory
from counterpoise.decide.balancing.round import BalancingStrategy
from counterpoise.decide.placement.selection import Chooser
from counterpoise.decide.plan import Decision, DecisionKind
from counterpoise.load.rates import Rates
from counterpoise.load.view import ClusterView, Masks
from counterpoise.names.bundle import namespace_of
from counterpoise.pipeline.backtest.measure import BacktestResult, Measure
from counterpoise.pipeline.backtest.simulated_brokers import SimulatedBrokers
from counterpoise.pipeline.backtest.trace import LoadTrace, time_ms

_NEAR_STEPS = 12
"""A source that is not listed at some step this close to a recorded move was leaving."""
_PLACED_STEPS = 60
"""A recorded move this many steps before or after a broker left was a placement."""


@dataclass(frozen=True, slots=True)
class BacktestCandidate:
    """A strategy with its settings, under the name that the operator gave it."""

    label: str
    strategy: BalancingStrategy | None
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
    """Replay steps `first` up to `last` of a trace under a strategy, and measure the result.

    A moved bundle is unavailable for `move_s` seconds. In the first ``followed`` steps the recorded
    moves are repeated, and nothing counts: this gives the strategy realistic averages and grace
    periods. Its first round is due ``begins_ms`` after them.
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
        self._as_recorded = candidate.as_recorded
        self._trace = trace
        self._brokers = SimulatedBrokers(trace, first, candidate.strategy)
        self._placement = SimulatedPlacement(candidate.strategy, seed)
        self._memory = RoundMemory()
        self.measure = Measure(move_s)

    def follow(self, step: int) -> None:
        """Simulate a step in which bundles move as they did in the recording."""
        loads = self._brokers.report(step, self.measure.move_s)
        moved = self._follow(step, loads)
        if self._strategy is not None:
            span_ms = self._strategy.balance.thrash_span_ms
            self._memory = self._memory.after(moved, span_ms=span_ms)

    def begin(self, step: int, wait_ms: int) -> None:
        """Start counting results at this step; the first round is due `wait_ms` ms later."""
        self.measure = Measure(self.measure.move_s)
        if self._strategy is not None:
            due_ms = time_ms(self._trace, step) + wait_ms
            decided_ms = due_ms - self._strategy.balance.decide_every_ms
            self._memory = replace(self._memory, decided_at_ms=decided_ms)

    def step(self, step: int) -> None:
        """Simulate a step in which the strategy moves bundles if a round is due; with `as_recorded`
        the recorded moves are repeated instead.
        """
        brokers, up = self._brokers, self._trace.up(step)
        loads = brokers.report(step, self.measure.move_s)
        if self._as_recorded:
            self._follow(step, loads)
        else:
            self._place_orphans(step, loads, up)
        most, used = self._trace.hosts.bytes_most, brokers.usage(step, loads)[up].max()
        self.measure.step(loads.throughput(), brokers.owners, up, most, used)
        now_ms = time_ms(self._trace, step)
        if self._strategy is None or not is_time(now_ms, self._memory, self._strategy.balance):
            return
        seen = brokers.snapshot(step, up)
        if self._waits(seen.view):
            return
        made = self._strategy.plan(seen, self._memory)
        self.measure.refused(made.rejections)
        carried_out = []
        for move in made.moves:
            row = seen.view.bundle_index(move.bundle)
            if row is None or brokers.owners[row] != brokers.rank[move.source]:
                continue  # it has moved already, but its old broker's last report still has it
            self.measure.moved(step, row, loads)
            brokers.move(row, brokers.rank[move.destination])
            carried_out.append(move)
        self._memory = self._after(replace(made, moves=tuple(carried_out)), seen.view)

    def _follow(self, step: int, loads: Rates) -> list[MoveOutcome]:
        """Repeat the recorded moves of a step, and return those that a balancer made.

        Moves off a broker that was leaving count as placements.
        """
        now_ms = time_ms(self._trace, step)
        moved = []
        around = range(max(0, step - _NEAR_STEPS), min(self._trace.steps, step + _NEAR_STEPS))
        for row, source, destination in self._trace.moved(step):
            if all(self._trace.up(each)[source] for each in around):
                self.measure.moved(step, row, loads)
                bundle, names = self._trace.bundles[row], self._trace.brokers
                there, here = names[source], names[destination]
                moved.append(
                    MoveOutcome(
                        "", now_ms, bundle, there, here, MoveStatus.MOVED, here, now_ms, now_ms
                    )
                )
            else:
                self.measure.orphan()
            self._brokers.move(row, destination)
        return moved

    def _place_orphans(self, step: int, loads: Rates, up: Masks) -> None:
        """Place the bundles of brokers that left, one after the other."""
        brokers = self._brokers
        orphans = np.flatnonzero(~up[brokers.owners])
        if not len(orphans):
            return
        view = brokers.snapshot(step, up).view
        rate = view.bundle.long.rate()
        usage, extra = view.broker.usage.copy(), np.zeros(len(view.brokers))
        view = replace(view, broker=replace(view.broker, usage=usage, preallocated_rate=extra))
        self._placement.begin()
        known = self._placed_in_recording(step)
        for row in orphans.tolist():
            former = int(brokers.owners[row])
            recorded = known.get((row, former))
            chosen = None if recorded is None else view.row_of.get(self._trace.brokers[recorded])
            if chosen is None:
                chosen = self._placement.place(view.bundles[row], view)
            brokers.move(row, brokers.rank[view.brokers[chosen]])
            # Count what the bundle will cost there when the next one is placed.
            extra[chosen] += rate[row]
            usage[chosen] += self._trace.hosts.more(brokers.owners[row], loads, row)
            self.measure.orphan()

    def _placed_in_recording(self, step: int) -> dict[tuple[int, int], int]:
        """Where the cluster placed the bundles of brokers that left, by bundle and former broker.

        Brokers place bundles themselves, whichever balancer moves them otherwise. Empty for a
        strategy that simulates Pulsar's own leader, which uses its own placement.
        """
        if self._strategy is not None and self._strategy.as_leader is not None:
            return {}
        near = range(max(0, step - _PLACED_STEPS), min(self._trace.steps, step + _PLACED_STEPS))
        return {
            (bundle, source): destination
            for each in near
            for bundle, source, destination in self._trace.moved(each)
        }

    def _waits(self, view: ClusterView) -> bool:
        """Whether a round must wait until the brokers of the last moves have measured again.

        Pulsar's leader never waits.
        """
        if self._strategy is None or self._strategy.as_leader is not None:
            return False
        options = self._strategy.balance
        return bool(unmeasured(view.now_ms, _traffic(view), self._memory, options))

    def _after(self, made: Round, view: ClusterView) -> RoundMemory:
        """The memory after the round's moves have all succeeded."""
        if self._strategy is None or not made.moves:
            return made.memory
        # Pulsar's leader counts a grace period from its round. Its rounds are slightly more than
        # an interval apart, so the round a whole grace period later may move the bundle again.
        took_ms = -1 if self._strategy.as_leader is not None else round(self.measure.move_s * 1000)
        return made.memory.after(
            made.as_moved(made.poll_id + took_ms),
            span_ms=self._strategy.balance.thrash_span_ms,
            traffic=_traffic(view),
            carried={move.bundle: view.carried(move.bundle) for move in made.moves},
        )


def _traffic(view: ClusterView) -> dict[str, float]:
    """By broker, messages/s plus bytes/s, as `due.traffic` computes them."""
    figures = view.broker.traffic.rate() + view.broker.traffic.throughput()
    return dict(zip(view.brokers, figures.tolist(), strict=True))


class SimulatedPlacement:
    """Places bundles whose broker left, as lookups would; without a strategy at random."""

    def __init__(self, strategy: BalancingStrategy | None, seed: int) -> None:
        self._strategy = strategy
        self._rng = Random(seed)
        self._memory: Any = None if strategy is None else strategy.placement.initial_memory()
        self._given: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """By namespace: how many bundles each broker got since `begin`."""

    def begin(self) -> None:
        """Start to place the bundles of brokers that left at the same step."""
        self._given.clear()

    def place(self, bundle: str, view: ClusterView) -> int:
        """The index in the view of the broker that gets a bundle."""
        placed = self._placed(bundle, view, self._strategy) if self._strategy else None
        return self._rng.randrange(len(view.brokers)) if placed is None else view.row_of[placed]

    def _placed(self, bundle: str, view: ClusterView, strategy: BalancingStrategy) -> str | None:
        placement, options = strategy.placement, strategy.placement_options
        memory = placement.forget(self._memory, view.brokers)
        if strategy.as_leader is None:
            placed = placement.place(bundle, view.brokers, view, memory, options, self._rng)
        else:
            given = self._given[namespace_of(bundle)]
            chooser = Chooser(placement, view, options, self._rng)
            lookup = Decision(DecisionKind.UNLOAD, bundle, "", None, "lookup", "")
            placed = select_as_leader(
                lookup, view.brokers, chooser, memory, strategy.as_leader, given
            ).placement
            given[placed.broker or ""] += 1
        self._memory = placed.memory
        return placed.broker
