"""One round of decisions: a pure function of what was seen, what is remembered and the settings."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np

from counterpoise.decide.balancing.as_leader import select_as_leader, stays
from counterpoise.decide.balancing.destination import Destinations
from counterpoise.decide.balancing.moves import Move, Round, RoundMemory, move_id
from counterpoise.decide.balancing.options import BalanceOptions
from counterpoise.decide.balancing.policies import PlacementPolicies, bundle_rules
from counterpoise.decide.balancing.projection import Projection
from counterpoise.decide.balancing.thrash import going_back, left_lately, thrashing
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.decide.placement.least_usage import LeastUsage
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.selection import Chooser
from counterpoise.decide.placement.strategy import PlacementStrategy
from counterpoise.decide.plan import Decision, Rejection
from counterpoise.decide.shedding import Shedder
from counterpoise.load.fold import FoldState
from counterpoise.load.fold_view import cluster_view
from counterpoise.load.rows import RATES
from counterpoise.load.store_of_reports import Known, averaged, store_view
from counterpoise.load.store_view import LoadStoreView
from counterpoise.load.topk import MAX_BUNDLES
from counterpoise.load.view import ClusterView

View = ClusterView | LoadStoreView
"""What a shedder looks at: reports and averages, or the load stores of PIP-192."""


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
    as_leader: FilterOptions | None = None
    """Place as Pulsar's own leader would, with these filters (`as_leader.py`); None: as we do."""


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


def waits_for(state: FoldState, memory: RoundMemory, options: BalanceOptions) -> str:
    """What a round waits for beside its hour, as a sentence; empty when it waits for no more."""
    for name, wanted in (
        ("loadBalancerEnabled", options.enabled),
        ("loadBalancerSheddingEnabled", options.shedding_enabled),
    ):
        if not wanted:
            return f"no round is made: {name} is off"
    poll_id = newest_poll(state)
    if not poll_id:
        return "the next round waits for a load report"
    if not may_decide(poll_id, memory, options):
        return (
            "the next round waits for reports that were measured after the last moves "
            "(loadBalancerReportUpdateMinIntervalMillis)"
        )
    if poll_id < memory.settled_at_ms + options.measured_anew_ms and (
        same := _repeated(state, memory)
    ):
        return (
            f"the next round waits for {', '.join(same)}, which still report what they did before "
            "the last moves (statsUpdateFrequencyInSecs)"
        )
    return ""


def is_time(now_ms: int, memory: RoundMemory, options: BalanceOptions) -> bool:
    """Whether a round is due by the clock alone."""
    waited = now_ms - memory.decided_at_ms
    return (
        may_decide(now_ms, memory, options) and waited > 0
        and (memory.decided_at_ms == 0 or waited >= options.decide_every_ms)
    )  # fmt: skip


def may_decide(now_ms: int, memory: RoundMemory, options: BalanceOptions) -> bool:
    """Whether rounds are wanted at all, and reports show what the last moves have brought."""
    settled = not memory.settled_at_ms or now_ms >= memory.settled_at_ms + options.settle_ms
    return options.enabled and options.shedding_enabled and settled


def traffic(state: FoldState) -> dict[str, float]:
    """Messages/s and bytes/s that each broker reports, all added up: tells measurements apart."""
    brokers = state.brokers
    figures = np.sum([brokers[name] for name in RATES], axis=0)
    return dict(zip(brokers["broker"].tolist(), figures.tolist(), strict=True))


def carried(state: FoldState, bundles: Collection[str]) -> dict[str, float]:
    """Messages/s and bytes/s of these bundles, all added up, by their short averages."""
    averages = state.averages
    rows = np.flatnonzero(np.isin(averages["bundle"], np.array([*bundles], dtype=object)))
    figures = np.sum([averages[f"short_{name}"][rows] for name in RATES], axis=0)
    return dict(zip(averages["bundle"][rows].tolist(), figures.tolist(), strict=True))


def _repeated(state: FoldState, memory: RoundMemory) -> list[str]:
    """The brokers that gave or got a bundle and still report what they did before.

    Pulsar's brokers measure rates once a minute and answer with the old ones until then. To decide
    on those again would move the same load twice.
    """
    now = traffic(state)
    return sorted(name for name, before in memory.traffic_before.items() if now.get(name) == before)


