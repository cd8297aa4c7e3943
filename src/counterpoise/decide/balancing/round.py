"""A round that sheds load: which bundles leave busy brokers, and where each goes."""

from bisect import bisect_left
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from operator import methodcaller
from random import Random
from typing import Any

from counterpoise.decide.balancing.as_leader import select_as_leader, stays
from counterpoise.decide.balancing.costly import left_for_cost, recent_costs
from counterpoise.decide.balancing.destination import ASKED, Destinations
from counterpoise.decide.balancing.measured import with_basis
from counterpoise.decide.balancing.moves import Move, Round, RoundMemory, imbalance, move_id
from counterpoise.decide.balancing.options import BalanceOptions
from counterpoise.decide.balancing.policies import PlacementPolicies, bundle_rules
from counterpoise.decide.balancing.projection import moved_in
from counterpoise.decide.balancing.snapshot import ClusterSnapshot, part_of, snapshot_of
from counterpoise.decide.balancing.thrash import going_back, left_lately, thrashing
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.decide.placement.least_usage import LeastUsage
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.selection import Chooser
from counterpoise.decide.placement.strategy import Placement, PlacementStrategy
from counterpoise.decide.plan import Decision, Rejection
from counterpoise.decide.shedding.strategy import Shedder
from counterpoise.load.fold import LAPSE_AFTER_MS, FoldState
from counterpoise.load.rates import Floats
from counterpoise.load.store_of_reports import UnreportedFacts, averaged, store_view
from counterpoise.load.store_view import NO_RULES, LoadStoreView
from counterpoise.load.topk import MAX_BUNDLES
from counterpoise.load.view import BOUND_TENANTS, ClusterView, bundle_namespace, unloaded_mask
from counterpoise.names.namespace import is_left_in_place

View = ClusterView | LoadStoreView
"""What a shedder looks at: reports and averages, or the load stores of PIP-192."""


@dataclass(frozen=True, slots=True)
class BalancingStrategy:
    """The goal of shedding load: a shedder, then a placement strategy, both with their settings."""

    shedder: Shedder[Any, Any, Any]
    options: Any
    """The shedder's own settings."""
    placement: PlacementStrategy[Any, Any] = field(default_factory=LeastUsage)
    placement_options: Any = field(default_factory=PlacementOptions)
    """The placement strategy's own settings."""
    balance: BalanceOptions = field(default_factory=BalanceOptions)
    as_leader: FilterOptions | None = None
    """The filters by which Pulsar's own leader would place bundles (`as_leader.py`); None: bundles
    are placed as by the balancer (`destination.py`)."""

    @property
    def name(self) -> str:
        """The name under which the history records a round of this goal."""
        return self.shedder.name

    @property
    def placed_by(self) -> str:
        """The name of the placement strategy, or what is recorded in its place."""
        return self.placement.name

    @property
    def reads_stores(self) -> bool:
        """Whether the shedder reads the load stores of the extensible manager's brokers."""
        return self.shedder.view is LoadStoreView

    def plan(self, snapshot: ClusterSnapshot, memory: RoundMemory) -> Round:
        """Plan a round of shedding; random choices are seeded by the snapshot's time.

        Not moved are bundles that moved within the grace period or too often, and those of a broker
        without a report at the newest poll, whose load is not known.
        """
        now_ms = snapshot.view.now_ms
        memory = _after_gap(memory, now_ms, self.balance)
        guarded = thrashing(now_ms, memory.trails, self.balance.thrash_span_ms)
        guarded |= left_for_cost(now_ms, memory.costs, self.balance.costly_span_ms)
        kept = left_alone(now_ms, memory, self.balance).keys() | guarded.keys()
        if self.as_leader is None:  # Pulsar's own leader moves what is in pulsar/system as well
            kept |= {*_in_place(snapshot.view), *_of_silent(snapshot)}
        view = _marked(snapshot.view, kept)
        policies = snapshot.policies and snapshot.policies.as_reported(view)
        if self.reads_stores:
            made = _by_stores(replace(snapshot, view=view, policies=policies), memory, self)
        else:
            if getattr(self.shedder, "obeys_rules", False):
                view = _with_rules(view, snapshot.answering, memory, self, policies)
            proposed = shed(view, memory, self)
            made = placed(proposed, snapshot.answering, memory, self, policies)
        return replace(made, rejections=(*made.rejections, *guarded.values()))


