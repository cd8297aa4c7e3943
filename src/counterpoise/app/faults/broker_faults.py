"""Faults of whole brokers: frozen, cut off, or with a bad disk."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from counterpoise.app.clusters.embedded_broker import EmbeddedBroker
from counterpoise.app.faults.cluster_log import ClusterLog, EventKind
from counterpoise.faults import InvalidFault
from counterpoise.metadata.memory import MemoryStore


class BrokerFault(StrEnum):
    """A fault of a broker; the value is its name over HTTP."""

    FREEZE = "freeze"
    FROM_CLIENTS = "partition-from-clients"
    FROM_METADATA = "partition-from-metadata"
    DISK_FULL = "disk-full"
    SLOW_DISK = "slow-disk"


SIDES: Final[Mapping[str, BrokerFault]] = {
    "clients": BrokerFault.FROM_CLIENTS,
    "metadata": BrokerFault.FROM_METADATA,
}
"""The fault that cuts a broker off from each of these."""
_BEGINS: Final[Mapping[BrokerFault, str]] = {
    BrokerFault.FREEZE: "stands still",
    BrokerFault.FROM_CLIENTS: "is cut off from clients",
    BrokerFault.FROM_METADATA: "is cut off from the metadata store",
    BrokerFault.DISK_FULL: "has a full disk",
    BrokerFault.SLOW_DISK: "has a slow disk",
}


def begin(log: ClusterLog, broker: EmbeddedBroker, fault: BrokerFault, seconds: float = 0) -> None:
    """Begin a lasting fault of a broker; ``seconds`` is the delay of a slow disk.

    Raises `InvalidFault`.
    """
    if not broker.alive:
        raise InvalidFault(f"{broker} is gone: no fault can be set there")
    listener = broker.running.listener
    if fault is BrokerFault.FREEZE:
        listener.freeze(frozen=True)
    elif fault is BrokerFault.FROM_CLIENTS:
        listener.drop_connections(for_good=True)
    elif fault is BrokerFault.FROM_METADATA:
        session_of(broker).lose()
    elif fault is BrokerFault.DISK_FULL:
        broker.disk.is_full = True
    else:
        # Not a number is refused, too: no comparison with it is true.
        if not 0 < seconds <= 3600:
            raise InvalidFault(f"a disk slower by {seconds} s: choose more than 0, at most 3600")
        broker.disk.delay_s = seconds
    _log(log, broker, _BEGINS[fault])


def end(log: ClusterLog, broker: EmbeddedBroker, fault: BrokerFault) -> None:
    """End a fault of a broker; ignored if the broker is gone."""
    if not broker.alive:
        return
    listener = broker.running.listener
    if fault is BrokerFault.FREEZE:
        listener.freeze(frozen=False)
    elif fault is BrokerFault.FROM_CLIENTS:
        listener.admit_again()
    elif fault is BrokerFault.FROM_METADATA:
        session_of(broker).come_back()
    elif fault is BrokerFault.DISK_FULL:
        broker.disk.is_full = False
    else:
        broker.disk.delay_s = 0.0
    _log(log, broker, f"no longer {_BEGINS[fault]}")


def lose_session(log: ClusterLog, broker: EmbeddedBroker) -> None:
    """End a broker's metadata session; it gets another at once. Raises `InvalidFault`."""
    session_of(broker).expire()
    _log(log, broker, "lost its metadata session")


def drop_connections(log: ClusterLog, broker: EmbeddedBroker) -> None:
    """Disconnect all clients of a broker; they may reconnect."""
    broker.running.listener.drop_connections()
    _log(log, broker, "dropped its connections")


def session_of(broker: EmbeddedBroker) -> MemoryStore:
    """A broker's session with metadata in memory or in a file; raises `InvalidFault`."""
    session = broker.running.metadata
    if not isinstance(session, MemoryStore):
        raise InvalidFault("only a session with memory: or sqlite: can be lost on request")
    return session


def _log(log: ClusterLog, broker: EmbeddedBroker, what: str) -> None:
    log.add(EventKind.BROKER, f"{log.name(broker.id)} {what}", broker=broker.id)
