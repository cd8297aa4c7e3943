"""TransferShedder (PIP-192): even out the most and the least loaded broker, pair by pair."""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from counterpoise.decide.plan import Decision, Kind, Plan, Rejection, Rejections, decided
from counterpoise.decide.shedding.transfer_explain import (
    BECAUSE_BACK,
    BECAUSE_MOVED,
    Uneven,
    why_stopped,
    why_uneven,
)
from counterpoise.decide.shedding.transfer_options import TransferOptions
from counterpoise.decide.shedding.transfer_pair import Outcome, Pair, divide
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
        measured = measure(view, options)
        if measured.stop is not None:
            stop = measured.stop
            after = TransferMemory(memory.hits, measured.cooled)
            return Plan((), Rejections(lambda: (why_stopped(stop),)), after)
        spread = Spread.of(view, options, measured.loads)
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


class _Note(NamedTuple):
    """A turn that came to nothing."""

    broker: str
    listed: int
    """How many bundles the broker published."""
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
        pair = Pair.of(view, options, *spread.pair())
        spread.most -= 1
        outcome = pair.even_out() if len(pair.bundles) > 1 else None
        if outcome is None or not outcome.moves:
            broker = view.brokers[pair.most]
            notes.append(_Note(broker, len(pair.bundles), outcome, pair.target))
            continue
        decisions += _decisions(pair, outcome, reason, spread.std)
        if outcome.marked > 0:
            sheds += 1
            moved = outcome.marked - outcome.gained
            spread.moved(pair.low, pair.high, divide(moved * pair.high, pair.throughput))
    return decisions, notes


def _decisions(pair: Pair, outcome: Outcome, reason: str, std: float) -> list[Decision]:
    """The moves of one pair."""
    brokers, options = pair.view.brokers, pair.options
    busy, idle = brokers[pair.most], brokers[pair.least]
    leaving = {
        "std": std,
        "limit": options.target_std,
        "target": pair.target,
        "load": pair.high,
        "other": idle,
        "otherLoad": pair.low,
    }
    coming = {**leaving, "load": pair.low, "other": busy, "otherLoad": pair.high}
    kind, out, back = Kind.UNLOAD, None, None
    if options.transfer_enabled:
        kind, out, back = Kind.TRANSFER, idle, busy
    made = []
    for (bundle, leaves), load in outcome.moves.items():
        figures = leaving.copy() if leaves else coming.copy()
        figures["throughput"] = load
        if leaves:
            made.append(decided((kind, bundle, busy, out, reason, BECAUSE_MOVED, figures, ())))
        else:
            made.append(decided((kind, bundle, idle, back, reason, BECAUSE_BACK, figures, ())))
    return made


def _reasons(notes: list[_Note]) -> Iterable[Rejection]:
    """Why each broker whose turn it was moved nothing."""
    for note in notes:
        if not note.listed:
            yield why_stopped(Stop("NoLoadData", note.broker, 0.0, 2.0))
        elif note.outcome is None:
            yield why_stopped(Stop("NoBundles", note.broker, 1.0, 2.0))
        else:
            held = ", ".join(f"{count} {why}" for why, count in note.outcome.skipped.items())
            limit = None if math.isnan(note.target) else note.target
            yield why_stopped(Stop("NoBundles", note.broker, None, limit), held)
