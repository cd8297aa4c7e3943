"""The names of the load managers, each with its way to agree on who owns a bundle."""

from typing import Final

MODULAR: Final = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
EXTENSIBLE: Final = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"


def is_extensible(name: str) -> bool:
    """Whether the class is PIP-192's extensible load manager or derived from it, by its name."""
    return "ExtensibleLoadManager" in name
