"""The facts about a broker that filters read besides its load."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """What filters know of one broker: load manager, version, topic kinds and topic counts."""

    load_manager_class: str | None = None
    version: str | None = None
    persistent_topics: bool = True
    non_persistent_topics: bool = True
    topics: int = 0
    """Topics it serves by its last report."""
    preallocated_topics: int = 0
    """Topics of bundles assigned to it since (modular only)."""


UNKNOWN = BrokerFacts()
"""What is assumed of a broker that has not sent its load yet."""


def broker_host(broker: str) -> str:
    """The host of a broker id, which isolation policies match: the part before the last colon."""
    host, mark, _ = broker.rpartition(":")
    return host if mark else broker
