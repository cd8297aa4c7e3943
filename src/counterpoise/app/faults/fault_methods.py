"""The faults that a test can inject into an embedded cluster, and its assertions."""

from collections.abc import Coroutine
from functools import partial
from typing import Any, TypeVar

from counterpoise.app.clusters.embedded_broker import EmbeddedBroker
from counterpoise.app.clusters.embedded_brokers import EmbeddedBrokers
from counterpoise.app.faults.broker_faults import SIDES, BrokerFault
from counterpoise.app.faults.cluster_faults import ClusterFaults, faults_of
from counterpoise.app.faults.cluster_log import ClusterEvent, EventKind, Expectation
from counterpoise.app.faults.fault_handle import BrokerFaultHandle, ClusterClock, FaultChoice
from counterpoise.faults import FaultTarget, InvalidFault, Operation, full_name, operation_named

T = TypeVar("T")
WITHIN_S = 10.0
"""How many seconds assertions wait by default for what they expect."""


class ClusterWithFaults:
    """A cluster's methods to inject faults and await events; without cost until one is used."""

    _brokers: EmbeddedBrokers

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the cluster's event loop, and wait for its result."""
        raise NotImplementedError

    # Operations of clients.

    def place(self, topic: str, broker: EmbeddedBroker | str) -> None:
        """Make a broker serve a topic and the others of its bundle, until it moves again."""
        self.do(self._brokers.place(topic, self._brokers.find(broker)))

    def fault(
        self,
        operation: Operation | str,
        *,
        topic: str | None = None,
        client: str | None = None,
        broker: EmbeddedBroker | str | None = None,
    ) -> FaultChoice:
        """Choose the operations that a fault strikes; the result's methods choose its effect.

        ``operation``: ``counterpoise.faults.SEND``, ``LOOKUP``, ``ACK``, …, or its name. ``topic``
        and ``client`` may have wildcards; a client is known by its address, its version, and the
        name of its producer or consumer. Raises `InvalidFault` if it is not possible.
        """
        at = None if broker is None else self._brokers.find(broker).id
        return FaultChoice(self, operation_named(operation), FaultTarget(topic, client, at))

    # Faults of whole brokers. One that lasts ends with its with block, or by `remove`.

    def freeze(self, broker: EmbeddedBroker | str) -> BrokerFaultHandle:
        """Freeze a broker: it reads nothing from its clients and writes nothing."""
        return self._begin(broker, BrokerFault.FREEZE)

    def thaw(self, broker: EmbeddedBroker | str) -> None:
        """End the freeze of a broker; ignored if it is not frozen."""
        self.do(self.watch().end(self._brokers.find(broker), BrokerFault.FREEZE))

    def partition(self, broker: EmbeddedBroker | str, from_: str) -> BrokerFaultHandle:
        """Cut a broker off from its ``"clients"`` or from the ``"metadata"`` store."""
        if from_ not in SIDES:
            raise InvalidFault(f"no partition from {from_!r}: choose one of {', '.join(SIDES)}")
        return self._begin(broker, SIDES[from_])

    def disk_full(self, broker: EmbeddedBroker | str) -> BrokerFaultHandle:
        """Make a broker's disk refuse all messages."""
        return self._begin(broker, BrokerFault.DISK_FULL)

    def slow_disk(self, broker: EmbeddedBroker | str, seconds: float) -> BrokerFaultHandle:
        """Delay each write to a broker's disk by ``seconds``."""
        return self._begin(broker, BrokerFault.SLOW_DISK, seconds)

    def lose_session(self, broker: EmbeddedBroker | str) -> None:
        """End a broker's metadata session with its locks; it gets another at once."""
        found = self._brokers.find(broker)
        self.do(self.watch().lose_session(found))

    def drop_connections(self, broker: EmbeddedBroker | str) -> None:
        """Disconnect all clients of a broker; they may reconnect."""
        found = self._brokers.find(broker)
        self.do(self.watch().drop_connections(found))

    @property
    def clock(self) -> ClusterClock:
        """The clock by which messages expire; ``cluster.clock.advance(3600)`` adds an hour."""
        return ClusterClock(self)

    def clear_faults(self) -> None:
        """Remove every fault of operations, and end every fault of brokers."""
        self.do(self.watch().clear())

    # Events and assertions.

    def watch(self) -> ClusterFaults:
        """Start logging `events`; setting any fault does so, too. Idempotent."""
        return self.do(self._watch())

    @property
    def events(self) -> list[ClusterEvent]:
        """The events in order, since the first use of this property, `watch` or any fault."""
        return self.watch().log.events

    def assert_moved(self, topic: str, within_s: float = WITHIN_S) -> None:
        """Wait until a topic has moved: one broker and then another has served it."""
        log = self.watch().log
        self._expect(partial(log.missing_events, EventKind.MOVED, full_name(topic), 1), within_s)

    def assert_redelivered(self, topic: str, times: int = 1, within_s: float = WITHIN_S) -> None:
        """Wait until at least ``times`` messages of a topic were redelivered."""
        kind, name = EventKind.REDELIVERED, full_name(topic)
        self._expect(partial(self.watch().log.missing_events, kind, name, times), within_s)

    def assert_nothing_lost(
        self, topic: str, subscription: str, within_s: float = WITHIN_S
    ) -> None:
        """Wait until every stored message was delivered to a subscription.

        Only messages count that were stored after the first call of `watch`, and after the
        subscription's first SUBSCRIBE.
        """
        name = full_name(topic)
        self._expect(partial(self.watch().log.missing_messages, name, subscription), within_s)

    # On the loop.

    def _expect(self, expectation: Expectation, within_s: float) -> None:
        __tracebackhide__ = True
        self.do(self.watch().log.expect(expectation, within_s))

    def _begin(
        self, broker: EmbeddedBroker | str, fault: BrokerFault, seconds: float = 0
    ) -> BrokerFaultHandle:
        found, faults = self._brokers.find(broker), self.watch()
        self.do(faults.begin(found, fault, seconds))
        return BrokerFaultHandle(self, faults, found, fault)

    async def _watch(self) -> ClusterFaults:
        return faults_of(self._brokers)