def decide(
    state: FoldState,
    memory: RoundMemory,
    strategy: Strategy,
    scene: PlacementPolicies | None = None,
) -> Round:
    """Ask the strategy; the time is that of the newest poll, so that a replay decides the same."""
    now_ms = newest_poll(state)
    recent = left_alone(now_ms, memory, strategy.balance)
    guarded = thrashing(now_ms, memory.trails, strategy.balance.thrash_span_ms)
    view = cluster_view(state, now_ms, recent | guarded)
    made = decide_on(view, answering_brokers(state), recent, memory, strategy, scene)
    return replace(made, rejections=(*made.rejections, *guarded.values()))


def left_alone(now_ms: int, memory: RoundMemory, options: BalanceOptions) -> dict[str, int]:
    """The bundles that moved so recently that they stay where they are, and when they moved."""
    oldest = now_ms - options.leave_alone_ms
    return {b: at for b, at in memory.recently_unloaded.items() if at >= oldest}


@dataclass(frozen=True, slots=True)
class Shed:
    """What a strategy wants to be rid of, before anything has a place to go."""

    view: View
    decisions: tuple[Decision, ...]
    rejections: tuple[Rejection, ...]
    memory: Any
    """The shedder's own, by `_kept`."""
    rng: Random


def decide_on(
    view: View,
    answering: Collection[str],
    recent: Mapping[str, int],
    memory: RoundMemory,
    strategy: Strategy,
    scene: PlacementPolicies | None = None,
) -> Round:
    """The round of a view, in which the bundles of `recent` are marked as unloaded a moment ago.

    With the policies and groups of a ``scene``, which are held against who has what by the view.
    """
    if scene is not None and isinstance(view, ClusterView):
        scene = scene.seen_in(view)
    if reads_stores(strategy) and isinstance(view, ClusterView):
        return _by_stores(view, answering, recent, memory, strategy, scene)
    return placed(shed(view, memory, strategy), answering, recent, memory, strategy, scene)


def _by_stores(
    view: ClusterView,
    answering: Collection[str],
    recent: Mapping[str, int],
    memory: RoundMemory,
    strategy: Strategy,
    scene: PlacementPolicies | None,
) -> Round:
    """The round of a strategy that reads load stores, where only reports are to be had."""
    own = strategy.placement_options
    weights = (own if isinstance(own, PlacementOptions) else PlacementOptions()).weights
    averages = averaged(view, weights.extensible, memory.loads)
    for broker, load in (scene.averages if scene is not None else {}).items():
        if broker in averages:
            averages[broker] = averages[broker]._replace(load=load)
    # Who took part in the last moves measures anew before it is looked at again.
    cooling = dict.fromkeys(memory.traffic_before, memory.settled_at_ms)
    stores = store_view(view, averages, Known(cooling, answering), MAX_BUNDLES)
    if scene is not None:
        owners = stores.rules.owners or {}
        stores = replace(stores, rules=bundle_rules(scene, owners, owners))
    made = replace(shed(stores, memory, strategy), view=view)
    found = placed(made, answering, recent, memory, strategy, scene)
    return replace(found, memory=replace(found.memory, loads=averages))


def reads_stores(strategy: Strategy) -> bool:
    """Whether a strategy goes by what brokers of the extensible manager tell each other."""
    return strategy.shedder.view is LoadStoreView


def shed(view: View, memory: RoundMemory, strategy: Strategy) -> Shed:
    """The first half of a round: ask the shedder."""
    shedder, rng = strategy.shedder, Random(view.now_ms)
    remembered = shedder.forget(_recalled(shedder, memory.shedder), view.brokers)
    decisions: tuple[Decision, ...] = ()
    rejections: tuple[Rejection, ...] = (_alone(len(view.brokers)),)
    if len(view.brokers) > 1:
        plan = shedder.plan(view, remembered, strategy.options, view.now_ms, rng)
        decisions, rejections, remembered = plan.decisions, plan.rejections, plan.memory
    return Shed(view, decisions, rejections, _kept(shedder, remembered.to_json()), rng)


