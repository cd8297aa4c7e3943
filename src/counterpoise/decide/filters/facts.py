"""What filters read about a broker, besides its load."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """What filters know of one broker: load manager, version, topic kinds and topic counts."""

    load_manager_class: str | None = None
    version: str | None = None
    persistent_topics: bool = True
    non_persistent_topics: bool = True
    topics: int = 0
    """The number of topics in the broker's last report."""
    preallocated_topics: int = 0
    """The number of topics in bundles assigned to the broker since then (modular only)."""


UNKNOWN = BrokerFacts()
"""The facts that are assumed of a broker that has not reported its load yet."""


def broker_host(broker: str) -> str:
    """The host of a broker id, which isolation policies match: the part before the last colon."""
    host, mark, _ = broker.rpartition(":")
    return host if mark else broker
