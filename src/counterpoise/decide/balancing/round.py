"""One round of decisions: a pure function of what was seen, what is remembered and the settings."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from counterpoise.decide.balancing.moves import Move, Round, RoundMemory, move_id
from counterpoise.decide.balancing.options import BalanceOptions
from counterpoise.decide.balancing.projection import Projection
from counterpoise.decide.placement.least_usage import LeastUsage
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.strategy import PlacementStrategy
from counterpoise.decide.plan import Decision, Rejection
from counterpoise.decide.shedding import Shedder
from counterpoise.load.fold import FoldState
from counterpoise.load.fold_view import cluster_view
from counterpoise.load.rows import RATES
from counterpoise.load.view import ClusterView


@dataclass(frozen=True, slots=True)
class Strategy:
    """Who decides, by which settings."""

    shedder: Shedder[Any, Any, Any]
    options: Any
    """The shedder's own settings."""
    placement: PlacementStrategy[Any, Any] = field(default_factory=LeastUsage)
    placement_options: Any = field(default_factory=PlacementOptions)
    """The placement strategy's own settings."""
    balance: BalanceOptions = field(default_factory=BalanceOptions)


def newest_poll(state: FoldState) -> int:
    """The poll that the state goes up to; 0 when no broker was ever read."""
    polls = state.brokers["poll_id"]
    return int(polls.max()) if len(polls) else 0


def is_due(state: FoldState, memory: RoundMemory, options: BalanceOptions) -> bool:
    """Whether this state calls for a round."""
    poll_id = newest_poll(state)
    if poll_id < memory.settled_at_ms + options.measured_anew_ms and _repeated(state, memory):
        return False
    return poll_id > 0 and is_time(poll_id, memory, options)


def is_time(now_ms: int, memory: RoundMemory, options: BalanceOptions) -> bool:
    """Whether a round is due by the clock alone."""
    if memory.settled_at_ms and now_ms < memory.settled_at_ms + options.settle_ms:
        return False
    waited = now_ms - memory.decided_at_ms
    return (
        options.enabled and options.shedding_enabled and waited > 0
        and (memory.decided_at_ms == 0 or waited >= options.decide_every_ms)
    )  # fmt: skip


def traffic(state: FoldState) -> dict[str, float]:
    """Messages/s and bytes/s that each broker reports, all added up: tells measurements apart."""
    brokers = state.brokers
    figures = np.sum([brokers[name] for name in RATES], axis=0)
    return dict(zip(brokers["broker"].tolist(), figures.tolist(), strict=True))


def _repeated(state: FoldState, memory: RoundMemory) -> bool:
    """Whether a broker that gave or got a bundle still reports what it did before.

    Pulsar's brokers measure rates once a minute and answer with the old ones until then. To decide
    on those again would move the same load twice.
    """
    now = traffic(state)
    return any(now.get(broker) == before for broker, before in memory.traffic_before.items())


def decide(state: FoldState, memory: RoundMemory, strategy: Strategy) -> Round:
    """Ask the strategy; the time is that of the newest poll, so that a replay decides the same."""
    now_ms = newest_poll(state)
    recent = left_alone(now_ms, memory, strategy.balance)
    view = cluster_view(state, now_ms, recent)
    return decide_on(view, answering_brokers(state), recent, memory, strategy)


def left_alone(now_ms: int, memory: RoundMemory, options: BalanceOptions) -> dict[str, int]:
    """The bundles that moved so recently that they stay where they are, and when they moved."""
    oldest = now_ms - options.leave_alone_ms
    return {b: at for b, at in memory.recently_unloaded.items() if at >= oldest}


def decide_on(
    view: ClusterView,
    answering: Collection[str],
    recent: Mapping[str, int],
    memory: RoundMemory,
    strategy: Strategy,
) -> Round:
    """The round of a view, in which the bundles of `recent` are marked as unloaded a moment ago."""
    now_ms = view.now_ms
    shedder, rng = strategy.shedder, Random(now_ms)
    remembered = shedder.forget(_recalled(shedder, memory.shedder), view.brokers)
    rejections: list[Rejection] = []
    decisions: Sequence[Decision] = ()
    if len(view.brokers) > 1:
        plan = shedder.plan(view, remembered, strategy.options, now_ms, rng)
        decisions, remembered = plan.decisions, plan.memory
        rejections += plan.rejections
    else:
        rejections.append(_alone(len(view.brokers)))
    moves, placement, refused = _place(decisions, view, answering, memory, strategy, rng)
    return Round(
        poll_id=now_ms,
        strategy=shedder.name,
        imbalance=imbalance(view.broker.traffic.throughput().tolist()),
        brokers=len(view.brokers),
        bundles=len(view.bundles),
        moves=moves,
        rejections=(*rejections, *refused),
        memory=RoundMemory(
            _kept(shedder, remembered.to_json()),
            placement,
            dict(recent),
            now_ms,
            memory.settled_at_ms,
        ),
    )


def imbalance(loads: Collection[float]) -> float:
    """The largest ÷ the mean - 1: 0 when all are equal, or when there is no load at all."""
    mean = sum(loads) / len(loads) if loads else 0.0
    return max(loads) / mean - 1 if mean > 0 else 0.0


def answering_brokers(state: FoldState) -> frozenset[str]:
    """The brokers whose report could be read at the newest poll: only they are given anything."""
    brokers = state.brokers
    current = brokers["poll_id"] == newest_poll(state)
    return frozenset(brokers["broker"][current])


def _alone(count: int) -> Rejection:
    template = (
        "there is only one broker: nowhere to move anything"
        if count
        else "the cluster lists no broker"
    )
    return Rejection("cluster", "too-few-brokers", float(count), 2.0, "", template)


def _place(
    decisions: Collection[Decision],
    view: ClusterView,
    answering: Collection[str],
    memory: RoundMemory,
    strategy: Strategy,
    rng: Random,
) -> tuple[tuple[Move, ...], Any, list[Rejection]]:
    """Give each decision a destination, entering each move before the next is placed."""
    placement, now_ms = strategy.placement, view.now_ms
    remembered = placement.forget(_recalled(placement, memory.placement), view.brokers)
    projection = Projection(view)
    moves: list[Move] = []
    refused: list[Rejection] = []
    for asked in decisions:
        decision, reason = asked, "the strategy chose it"
        if decision.destination is None:
            candidates = [b for b in view.brokers if b in answering and b != decision.source]
            placed = placement.place(
                decision.bundle,
                candidates,
                projection.view,
                remembered,
                strategy.placement_options,
                rng,
            )
            remembered = placed.memory
            refused += placed.rejections
            if placed.broker is None:
                continue
            decision, reason = asked._replace(destination=placed.broker), placed.reason
        moves.append(Move(move_id(now_ms, decision.bundle), now_ms, decision, reason))
        projection = projection.after(decision)
    return tuple(moves), _kept(placement, remembered.to_json()), refused


def _kept(strategy: Shedder[Any, Any, Any] | PlacementStrategy[Any, Any], memory: Any) -> Any:
    """A strategy's memory as JSON, with its name: another one could make nothing of it."""
    return {"strategy": strategy.name, "memory": memory}


def _recalled(strategy: Shedder[Any, Any, Any] | PlacementStrategy[Any, Any], kept: Any) -> Any:
    """What a strategy remembers of the last round; a new strategy begins with nothing."""
    if kept is None or kept.get("strategy") != strategy.name:
        return strategy.initial_memory()
    return strategy.memory_from_json(kept["memory"])