def placed(
    made: Shed,
    answering: Collection[str],
    recent: Mapping[str, int],
    memory: RoundMemory,
    strategy: Strategy,
    scene: PlacementPolicies | None = None,
) -> Round:
    """The second half: give each decision a destination.

    With a ``scene`` the filters have a say, as whenever a broker places a bundle. What is read from
    load stores has its destination by then, or goes wherever its owner's placement puts it.
    """
    view, now_ms = made.view, made.view.now_ms
    if isinstance(view, ClusterView):
        moves, placement, refused = _place(made, view, answering, memory, strategy, scene)
        loads, bundles = view.broker.traffic.throughput(), len(view.bundles)
    else:
        decisions, refused = _not_back(made, memory, strategy)
        moves = tuple(
            Move(move_id(now_ms, each.bundle), now_ms, each, "the strategy chose it")
            for each, _ in decisions
        )
        placement = memory.placement
        loads, bundles = view.throughput, sum(len(top or ()) for top in view.top)
    return Round(
        poll_id=now_ms,
        strategy=strategy.shedder.name,
        imbalance=imbalance(loads.tolist()),
        brokers=len(view.brokers),
        bundles=bundles,
        moves=moves,
        rejections=(*made.rejections, *refused),
        memory=RoundMemory(
            made.memory,
            placement,
            dict(recent),
            now_ms,
            memory.settled_at_ms,
            trails=memory.trails,
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
    made: Shed,
    view: ClusterView,
    answering: Collection[str],
    memory: RoundMemory,
    strategy: Strategy,
    scene: PlacementPolicies | None,
) -> tuple[tuple[Move, ...], Any, list[Rejection]]:
    """Give each decision a destination, entering each move before the next is placed."""
    placement = strategy.placement
    remembered = placement.forget(_recalled(placement, memory.placement), view.brokers)
    projection = Projection(view)
    places = Destinations(view, answering, scene)
    moves: list[Move] = []
    decisions, refused = _not_back(made, memory, strategy)
    for asked, barred in decisions:
        chooser = Chooser(placement, projection.view, strategy.placement_options, made.rng)
        if strategy.as_leader is not None:
            others = [broker for broker in answering if broker not in barred]
            chosen = select_as_leader(asked, others, chooser, remembered, strategy.as_leader)
            found, same = chosen.placement, stays(asked, chosen)
            if same is not None:
                found = found._replace(broker=None, rejections=(same,))
        else:
            found = places.of(asked, chooser, remembered, barred)
        remembered = found.memory
        refused += found.rejections
        if found.broker is None:
            if barred:
                span_ms = strategy.balance.thrash_span_ms
                refused.append(going_back(asked.bundle, barred, span_ms))
            continue
        decision = asked._replace(destination=found.broker)
        now_ms, part = view.now_ms, part_of(view, decision.bundle)
        moves.append(Move(move_id(now_ms, asked.bundle), now_ms, decision, found.reason, part))
        if strategy.as_leader is None:
            projection = projection.after(decision)
        places.enter(decision)
    return tuple(moves), _kept(placement, remembered.to_json()), refused


def _not_back(
    made: Shed, memory: RoundMemory, strategy: Strategy
) -> tuple[list[tuple[Decision, frozenset[str]]], list[Rejection]]:
    """What may move, and whereto it may not; and what the strategy sends back whence it came."""
    span_ms = strategy.balance.thrash_span_ms
    left = left_lately(made.view.now_ms, memory.trails, span_ms)
    may: list[tuple[Decision, frozenset[str]]] = []
    refused: list[Rejection] = []
    for each in made.decisions:
        barred = left.get(each.bundle, frozenset())
        if each.destination in barred:
            refused.append(going_back(each.bundle, barred, span_ms))
        else:
            may.append((each, barred))
    return may, refused


def part_of(view: ClusterView, bundle: str) -> float:
    """How much of the cluster's bytes/s a bundle carries, by its short average.

    A broker whose figure is no number has no say in what the others' bundles are a part of.
    """
    carried = view.broker.traffic.throughput()
    row, whole = view.bundle_index(bundle), float(carried[np.isfinite(carried)].sum())
    if row is None or whole <= 0:
        return 0.0
    return view.bundle.short.throughput_of(row) / whole


def _kept(strategy: Shedder[Any, Any, Any] | PlacementStrategy[Any, Any], memory: Any) -> Any:
    """A strategy's memory as JSON, with its name: another one could make nothing of it."""
    return {"strategy": strategy.name, "memory": memory}


def _recalled(strategy: Shedder[Any, Any, Any] | PlacementStrategy[Any, Any], kept: Any) -> Any:
    """What a strategy remembers of the last round; a new strategy begins with nothing."""
    if kept is None or kept.get("strategy") != strategy.name:
        return strategy.initial_memory()
    return strategy.memory_from_json(kept["memory"])
