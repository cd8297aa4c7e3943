"""What a round of decisions leaves behind: moves, their outcomes, and the balancer's memory."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from counterpoise.decide.balancing.thrash import Hop, Trails
from counterpoise.decide.plan import Decision, Rejection
from counterpoise.load.store_of_reports import Ema


@dataclass(frozen=True, slots=True)
class Move:
    """A decision with a broker to go to, and a name by which it is never carried out twice."""

    id: str
    poll_id: int
    """The poll it was decided on: milliseconds since 1970."""
    decision: Decision
    placement: str
    """Why this destination, for a person."""
    part: float = 0.0
    """How much of the cluster's bytes/s the bundle carries; 1 is all."""

    @property
    def bundle(self) -> str:
        """The bundle that moves."""
        return self.decision.bundle

    @property
    def source(self) -> str:
        """The broker that has it."""
        return self.decision.source

    @property
    def destination(self) -> str:
        """The broker that is to get it; empty when the cluster may choose."""
        return self.decision.destination or ""


def move_id(poll_id: int, bundle: str) -> str:
    """The same for every replay of the same poll, and for no other decision."""
    return f"{poll_id}-{zlib.crc32(bundle.encode()):08x}"


class MoveStatus(StrEnum):
    """How a move ended."""

    MOVED = "moved"
    """Unloaded, and its new owner is the destination."""
    ELSEWHERE = "elsewhere"
    """Unloaded, but another broker than the destination owns it now."""
    UNOWNED = "unowned"
    """Unloaded; nobody owned it before the deadline (no client has asked for it)."""
    ALREADY_THERE = "already there"
    """Not carried out: the destination owned it already."""
    GONE = "gone"
    """Not carried out: the source did not own it any more."""
    STALE = "stale"
    """Not carried out: the reports it rests on were too old by then."""
    WITHHELD = "withheld"
    """Not carried out: a rule of the operator's says so; `error` names it."""
    DRY_RUN = "dry run"
    """Not carried out: nobody asked for it."""
    FAILED = "failed"
    """The cluster refused, or did not do it; `error` says what was heard."""


@dataclass(frozen=True, slots=True)
class MoveOutcome:
    """What became of a move. Times are milliseconds since 1970."""

    id: str
    poll_id: int
    bundle: str
    source: str
    destination: str
    status: MoveStatus
    owner: str
    """Who owned the bundle at the end; empty when nobody did, or nobody looked."""
    started_at_ms: int
    ended_at_ms: int
    """When the new owner was seen, or the attempt was given up."""
    error: str = ""

    @property
    def carried_out(self) -> bool:
        """Whether the cluster was asked to move the bundle."""
        return self.status in (
            MoveStatus.MOVED,
            MoveStatus.ELSEWHERE,
            MoveStatus.UNOWNED,
            MoveStatus.FAILED,
        )

    @property
    def hop(self) -> Hop | None:
        """Where the bundle went, when it went anywhere."""
        if self.status not in (MoveStatus.MOVED, MoveStatus.ELSEWHERE):
            return None
        return Hop(self.ended_at_ms, self.source, self.owner)

    @property
    def settles(self) -> bool:
        """Whether the bundle is to be left alone for the grace period."""
        return self.status not in (MoveStatus.FAILED, MoveStatus.STALE, MoveStatus.WITHHELD)


@dataclass(frozen=True, slots=True)
class RoundMemory:
    """All that one round tells the next; JSON both ways, so that it survives a change of leader.

    `shedder` and `placement` are the strategies' own memories as JSON.
    """

    shedder: Any = None
    placement: Any = None
    recently_unloaded: Mapping[str, int] = field(default_factory=dict)
    """When each bundle was last moved, milliseconds since 1970."""
    decided_at_ms: int = 0
    settled_at_ms: int = 0
    """When the last move ended: polls before that show the cluster as it was."""
    traffic_before: Mapping[str, float] = field(default_factory=dict)
    """What each broker that took part in the last moves reported before them (see `is_due`)."""
    trails: Trails = field(default_factory=dict)
    """Where bundles have been lately (see `thrash.py`)."""
    loads: Mapping[str, Ema] = field(default_factory=dict)
    """The brokers' averages, for a strategy that reads load stores (`load/store_of_reports.py`)."""

    def to_json(self) -> dict[str, Any]:
        """The memory as a JSON object."""
        return {
            "shedder": self.shedder,
            "placement": self.placement,
            "recentlyUnloaded": dict(self.recently_unloaded),
            "decidedAt": self.decided_at_ms,
            "settledAt": self.settled_at_ms,
            "trafficBefore": dict(self.traffic_before),
            "loads": {broker: list(ema) for broker, ema in self.loads.items()},
            "trails": {bundle: [list(hop) for hop in hops] for bundle, hops in self.trails.items()},
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "RoundMemory":
        """The reverse of `to_json`."""
        return RoundMemory(
            value["shedder"],
            value["placement"],
            value["recentlyUnloaded"],
            value["decidedAt"],
            value["settledAt"],
            value.get("trafficBefore", {}),
            {
                bundle: tuple(Hop(*hop) for hop in hops)
                for bundle, hops in value.get("trails", {}).items()
            },
            {broker: Ema(*ema) for broker, ema in value.get("loads", {}).items()},
        )


@dataclass(frozen=True, slots=True)
class Round:
    """One round: what was decided on one poll, why the rest was not, and the memory after it."""

    poll_id: int
    strategy: str
    imbalance: float
    """Largest broker's bytes/s ÷ their mean - 1; 0 is perfectly even."""
    brokers: int
    bundles: int
    moves: tuple[Move, ...]
    rejections: tuple[Rejection, ...]
    memory: RoundMemory

    def to_json(self) -> dict[str, Any]:
        """What was decided as a JSON object; the memory is not in it."""
        return {
            "at": self.poll_id,
            "strategy": self.strategy,
            "imbalance": self.imbalance,
            "brokers": self.brokers,
            "bundles": self.bundles,
            "moves": [
                {**move.decision.to_json(), "id": move.id, "placement": move.placement}
                for move in self.moves
            ],
            "rejections": [each.to_json() for each in self.rejections],
        }