def decide(
    state: FoldState,
    memory: RoundMemory,
    strategy: BalancingStrategy,
    policies: PlacementPolicies | None = None,
) -> Round:
    """Plan a round from folded reports, at the newest poll's time: a replay decides the same."""
    return with_basis(strategy.plan(snapshot_of(state, policies), memory), state)


def left_alone(now_ms: int, memory: RoundMemory, options: BalanceOptions) -> dict[str, int]:
    """The bundles within their grace period, with the time (ms since 1970) of each one's move."""
    oldest = now_ms - options.leave_alone_ms
    return {b: at for b, at in memory.recently_unloaded.items() if at >= oldest}


def _in_place(view: ClusterView) -> Iterator[str]:
    """The bundles that are never moved, such as those of `pulsar/system`; a view sorts bundles by
    name.
    """
    for tenant in BOUND_TENANTS:
        of_tenant = islice(view.bundles, bisect_left(view.bundles, tenant), None)
        for bundle in takewhile(methodcaller("startswith", tenant), of_tenant):
            if is_left_in_place(bundle_namespace(bundle)):
                yield bundle


def _of_silent(snapshot: ClusterSnapshot) -> Iterator[str]:
    """The bundles of brokers whose report could not be read at the newest poll."""
    view = snapshot.view
    for index, broker in enumerate(view.brokers):
        if broker not in snapshot.answering:
            yield from (view.bundles[row] for row in view.reported_by(index).tolist())


def _with_rules(
    view: ClusterView,
    answering: Collection[str],
    memory: RoundMemory,
    strategy: BalancingStrategy,
    policies: PlacementPolicies | None,
) -> ClusterView:
    """The view with each bundle's allowed brokers, for strategies that name destinations."""
    rules = NO_RULES if policies is None else bundle_rules(policies, view.bundles, {})
    every, allowed = frozenset(view.brokers), dict(rules.allowed)
    left = left_lately(view.now_ms, memory.trails, strategy.balance.thrash_span_ms)
    for bundle, brokers in left.items():
        allowed[bundle] = allowed.get(bundle, every) - brokers
    silent = every - frozenset(answering)
    return replace(view, rules=replace(rules, allowed=allowed, silent=silent))


def _after_gap(memory: RoundMemory, now_ms: int, options: BalanceOptions) -> RoundMemory:
    """The memory; after a gap in the polls without the shedder's part and the averages of load.

    A gap is a time without a round that is longer than `LAPSE_AFTER_MS`, after which averages start
    again, plus two intervals of rounds.
    """
    gap_ms = LAPSE_AFTER_MS + 2 * options.decide_every_ms
    if now_ms - memory.decided_at_ms <= gap_ms:
        return memory
    return replace(memory, shedder=None, loads={})


def _marked(view: ClusterView, bundles: Collection[str]) -> ClusterView:
    """The view, with exactly these bundles marked as unloaded a moment ago."""
    mask = unloaded_mask(view.bundles, bundles)
    return replace(view, bundle=replace(view.bundle, recently_unloaded=mask))


@dataclass(frozen=True, slots=True)
class Shed:
    """The shedder's half of a round: bundles to take from brokers, still without destinations."""

    view: View
    decisions: tuple[Decision, ...]
    rejections: tuple[Rejection, ...]
    memory: Any
    """The shedder's new memory as JSON, with the shedder's name."""
    rng: Random


def _by_stores(
    snapshot: ClusterSnapshot, memory: RoundMemory, strategy: BalancingStrategy
) -> Round:
    """The round of a strategy that reads load stores, where only reports are available."""
    view, policies = snapshot.view, snapshot.policies
    averages = averaged(view, store_weights(strategy), memory.loads)
    leads = strategy.as_leader is not None
    known = UnreportedFacts(memory.unloaded_brokers, snapshot.answering, snapshot.measured, leads)
    stores = store_view(view, averages, known, MAX_BUNDLES)
    if policies is not None:
        owners = stores.rules.owners or {}
        stores = replace(stores, rules=bundle_rules(policies, owners, owners))
    made = replace(shed(stores, memory, strategy), view=view)
    found = placed(made, snapshot.answering, memory, strategy, policies)
    return replace(found, memory=replace(found.memory, loads=averages))


def store_weights(strategy: BalancingStrategy) -> Floats:
    """The weight of each resource in the usage that brokers publish in load stores (PIP-192)."""
    own = strategy.placement_options
    return (own if isinstance(own, PlacementOptions) else PlacementOptions()).weights.extensible


