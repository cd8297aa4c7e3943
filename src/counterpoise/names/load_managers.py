"""The names of the load managers, each with its way to agree on who owns a bundle."""

from typing import Final

MODULAR: Final = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
EXTENSIBLE: Final = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"


def is_extensible(name: str) -> bool:
    """Whether a class is that of PIP-192, or what somebody made of it."""
    return "ExtensibleLoadManager" in name
