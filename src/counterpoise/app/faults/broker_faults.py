"""Faults of whole brokers: frozen, cut off, or with a bad disk."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from counterpoise.app.clusters.embedded_broker import EmbeddedBroker
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
"""What a broker can be cut off from, each with the fault that does it."""
SENTENCES: Final[Mapping[BrokerFault, str]] = {
    BrokerFault.FREEZE: "stands still",
    BrokerFault.FROM_CLIENTS: "is cut off from clients",
    BrokerFault.FROM_METADATA: "is cut off from the metadata store",
    BrokerFault.DISK_FULL: "has a full disk",
    BrokerFault.SLOW_DISK: "has a slow disk",
}
"""What the log says of a broker when the fault begins."""


def switch(broker: EmbeddedBroker, fault: BrokerFault, *, on: bool, seconds: float = 0) -> None:
    """Begin a fault of a broker; with ``on`` False, end it.

    ``seconds`` is by how much a slow disk delays each write. Raises `InvalidFault` if it is out of
    range, or the metadata store cannot have the fault.
    """
    match fault:
        case BrokerFault.FREEZE:
            broker.running.listener.freeze(frozen=on)
        case BrokerFault.FROM_CLIENTS if on:
            broker.running.listener.drop_connections(for_good=True)
        case BrokerFault.FROM_CLIENTS:
            broker.running.listener.admit_again()
        case BrokerFault.FROM_METADATA if on:
            session_of(broker).lose()
        case BrokerFault.FROM_METADATA:
            session_of(broker).come_back()
        case BrokerFault.DISK_FULL:
            broker.disk.is_full = on
        case BrokerFault.SLOW_DISK:
            # NaN is refused, too: no comparison with it is true.
            if on and not 0 < seconds <= 3600:
                raise InvalidFault(
                    f"a disk slower by {seconds} s: choose more than 0, at most 3600"
                )
            broker.disk.delay_s = seconds if on else 0.0


def session_of(broker: EmbeddedBroker) -> MemoryStore:
    """Return a broker's metadata session, if it is of ``memory:`` or ``sqlite:``.

    Raises `InvalidFault` for another metadata store.
    """
    session = broker.running.metadata
    if not isinstance(session, MemoryStore):
        raise InvalidFault("only a session with memory: or sqlite: can be lost on request")
    return session
