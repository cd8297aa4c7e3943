"""The topics by which brokers under the extensible load manager talk to each other (PIP-192)."""

from typing import Final

SERVICE_UNIT_STATE: Final = "persistent://pulsar/system/loadbalancer-service-unit-state"
"""The records of all bundles."""
BROKER_LOAD_DATA: Final = "non-persistent://pulsar/system/loadbalancer-broker-load-data"
TOP_BUNDLES_LOAD_DATA: Final = "non-persistent://pulsar/system/loadbalancer-top-bundles-load-data"
SYSTEM_TOPICS: Final = frozenset({SERVICE_UNIT_STATE, BROKER_LOAD_DATA, TOP_BUNDLES_LOAD_DATA})
"""With a topic as state store the leader serves these, whichever broker owns their bundle."""
