"""TransferShedder (PIP-192): moves bundles from the most to the least loaded broker, by pairs."""

import math
from dataclasses import dataclass
from random import Random
from typing import Any

from counterpoise.decide.memory import Remembering
from counterpoise.decide.plan import Rejection, StrategyPlan
from counterpoise.decide.shedding.options import TransferOptions
from counterpoise.decide.shedding.transfer_exchange import Exchange, divide
from counterpoise.decide.shedding.transfer_explain import (
    Uneven,
    why_nothing,
    why_stopped,
    why_uneven,
)
from counterpoise.decide.shedding.transfer_spread import Spread, Stop, measure
from counterpoise.load.fields import JsonObject
from counterpoise.load.store_view import LoadStoreView


@dataclass(frozen=True, slots=True)
class TransferMemory(JsonObject):
    """What TransferShedder remembers: in how many calls in a row the cluster was uneven.

    ``cooled`` are the brokers whose cool-down the last call found to be over. The caller removes
    them from ``recentlyUnloadedBrokers``, as Pulsar's class does itself.
    """

    hits: int = 0
    cooled: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The memory as a JSON object, without ``cooled``, which the next call does not need."""
        return {"hits": self.hits}


class TransferShedder(Remembering[TransferMemory]):
    """Pulsar's ``TransferShedder``, decision for decision.

    When the loads' standard deviation is above the target (or a broker is far below the average,
    or overloaded) for more calls in a row than the hit count, the most loaded broker gives half of
    its lead over the least loaded one, in bytes/s, out of the busiest bundles it published, then
    the next two, up to a number of pairs.

    Quirks kept: what comes back in a swap counts only in debug mode; brokers with stale load data
    are left out of the sums, and still paired; a broker without bundles uses up its turn; a call
    that finds nothing to move keeps its hits; the deviation may be NaN, which is never above the
    target. Among brokers of equal load any pairing is admissible; here the first by name.
    """

    name = "TransferShedder"
    options = TransferOptions
    view = LoadStoreView
    remembers = TransferMemory

    def plan(
        self,
        view: LoadStoreView,
        memory: TransferMemory,
        options: TransferOptions,
        now_ms: int,
        rng: Random,
    ) -> StrategyPlan[TransferMemory]:
        """Decide what moves; the time is the view's, ``now_ms`` and ``rng`` are not used."""
        del now_ms, rng
        measured = measure(view, options)
        if measured.stop is not None:
            stop = measured.stop
            after = TransferMemory(memory.hits, measured.cooled)
            return StrategyPlan((), (why_stopped(stop),), after)
        spread = Spread.of(view, options, measured.loads)
        figures = {"average": spread.average, "std": spread.std}
        hits = memory.hits + 1 if spread.cause() else 0
        if hits <= options.hit_count_threshold:
            uneven = Uneven(spread.average, spread.std, hits, len(view.brokers) - spread.count)
            return StrategyPlan(
                (), (why_uneven(uneven, options),), TransferMemory(hits, measured.cooled), figures
            )
        moving, idle = _even_out(spread)
        after = TransferMemory(0 if moving else hits, measured.cooled)
        figures["stdAfter"] = spread.std
        decisions = tuple(decision for each in moving for decision in each.decisions())
        reasons = tuple(map(_reason, idle))
        if not moving and not idle:
            reasons = (why_nothing(options, len(view.brokers)),)
        return StrategyPlan(decisions, reasons, after, figures)


def _even_out(spread: Spread) -> tuple[list[Exchange], list[Exchange]]:
    """Move bundles pair by pair until the deviation is small enough, the limit is reached, or no
    broker is left.

    Returns the pairs with moves, and the pairs without.
    """
    limit = spread.options.max_brokers_per_cycle
    moving: list[Exchange] = []
    idle: list[Exchange] = []
    sheds = 0
    while sheds < limit and spread.least < spread.most and (cause := spread.cause()):
        pair = Exchange.of(spread, cause)
        spread.most -= 1
        if len(pair.bundles) > 1:
            pair.even_out()
        if not pair.moves:
            idle.append(pair)
            continue
        moving.append(pair)
        if pair.marked > 0:
            sheds += 1
            moved = pair.marked - pair.gained
            spread.moved(pair.low, pair.high, divide(moved * pair.high, pair.throughput))
    return moving, idle


def _reason(pair: Exchange) -> Rejection:
    """Why a pair of brokers has no move."""
    broker = pair.view.brokers[pair.most]
    if not pair.bundles:
        return why_stopped(Stop("NoLoadData", broker, 0.0, 2.0))
    if len(pair.bundles) == 1:
        return why_stopped(Stop("NoBundles", broker, 1.0, 2.0))
    limit = None if math.isnan(pair.target) else pair.target
    return why_stopped(Stop("NoBundles", broker, None, limit), pair.skipped)
