"""TransferShedder (PIP-192): even out the most and the least loaded broker, pair by pair."""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from counterpoise.decide.plan import Decision, Kind, Plan, Rejection, Rejections
from counterpoise.decide.shedding.transfer_explain import (
    BECAUSE_BACK,
    BECAUSE_MOVED,
    Uneven,
    why_stopped,
    why_uneven,
)
from counterpoise.decide.shedding.transfer_options import TransferOptions
from counterpoise.decide.shedding.transfer_pair import Move, Outcome, Pair
from counterpoise.decide.shedding.transfer_spread import Spread, Stop, measure
from counterpoise.load.fields import read_integer, read_object
from counterpoise.load.store_view import LoadStoreView


@dataclass(frozen=True, slots=True)
class TransferMemory:
    """How many calls in a row found the cluster uneven, and what the last call noticed.

    ``cooled`` are the brokers whose cool-down the last call found to be over: whoever keeps
    ``recentlyUnloadedBrokers`` drops them, as Pulsar's class does itself.
    """

    hits: int = 0
    cooled: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The memory as a JSON object."""
        return {"hits": self.hits}


class TransferShedder:
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

    def initial_memory(self) -> TransferMemory:
        """No hits."""
        return TransferMemory()

    def memory_from_json(self, value: Any) -> TransferMemory:
        """The memory that ``to_json`` wrote."""
        return TransferMemory(
            read_integer(read_object(value, "memory").get("hits", 0), "memory.hits")
        )

    def forget(self, memory: TransferMemory, active: Collection[str]) -> TransferMemory:
        """Nothing: it keeps nothing by broker."""
        del active
        return memory

    def plan(
        self,
        view: LoadStoreView,
        memory: TransferMemory,
        options: TransferOptions,
        now_ms: int,
        rng: Random,
    ) -> Plan[TransferMemory]:
        """Decide what moves; the time is the view's, ``now_ms`` and ``rng`` are not used."""
        del now_ms, rng
        with np.errstate(all="ignore"):
            return self._plan(view, memory, options)

    def _plan(
        self, view: LoadStoreView, memory: TransferMemory, options: TransferOptions
    ) -> Plan[TransferMemory]:
        measured = measure(view, options)
        if measured.stop is not None:
            stop = measured.stop
            after = TransferMemory(memory.hits, measured.cooled)
            return Plan((), Rejections(lambda: (why_stopped(stop),)), after)
        spread = Spread.of(view, options, measured)
        figures = {"average": spread.average, "std": spread.std}
        hits = memory.hits + 1 if spread.reason() else 0
        if hits <= options.hit_count_threshold:
            uneven = Uneven(spread.average, spread.std, hits)
            return Plan(
                (),
                Rejections(lambda: (why_uneven(uneven, options),)),
                TransferMemory(hits, measured.cooled),
                figures,
            )
        decisions, notes = _even_out(spread)
        after = TransferMemory(0 if decisions else hits, measured.cooled)
        figures["stdAfter"] = spread.std
        return Plan(tuple(decisions), Rejections(lambda: _reasons(notes)), after, figures)


@dataclass(frozen=True, slots=True)
class _Note:
    """What became of one turn."""

    broker: str
    listed: int | None
    """How many bundles the broker published; None for nothing at all."""
    outcome: Outcome | None
    target: float


def _even_out(spread: Spread) -> tuple[list[Decision], list[_Note]]:
    """Pair after pair until the spread is fine, the limit is reached or the brokers run out."""
    view, options = spread.view, spread.options
    decisions: list[Decision] = []
    notes: list[_Note] = []
    sheds = 0
    while sheds < options.max_brokers_per_cycle and spread.least < spread.most:
        reason = spread.reason()
        if reason is None:
            break
        most, least = spread.order[spread.most], spread.order[spread.least]
        spread.most -= 1
        high, load = float(view.load[most]), float(view.load[least])
        throughput = float(view.throughput[most])
        target = _divide(throughput * ((high - load) / 2), high)
        top = view.top[most]
        if top is None or len(top) <= 1:
            notes.append(_Note(view.brokers[most], None if not top else 1, None, target))
            continue
        outcome = Pair(view, options, most, least, target).even_out()
        notes.append(_Note(view.brokers[most], len(top), outcome, target))
        decisions += _decisions(spread, most, least, outcome, reason, target)
        if outcome.marked > 0:
            moved = outcome.marked - outcome.gained
            sheds += 1
            spread.moved(least, most, _divide(moved * high, throughput))
    return decisions, notes


def _divide(left: float, right: float) -> float:
    """Division as Java has it: by zero it gives NaN or an infinity."""
    if right:
        return left / right
    return math.nan if not left or math.isnan(left) else math.copysign(math.inf, left)


def _decisions(
    spread: Spread, most: int, least: int, outcome: Outcome, reason: str, target: float
) -> list[Decision]:
    """The moves of one pair; one that the lists hold twice is decided once, as in Java's set."""
    moves: Collection[Move] = outcome.moves
    if len({move[:2] for move in moves}) < len(moves):
        moves = {move[:2]: move for move in moves}.values()
    if not moves:
        return []
    view, transfer = spread.view, spread.options.transfer_enabled
    kind = Kind.TRANSFER if transfer else Kind.UNLOAD
    high, low = view.brokers[most], view.brokers[least]
    leaving = {
        "std": spread.std,
        "limit": spread.options.target_std,
        "target": target,
        "load": float(view.load[most]),
        "other": low,
        "otherLoad": float(view.load[least]),
    }
    coming = {**leaving, "load": leaving["otherLoad"], "other": high, "otherLoad": leaving["load"]}
    out, back = (low, high) if transfer else (None, None)
    return [
        Decision(kind, bundle, high, out, reason, BECAUSE_MOVED, leaving | {"throughput": load})
        if leaves
        else Decision(kind, bundle, low, back, reason, BECAUSE_BACK, coming | {"throughput": load})
        for bundle, leaves, load in moves
    ]


def _reasons(notes: list[_Note]) -> Iterable[Rejection]:
    """Why each broker whose turn it was moved nothing."""
    for note in notes:
        if note.listed is None:
            yield why_stopped(Stop("NoLoadData", note.broker, 0.0, 2.0))
        elif note.outcome is None:
            yield why_stopped(Stop("NoBundles", note.broker, 1.0, 2.0))
        elif not note.outcome.moves:
            held = ", ".join(f"{count} {why}" for why, count in note.outcome.skipped.items())
            limit = None if math.isnan(note.target) else note.target
            yield why_stopped(Stop("NoBundles", note.broker, None, limit), held)
