"""The methods by which a test chooses a fault, and the handle to a fault that is set."""

from __future__ import annotations

from collections.abc import Coroutine
from functools import partial
from typing import Protocol, Self, TypeVar

from counterpoise.app.clusters.embedded_broker import EmbeddedBroker
from counterpoise.app.faults.broker_faults import BrokerFault
from counterpoise.app.faults.cluster_faults import ClusterFaults
from counterpoise.faults import (
    ALWAYS,
    EffectKind,
    Fault,
    FaultEffect,
    FaultTarget,
    Operation,
    Schedule,
    SetFault,
)
from counterpoise.wire.errors import ServerError

T = TypeVar("T")


class WatchedCluster(Protocol):
    """What faults call on the cluster that they are set in."""

    def watch(self) -> ClusterFaults:
        """Start intercepting the cluster's operations, if they are not intercepted yet."""

    def do(self, work: Coroutine[None, None, T]) -> T:
        """Run a coroutine on its loop, and wait for it."""


class Scheduled:
    """The methods that choose which of the matching operations a fault strikes.

    They may be called before or after its effect is chosen, and raise `InvalidFault` if they
    contradict each other.
    """

    _schedule: Schedule = ALWAYS

    def once(self) -> Self:
        """Strike only the first operation that matches."""
        return self.times(1)

    def times(self, count: int) -> Self:
        """Strike at most ``count`` operations."""
        return self._count_by(self._schedule.but(times=count))

    def every(self, nth: int) -> Self:
        """Strike every nth operation that matches."""
        return self._count_by(self._schedule.but(every=nth))

    def probability(self, chance: float, seed: int) -> Self:
        """Strike each operation with a chance from 0 to 1, by a generator seeded with ``seed``."""
        return self._count_by(self._schedule.but(probability=chance, seed=seed))

    def _count_by(self, schedule: Schedule) -> Self:
        self._schedule = schedule
        return self


class FaultChoice(Scheduled):
    """The operations that a fault strikes, and how often, before its effect is chosen.

    The fault is set when one of `error`, `delay`, `drop` and `disconnect` is called. They raise
    `InvalidFault` if the operation cannot have this effect.
    """

    def __init__(self, cluster: WatchedCluster, operation: Operation, target: FaultTarget) -> None:
        self._cluster = cluster
        self._operation = operation
        self._target = target

    def error(self, code: str | ServerError, message: str = "") -> FaultHandle:
        """Make the broker answer with an error of the protocol, such as ``"MetadataError"``."""
        return self._set(FaultEffect.error(code, message))

    def delay(self, seconds: float) -> FaultHandle:
        """Make the broker serve the operation ``seconds`` later."""
        return self._set(FaultEffect.delay(seconds))

    def drop(self) -> FaultHandle:
        """Make the operation get lost: the broker neither serves nor answers it."""
        return self._set(FaultEffect(EffectKind.DROP))

    def disconnect(self) -> FaultHandle:
        """Make the broker close the client's connection instead of serving the operation."""
        return self._set(FaultEffect(EffectKind.DISCONNECT))

    def _set(self, effect: FaultEffect) -> FaultHandle:
        fault = Fault(self._operation, effect, self._target, self._schedule)
        return FaultHandle(self._cluster, fault)


class FaultHandle(Scheduled):
    """A fault that is set; as a context manager it removes the fault at the end of its block."""

    def __init__(self, cluster: WatchedCluster, fault: Fault) -> None:
        self._cluster = cluster
        self._schedule = fault.schedule
        self._faults = cluster.watch()
        self._set: SetFault = cluster.do(self._faults.set(fault))

    @property
    def struck(self) -> int:
        """How many operations the fault has struck."""
        return self._set.struck

    @property
    def number(self) -> int:
        """The fault's number in this cluster, from 1 on."""
        return self._set.number

    def remove(self) -> None:
        """Remove the fault; ignored if it has been removed."""
        self._cluster.do(self._remove())

    def wait(self, times: int = 1, within_s: float = 10.0) -> None:
        """Wait until the fault has struck ``times`` operations.

        If it has not within ``within_s`` seconds, raises AssertionError, whose message lists what
        happened instead.
        """
        self._cluster.do(self._faults.log.expect(partial(self._missing, times), within_s))

    def __enter__(self) -> FaultHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def __repr__(self) -> str:
        return f"<fault {self.number}: {self._set.fault}; struck {self.struck} times>"

    def _count_by(self, schedule: Schedule) -> Self:
        self._cluster.do(self._reschedule(schedule))
        return super()._count_by(schedule)

    def _missing(self, times: int) -> str:
        if self.struck >= times:
            return ""
        return f"{self._set.fault} struck {self.struck} times, and {times} were expected"

    async def _reschedule(self, schedule: Schedule) -> None:
        self._set.reschedule(schedule)

    async def _remove(self) -> None:
        self._faults.engine.remove(self.number)


class BrokerFaultHandle:
    """A fault of a broker, such as a freeze, that lasts until it is removed or its block ends."""

    def __init__(
        self,
        cluster: WatchedCluster,
        faults: ClusterFaults,
        broker: EmbeddedBroker,
        fault: BrokerFault,
    ) -> None:
        self._cluster = cluster
        self._faults = faults
        self._broker = broker
        self._fault = fault

    def remove(self) -> None:
        """End the broker's fault; ignored if it has ended."""
        self._cluster.do(self._faults.end(self._broker, self._fault))

    def __enter__(self) -> BrokerFaultHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def __repr__(self) -> str:
        return f"<{self._fault} of {self._broker}>"


class ClusterClock:
    """The clock by which messages expire, delayed messages are due, and backlogs age."""

    def __init__(self, cluster: WatchedCluster) -> None:
        self._cluster = cluster

    def advance(self, seconds: float) -> None:
        """Advance the clock by ``seconds``; returns when messages that expired are acknowledged.

        Messages expire by their TTL, delayed ones are delivered, and limits on a backlog's age are
        enforced. Rates, and timeouts of clients and connections, use other clocks.
        """
        self._cluster.do(self._cluster.watch().advance(seconds))
