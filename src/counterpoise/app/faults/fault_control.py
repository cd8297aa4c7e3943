"""The faults of an embedded cluster over HTTP: converts JSON to faults, and results to JSON."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from counterpoise.app.clusters.embedded_brokers import EmbeddedBrokers
from counterpoise.app.faults.broker_faults import BrokerFault
from counterpoise.app.faults.cluster_faults import ClusterFaults, faults_of
from counterpoise.app.faults.cluster_log import EventKind, Expectation
from counterpoise.faults import (
    ALWAYS,
    EffectKind,
    Fault,
    FaultEffect,
    FaultTarget,
    InvalidFault,
    SetFault,
    full_name,
    operation_named,
)

JsonMap = Mapping[str, Any]
EXPECT_MAX_S = 60.0


class EmbeddedFaultControl:
    """Sets an embedded cluster's faults by JSON, for the HTTP API (a `FaultControl`)."""

    def __init__(self, brokers: EmbeddedBrokers) -> None:
        self._brokers = brokers

    @property
    def _faults(self) -> ClusterFaults:
        return faults_of(self._brokers)

    def faults(self) -> Sequence[JsonMap]:
        """Every fault of operations that is set, and how many operations it matched and struck."""
        return [_shown(each) for each in self._faults.engine.faults]

    def events(self) -> Sequence[JsonMap]:
        """The logged events in order."""
        return [
            {
                "at_s": round(each.at_s, 6),
                "kind": each.kind.value,
                "text": each.text,
                "topic": each.topic,
                "broker": each.broker,
                "client": each.client,
            }
            for each in self._faults.log.events
        ]

    async def set(self, requested: JsonMap) -> JsonMap:
        """Set the fault that `requested` describes; returns it with its number."""
        return _shown(await self._faults.set(fault_of(requested)))

    async def remove(self, number: int) -> None:
        """Remove the fault with this number; ignored if there is none."""
        self._faults.engine.remove(number)

    async def clear(self) -> None:
        """Remove every injected fault: those of operations and those of brokers."""
        await self._faults.clear()

    async def at_broker(self, requested: JsonMap) -> None:
        """Begin the fault of a broker that `requested` describes, or end it if that has ``end``.

        Raises `InvalidFault`, or `LookupError` for an unknown broker.
        """
        broker, name = self._brokers.find(requested["broker"]), requested["fault"]
        if name == "lose-session":
            await self._faults.lose_session(broker)
        elif name == "drop-connections":
            await self._faults.drop_connections(broker)
        elif name not in set(BrokerFault):
            known = ", ".join((*BrokerFault, "lose-session", "drop-connections"))
            raise InvalidFault(f"there is no fault {name!r} of a broker: choose one of {known}")
        elif requested.get("end"):
            await self._faults.end(broker, BrokerFault(name))
        else:
            await self._faults.begin(broker, BrokerFault(name), requested.get("seconds") or 0)

    async def place(self, topic: str, broker: str) -> None:
        """Make a broker the owner of a topic's bundle."""
        await self._brokers.place(topic, self._brokers.find(broker))

    async def advance(self, seconds: float) -> None:
        """Advance the test clock of all brokers' topics."""
        await self._faults.advance(seconds)

    async def expect(self, requested: JsonMap) -> None:
        """Wait for the events that `requested` describes.

        Raises AssertionError if they do not happen in time, and `InvalidFault`.
        """
        within_s = requested.get("within_s", 10.0)
        if not 0 <= within_s <= EXPECT_MAX_S:
            raise InvalidFault(f"within_s={within_s}: choose 0 to {EXPECT_MAX_S:g} seconds")
        await self._faults.log.expect(self._expectation(requested), within_s)

    def _expectation(self, requested: JsonMap) -> Expectation:
        log, topic = self._faults.log, full_name(requested["topic"])
        if requested["what"] == "nothing-lost":
            if not requested.get("subscription"):
                raise InvalidFault("nothing-lost needs the name of a subscription")
            return partial(log.missing_messages, topic, requested["subscription"])
        kind, times = EventKind(requested["what"]), requested.get("times") or 1
        return partial(log.missing_events, kind, topic, times)


def fault_of(requested: JsonMap) -> Fault:
    """Make the fault of operations that a JSON object describes; raises `InvalidFault`."""
    kind = EffectKind(requested["effect"])
    effect = FaultEffect(kind)
    if kind is EffectKind.ERROR:
        effect = FaultEffect.error(requested.get("code") or "", requested.get("message") or "")
    elif kind is EffectKind.DELAY:
        effect = FaultEffect.delay(requested.get("seconds") or 0)
    schedule = ALWAYS.but(times=requested.get("times"), every=requested.get("every"))
    if requested.get("probability") is not None:
        schedule = schedule.but(
            probability=requested["probability"], seed=requested.get("seed") or 0
        )
    target = FaultTarget(requested.get("topic"), requested.get("client"), requested.get("broker"))
    return Fault(operation_named(requested["operation"]), effect, target, schedule)


def _shown(fault: SetFault) -> JsonMap:
    return {
        "number": fault.number,
        "fault": str(fault.fault),
        "matched": fault.matched,
        "struck": fault.struck,
    }
