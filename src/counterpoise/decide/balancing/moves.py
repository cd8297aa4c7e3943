"""The parts of a round: its moves, their outcomes, and the memory for the next round."""

import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from counterpoise.decide.balancing.basis import MoveBasis
from counterpoise.decide.balancing.costly import Costs, EndedMove, with_costs
from counterpoise.decide.balancing.publish_latency import LatencyRise
from counterpoise.decide.balancing.thrash import Hop, Trails, trailed
from counterpoise.decide.plan import Decision, Rejection
from counterpoise.load.fields import JsonObject, json_name
from counterpoise.load.store_of_reports import Ema
from counterpoise.load.view import ClusterView

_NONE: Final[Mapping[str, float]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Move:
    """A decided move of a bundle from one broker to another.

    The executor carries out a move with the same ``id`` at most once.
    """

    id: str
    poll_id: int
    """The poll of the cluster on which the move was decided: milliseconds since 1970."""
    decision: Decision
    placement: str
    """Why this destination was chosen, as a sentence."""
    part: float = 0.0
    """The fraction of the cluster's bytes/s that the bundle carries."""
    basis: MoveBasis | None = None
    """The figures on which the move was decided; None if they are not known."""

    @property
    def basis_text(self) -> str:
        """The figures behind the move as text; empty when unknown."""
        return self.basis.sentence_of(self.source, self.destination) if self.basis else ""

    @property
    def bundle(self) -> str:
        """The bundle that moves."""
        return self.decision.bundle

    @property
    def source(self) -> str:
        """The broker that owns the bundle."""
        return self.decision.source

    @property
    def destination(self) -> str:
        """The broker that is to get it; empty when the cluster may choose."""
        return self.decision.destination or ""

    def done(self, ended_at_ms: int) -> "MoveOutcome":
        """Make the outcome of a successful move: the destination owns the bundle."""
        return self.ended(MoveStatus.MOVED, self.destination, self.poll_id, ended_at_ms)

    def ended(
        self, status: "MoveStatus", owner: str, began_ms: int, ended_ms: int, error: str = ""
    ) -> "MoveOutcome":
        """Make the outcome of an attempt at this move."""
        return MoveOutcome(
            self.id,
            self.poll_id,
            self.bundle,
            self.source,
            self.destination,
            status,
            owner,
            began_ms,
            ended_ms,
            error,
        )


def move_id(poll_id: int, bundle: str) -> str:
    """The id of a move, derived from its poll and bundle: every replay of the poll gives it."""
    return f"{poll_id}-{zlib.crc32(bundle.encode()):08x}"


class MoveStatus(StrEnum):
    """How a move ended."""

    MOVED = "moved"
    """The bundle was unloaded, and the destination owns it."""
    ELSEWHERE = "elsewhere"
    """The bundle was unloaded, but another broker than the destination owns it."""
    UNOWNED = "unowned"
    """The bundle was unloaded; no broker owned it before the deadline (no client has looked it
    up)."""
    ALREADY_THERE = "already there"
    """Not carried out: the destination owned the bundle already."""
    GONE = "gone"
    """Not carried out: the source did not own the bundle any more."""
    STALE = "stale"
    """Not carried out: the reports on which it was decided were too old by then."""
    WITHHELD = "withheld"
    """Not carried out: one of the operator's rules forbids it; `error` names the rule."""
    DRY_RUN = "dry run"
    """Not carried out: `--execute` was not given."""
    FAILED = "failed"
    """The cluster refused to unload the bundle, or did not do it; `error` has its answer."""

    @property
    def words(self) -> str:
        """The status as the phrase that follows a number of moves in a sentence."""
        return _WORDS.get(self, self.value)


_WORDS = {
    MoveStatus.ELSEWHERE: "taken by another broker than the destination",
    MoveStatus.UNOWNED: "unloaded and without an owner by then",
    MoveStatus.GONE: "not tried, for another broker had the bundle by then",
    MoveStatus.STALE: "not tried, for the load report was too old by then",
}


@dataclass(frozen=True, slots=True)
class MoveOutcome:
    """How an attempt to move a bundle ended. Times are milliseconds since 1970."""

    id: str
    poll_id: int
    bundle: str
    source: str
    destination: str
    status: MoveStatus
    owner: str
    """The owner at the end; empty when no broker owned it, or none was asked."""
    started_at_ms: int
    ended_at_ms: int
    """When the new owner was seen, or the attempt was given up."""
    error: str = ""
    unacknowledged_s: float | None = None
    """The messages that consumers had got and not acknowledged when the bundle was unloaded, which
    are redelivered, ÷ the rate at which they got messages: in seconds. None if not known."""

    @property
    def carried_out(self) -> bool:
        """Whether the cluster was asked to unload the bundle, successfully or not."""
        return self.status in (
            MoveStatus.MOVED,
            MoveStatus.ELSEWHERE,
            MoveStatus.UNOWNED,
            MoveStatus.FAILED,
        )

    @property
    def astray(self) -> str:
        """A sentence on where the bundle went if it was unloaded and did not reach its destination.

        Empty for every other outcome.
        """
        expected = self.destination or "any broker"
        match self.status:
            case MoveStatus.ELSEWHERE:
                return (
                    f"{self.bundle} was unloaded from {self.source} for {expected}, and "
                    f"{self.owner or 'another broker'} took it first"
                )
            case MoveStatus.UNOWNED:
                return (
                    f"{self.bundle} was unloaded from {self.source}, and no broker, {expected} "
                    "included, had taken it by then; the next lookup of one of its topics places it"
                )
            case _:
                return ""

    @property
    def seconds(self) -> float:
        """The time from the first request about the bundle to its new owner, or to giving up."""
        return (self.ended_at_ms - self.started_at_ms) / 1000

    def slowed_by(self, rise: LatencyRise | None) -> str:
        """How ``rise`` affected this move, as text; empty if it is at neither of its brokers."""
        return rise.figures if rise and rise.broker in (self.source, self.owner) else ""

    @property
    def hop(self) -> Hop | None:
        """The move as an entry of the bundle's trail (`thrash.py`); None if it did not move."""
        if self.status not in (MoveStatus.MOVED, MoveStatus.ELSEWHERE):
            return None
        return Hop(self.ended_at_ms, self.source, self.owner)

    @property
    def begins_grace(self) -> bool:
        """Whether this outcome starts the bundle's grace period."""
        return self.status not in (MoveStatus.FAILED, MoveStatus.STALE, MoveStatus.WITHHELD)


@dataclass(frozen=True, slots=True)
class RoundMemory(JsonObject):
    """What the balancer remembers from one round to the next; JSON, to survive a change of leader.

    `shedder` and `placement` are the strategies' own memories as JSON.
    """

    shedder: Any = None
    placement: Any = None
    recently_unloaded: Mapping[str, int] = field(default_factory=dict)
    """When each bundle was last moved, milliseconds since 1970."""
    decided_at_ms: int = json_name("decidedAt", 0)
    """The time of the last round, in milliseconds since 1970; 0 before the first."""
    last_move_ms: int = json_name("settledAt", 0)
    """When the last move ended: earlier polls show the cluster before it."""
    traffic_before: Mapping[str, float] = field(default_factory=dict)
    """The load (`due.traffic`) before the last moves of each broker that took part in them."""
    trails: Trails = field(default_factory=dict)
    """The recent moves of each bundle (see `thrash.py`)."""
    loads: Mapping[str, Ema] = field(default_factory=dict)
    """The moving average of each broker's load, for a strategy that reads load stores
    (`load/store_of_reports.py`)."""
    unloaded_brokers: Mapping[str, int] = field(default_factory=dict)
    """When a bundle was last moved away from a broker, milliseconds since 1970."""
    costs: Costs = field(default_factory=dict)
    """The last moves of bundles if these disturbed clients (`costly.py`)."""
    moves_took_s: tuple[float, ...] = json_name("movesTookSeconds", ())
    """How many seconds each of the last moves took."""

    def with_moves_by_hand(self, hops: Mapping[str, Hop]) -> "RoundMemory":
        """A copy that includes operators' moves, by bundle; these start a grace period, too."""
        later = {
            bundle: hop.at_ms
            for bundle, hop in hops.items()
            if hop.at_ms > self.recently_unloaded.get(bundle, 0)
        }
        if not later:
            return self
        return replace(self, recently_unloaded={**self.recently_unloaded, **later})

    def after(
        self,
        outcomes: Iterable[MoveOutcome],
        *,
        span_ms: int | None = None,
        traffic: Mapping[str, float] = _NONE,
        carried: Mapping[str, float] = _NONE,
        rise: LatencyRise | None = None,
    ) -> "RoundMemory":
        """The memory after the moves of its round have ended with these outcomes.

        Trails (each bundle's past moves) are kept for ``span_ms``, None for ever. ``traffic`` has
        the load of each broker, ``carried`` that of each moved bundle when the round was decided
        (as in `due.py`): the next round waits until the brokers whose load changed have reported a
        new measurement. A bundle's grace period begins when its move ends. ``rise`` is the latency
        rise that stopped the moves; moves from and to that broker count as costly.
        """
        ended = list(outcomes)
        moved = [one for one in ended if one.status is MoveStatus.MOVED]
        # No round waits for a broker that had no traffic and got none: its reports never change.
        changed = {one.source for one in moved if traffic.get(one.source)}
        changed |= {one.destination for one in moved if carried.get(one.bundle)}
        costs, took_s = with_costs(
            self.costs,
            self.moves_took_s,
            (
                EndedMove(
                    one.bundle,
                    one.ended_at_ms,
                    one.seconds,
                    one.slowed_by(rise),
                    failed=one.status is MoveStatus.FAILED,
                )
                for one in ended
                if one.carried_out and one.seconds > 0
            ),
        )
        return replace(
            self,
            recently_unloaded={
                **self.recently_unloaded,
                **{
                    one.bundle: one.ended_at_ms if one.carried_out else one.poll_id
                    for one in ended
                    if one.begins_grace
                },
            },
            last_move_ms=max(
                (one.ended_at_ms for one in ended if one.carried_out), default=self.last_move_ms
            ),
            traffic_before={each: traffic[each] for each in sorted(changed & traffic.keys())},
            unloaded_brokers={
                **self.unloaded_brokers,
                **{one.source: one.ended_at_ms for one in moved},
            },
            costs=costs,
            moves_took_s=took_s,
            trails=trailed(
                self.trails,
                [(one.bundle, one.hop) for one in ended if one.hop],
                self.decided_at_ms,
                self.decided_at_ms + 1 if span_ms is None else span_ms,
            ),
        )


@dataclass(frozen=True, slots=True)
class Round:
    """One round of balancing: its moves, why other bundles stay, and the memory after it."""

    poll_id: int
    strategy: str
    imbalance: float
    """Largest broker's bytes/s ÷ their mean - 1; 0 is perfectly even."""
    brokers: int
    """How many brokers were in the view on which the round was decided."""
    bundles: int
    moves: tuple[Move, ...]
    rejections: tuple[Rejection, ...]
    memory: RoundMemory

    @staticmethod
    def of(
        view: ClusterView,
        goal: str,
        moves: Iterable[Move],
        rejections: Iterable[Rejection],
        memory: RoundMemory,
        at_ms: int | None = None,
    ) -> "Round":
        """Make a round from what was decided on this view.

        ``goal`` is the goal's name, such as a strategy's. The round's time is the view's unless
        ``at_ms`` is given.
        """
        at_ms = view.now_ms if at_ms is None else at_ms
        return Round(
            at_ms,
            goal,
            imbalance_of(view),
            len(view.brokers),
            len(view.bundles),
            tuple(moves),
            tuple(rejections),
            replace(memory, decided_at_ms=at_ms),
        )

    def as_moved(self, ended_at_ms: int) -> list[MoveOutcome]:
        """The outcomes as if every move succeeded at this time (ms since 1970): for simulations."""
        return [move.done(ended_at_ms) for move in self.moves]

    def to_json(self) -> dict[str, Any]:
        """The decisions as a JSON object, without the memory."""
        return {
            "at": self.poll_id,
            "strategy": self.strategy,
            "imbalance": self.imbalance,
            "brokers": self.brokers,
            "bundles": self.bundles,
            "moves": [
                {
                    **move.decision.to_json(),
                    "id": move.id,
                    "placement": move.placement,
                    "basis": move.basis and move.basis.to_json(),
                }
                for move in self.moves
            ],
            "rejections": [each.to_json() for each in self.rejections],
        }


def imbalance(loads: Collection[float]) -> float:
    """The largest load ÷ the mean, minus 1: 0 when all are equal, or when there is no load."""
    mean = sum(loads) / len(loads) if loads else 0.0
    return max(loads) / mean - 1 if mean > 0 else 0.0


def imbalance_of(view: ClusterView) -> float:
    """Largest broker's bytes/s ÷ the mean, minus 1, in a view."""
    return imbalance(view.broker.traffic.throughput().tolist())