def shed(view: View, memory: RoundMemory, strategy: BalancingStrategy) -> Shed:
    """Run the shedder: which bundles should leave their brokers. The first half of a round."""
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
    memory: RoundMemory,
    strategy: BalancingStrategy,
    policies: PlacementPolicies | None = None,
) -> Round:
    """Choose a destination for each of the shedder's decisions: the second half of a round.

    With ``policies`` placement filters apply, as whenever a broker places a bundle. A decision read
    from load stores (PIP-192) keeps the destination that it has; if it has none, the bundle's owner
    places it.
    """
    view, now_ms = made.view, made.view.now_ms
    if isinstance(view, ClusterView):
        moves, placement, refused = _place(made, view, answering, memory, strategy, policies)
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
        strategy=strategy.name,
        imbalance=imbalance(loads.tolist()),
        brokers=len(view.brokers),
        bundles=bundles,
        moves=moves,
        rejections=(*made.rejections, *refused),
        memory=replace(
            memory,
            shedder=made.memory,
            placement=placement,
            recently_unloaded=left_alone(now_ms, memory, strategy.balance),
            decided_at_ms=now_ms,
            # The brokers of the last moves have reported again, or too much time has passed.
            traffic_before={},
            # A strategy that goes by averages computes them each round.
            loads={},
            costs=recent_costs(now_ms, memory.costs, strategy.balance.costly_span_ms),
            unloaded_brokers={
                broker: at_ms
                for broker, at_ms in memory.unloaded_brokers.items()
                if broker in view.brokers
            },
        ),
    )


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
    strategy: BalancingStrategy,
    policies: PlacementPolicies | None,
) -> tuple[tuple[Move, ...], Any, list[Rejection]]:
    """Give each decision a destination, entering each move before the next is placed."""
    placement = strategy.placement
    remembered = placement.forget(_recalled(placement, memory.placement), view.brokers)
    projected = view
    places = Destinations(view, answering, policies)
    moves: list[Move] = []
    decisions, refused = _not_back(made, memory, strategy)
    for proposed, barred in decisions:
        chooser = Chooser(placement, projected, strategy.placement_options, made.rng)
        if strategy.as_leader is not None and strategy.reads_stores and proposed.destination:
            found = Placement(
                proposed.destination, (proposed.destination,), "asked", ASKED, remembered
            )
        elif strategy.as_leader is not None:
            others = [broker for broker in answering if broker not in barred]
            chosen = select_as_leader(proposed, others, chooser, remembered, strategy.as_leader)
            found, same = chosen.placement, stays(proposed, chosen)
            if same is not None:
                found = found._replace(broker=None, rejections=(same,))
        else:
            found = places.of(proposed, chooser, remembered, barred)
        remembered = found.memory
        refused += found.rejections
        if found.broker is None:
            if barred:
                span_ms = strategy.balance.thrash_span_ms
                refused.append(going_back(proposed.bundle, barred, span_ms))
            continue
        decision = proposed._replace(destination=found.broker)
        now_ms, part = view.now_ms, part_of(view, decision.bundle)
        moves.append(Move(move_id(now_ms, proposed.bundle), now_ms, decision, found.reason, part))
        if strategy.as_leader is None:
            projected = moved_in(projected, decision)
        places.enter(decision)
    return tuple(moves), _kept(placement, remembered.to_json()), refused


def _not_back(
    made: Shed, memory: RoundMemory, strategy: BalancingStrategy
) -> tuple[list[tuple[Decision, frozenset[str]]], list[Rejection]]:
    """Split a shedder's decisions: those that are allowed, each with the brokers to which its
    bundle may not return; and the rejections of those that would return their bundle.
    """
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


def _kept(strategy: Shedder[Any, Any, Any] | PlacementStrategy[Any, Any], memory: Any) -> Any:
    """A strategy's memory as JSON with the strategy's name, for the next round."""
    return {"strategy": strategy.name, "memory": memory}


def _recalled(strategy: Shedder[Any, Any, Any] | PlacementStrategy[Any, Any], kept: Any) -> Any:
    """A strategy's memory, from what `_kept` returned; another strategy than then starts empty."""
    if kept is None or kept.get("strategy") != strategy.name:
        return strategy.initial_memory()
    return strategy.memory_from_json(kept["memory"])
