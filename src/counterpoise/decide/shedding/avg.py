"""AvgShedder (PIP-364): moves bundles between the most and the least loaded broker."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

import numpy as np

from counterpoise.decide.memory import Remembering
from counterpoise.decide.placement.planned import load_key
from counterpoise.decide.plan import Decision, StrategyPlan
from counterpoise.decide.shedding.avg_moves import PROMISED, Moves, reasons
from counterpoise.decide.shedding.avg_pairs import Hits
from counterpoise.decide.shedding.options import AvgOptions
from counterpoise.load.fields import JsonObject
from counterpoise.load.view import ClusterView


@dataclass(frozen=True, slots=True)
class AvgMemory(JsonObject):
    """What AvgShedder remembers: hit counts by broker, and destinations planned for moved bundles.

    ``destinations`` is read by the placement half of the strategy, by
    :func:`~counterpoise.decide.placement.planned.load_key`. As in Pulsar that is the bundle's
    *statistics* and not its name, so an entry is not found again after the next sample, and bundles
    with equal statistics share one.
    """

    low_hits: Mapping[str, int] = field(default_factory=dict)
    high_hits: Mapping[str, int] = field(default_factory=dict)
    destinations: Mapping[str, str] = field(default_factory=dict)


class AvgShedder(Remembering[AvgMemory]):
    """Pulsar's ``AvgShedder``, decision for decision of 4.2.4's class.

    Brokers are sorted by score (weighted use times 100) and paired from the outside in. A pair
    beyond the low threshold in enough calls in a row, or beyond the high one in fewer, moves
    bundles from the broker with the higher score to the other: the busiest that fit into
    ``maxUnloadPercentage`` of the pair's difference in messages/s, or in bytes/s if the difference
    in messages/s is not worth an unload.

    Quirks kept: hits are counted per broker, not per pair, so a broker that changes partner keeps
    its count; a middle broker is paired with itself; a pair that has its hits loses them even when
    nothing can move; a broker's only bundle can be moved; counts of brokers that left stay.

    Different from 4.0.7 on purpose: its comparator cuts the difference of two scores to an integer,
    which is no order and can throw; 4.2.4 compares the scores themselves, and so does this class.
    As in 4.2.4 the namespaces that stay with their broker are ``pulsar/<host>:<port>`` and
    ``sla-monitor/<host>:<port>``; the names of three parts that 4.0.7 knows are not among them.
    Among brokers with equal scores any order is admissible, and any bundle among equals.
    """

    name = "AvgShedder"
    options = AvgOptions
    view = ClusterView
    remembers = AvgMemory

    def plan(
        self, view: ClusterView, memory: AvgMemory, options: AvgOptions, now_ms: int, rng: Random
    ) -> StrategyPlan[AvgMemory]:
        """Decide what moves between uneven pairs; ``now_ms`` and ``rng`` are not used."""
        del now_ms, rng
        with np.errstate(all="ignore"):
            scores = view.weighted_usage(options.weights.modular) * 100.0
            hits = Hits(dict(memory.low_hits), dict(memory.high_hits))
            pairs = hits.count(view.brokers, scores, options)
            ripe = hits.ripe(view.brokers, pairs, options)
            moves = Moves.of(view, scores, options)
            decisions = moves.between(ripe) if ripe else []
            decisions, destinations = _promise(view, decisions, memory.destinations)
            after = AvgMemory(hits.low, hits.high, destinations)
            moved = frozenset(decision.source for decision in decisions)
            rejections = tuple(reasons(moves, pairs, ripe, hits, moved))
        return StrategyPlan(tuple(decisions), rejections, after)


def _promise(
    view: ClusterView, decisions: list[Decision], before: Mapping[str, str]
) -> tuple[list[Decision], Mapping[str, str]]:
    """Store the destination of each moved bundle under its statistics.

    Of bundles with equal statistics the last one's destination counts for all. Returns the
    decisions with these destinations, and the destinations.
    """
    if not decisions:
        return decisions, before
    keys = [load_key(view, decision.bundle) for decision in decisions]
    promised = {key: str(move.destination) for key, move in zip(keys, decisions, strict=True)}
    settled = [
        move
        if move.destination == promised[key]
        else move._replace(destination=promised[key], template=PROMISED)
        for key, move in zip(keys, decisions, strict=True)
    ]
    return settled, {**before, **promised}
