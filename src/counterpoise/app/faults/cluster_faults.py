"""The faults of an embedded cluster: set, removed and counted on the cluster's loop."""

from typing import Final

from counterpoise.app.clusters.embedded_broker import EmbeddedBroker
from counterpoise.app.clusters.embedded_brokers import EmbeddedBrokers
from counterpoise.app.faults.broker_faults import SENTENCES, BrokerFault, session_of, switch
from counterpoise.app.faults.cluster_log import ClusterLog, EventKind
from counterpoise.faults import (
    EffectKind,
    Fault,
    FaultEffect,
    FaultEngine,
    InvalidFault,
    Occurrence,
    SetFault,
)

ADVANCE_MAX_S: Final = 10 * 366 * 86_400.0


class BrokerInterceptor:
    """Applies the faults that are set to one broker's operations, and logs what happens."""

    def __init__(self, broker: str, engine: FaultEngine, log: ClusterLog) -> None:
        self.broker = broker
        self._engine = engine
        self._log = log

    def on(self, occurrence: Occurrence) -> FaultEffect | None:
        """Log an operation that begins, and return the effect of the fault that strikes it.

        None if no fault does. The broker calls this for each operation, and applies the effect.
        """
        struck = self._engine.on(occurrence)
        effect = None if struck is None else struck[1]
        if effect is not None:
            self._log.struck(occurrence, effect)
        self._log.begun(occurrence, arrives=effect is None or effect.kind is EffectKind.DELAY)
        return effect

    def lost(self, address: str) -> None:
        """Log that a client's connection has ended."""
        self._log.disconnected(self.broker, address)


class ClusterFaults:
    """The faults that a test has set in an embedded cluster, and the log of their effects."""

    def __init__(self, brokers: EmbeddedBrokers) -> None:
        self.brokers = brokers
        self.engine = FaultEngine()
        self.log = ClusterLog()
        self._begun: dict[tuple[str, BrokerFault], EmbeddedBroker] = {}
        for each in brokers.alive:
            self.intercept(each)

    def intercept(self, broker: EmbeddedBroker) -> None:
        """Intercept a broker's operations from now on."""
        self.log.name(broker.id)
        broker.running.listener.intercept(BrokerInterceptor(broker.id, self.engine, self.log))

    async def set(self, fault: Fault) -> SetFault:
        """Set a fault; raises `LookupError` for an unknown broker."""
        if fault.target.broker is not None:
            self.brokers.find(fault.target.broker)
        return self.engine.add(fault)

    async def begin(self, broker: EmbeddedBroker, fault: BrokerFault, seconds: float = 0) -> None:
        """Begin a fault of a broker, which lasts until `end`; raises `InvalidFault`.

        ``seconds`` is by how much a slow disk delays each write.
        """
        if not broker.alive:
            raise InvalidFault(f"{broker} is gone: no fault can be set there")
        switch(broker, fault, on=True, seconds=seconds)
        self._log_of(broker, SENTENCES[fault])
        self._begun[broker.id, fault] = broker

    async def end(self, broker: EmbeddedBroker, fault: BrokerFault) -> None:
        """End a fault of a broker; ignored if it has ended, or the broker is gone."""
        if self._begun.pop((broker.id, fault), None) is not None and broker.alive:
            switch(broker, fault, on=False)
            self._log_of(broker, f"no longer {SENTENCES[fault]}")

    async def lose_session(self, broker: EmbeddedBroker) -> None:
        """End a broker's metadata session; it gets another at once. Raises `InvalidFault`."""
        session_of(broker).expire()
        self._log_of(broker, "lost its metadata session")

    async def drop_connections(self, broker: EmbeddedBroker) -> None:
        """Disconnect all clients of a broker; they may reconnect."""
        broker.running.listener.drop_connections()
        self._log_of(broker, "dropped its connections")

    def _log_of(self, broker: EmbeddedBroker, what: str) -> None:
        name = self.log.name(broker.id)
        self.log.add(EventKind.BROKER, f"{name} {what}", broker=broker.id)

    async def advance(self, seconds: float) -> None:
        """Advance the clock by which the topics of all brokers expire and deliver messages.

        Raises `InvalidFault` if ``seconds`` is out of range.
        """
        # NaN is refused, too: no comparison with it is true.
        if not 0 < seconds <= ADVANCE_MAX_S:
            raise InvalidFault(f"{seconds} s later: choose more than 0, at most {ADVANCE_MAX_S:g}")
        for each in self.brokers.alive:
            topics = each.running.topics
            topics.wall.advance(seconds)
            for topic in topics.loaded.values():
                for subscription in topic.subscriptions.values():
                    if subscription.dispatcher is not None:
                        subscription.dispatcher.time_passed()
        for each in self.brokers.alive:
            await each.running.upkeep.look_at_all()
        self.log.add(EventKind.CLOCK, f"it is {seconds:g} s later")

    async def clear(self) -> None:
        """Remove the faults of operations, and end those of brokers."""
        self.engine.clear()
        for (_, fault), broker in list(self._begun.items()):
            await self.end(broker, fault)


def faults_of(brokers: EmbeddedBrokers) -> ClusterFaults:
    """Return the faults of a cluster; the first call begins to intercept its brokers."""
    if not isinstance(brokers.watcher, ClusterFaults):
        brokers.watcher = ClusterFaults(brokers)
    return brokers.watcher
