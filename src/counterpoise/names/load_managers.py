"""The class names of Pulsar's two load managers, as ``loadManagerClassName`` has them."""

from typing import Final

MODULAR: Final = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
EXTENSIBLE: Final = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"


def is_extensible(name: str) -> bool:
    """Whether a class name of ``loadManagerClassName`` means PIP-192's extensible load manager."""
    return "ExtensibleLoadManager" in name
