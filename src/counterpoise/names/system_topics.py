"""Names of Pulsar's system topics, and which topics are omitted from lists of topics."""

from typing import Final

from counterpoise.names.topic import TopicName

SERVICE_UNIT_STATE: Final = "persistent://pulsar/system/loadbalancer-service-unit-state"
"""The state channel's topic (PIP-192): a ``ServiceUnitStateData`` record for each bundle."""
BROKER_LOAD_DATA: Final = "non-persistent://pulsar/system/loadbalancer-broker-load-data"
TOP_BUNDLES_LOAD_DATA: Final = "non-persistent://pulsar/system/loadbalancer-top-bundles-load-data"
SYSTEM_TOPICS: Final = frozenset({SERVICE_UNIT_STATE, BROKER_LOAD_DATA, TOP_BUNDLES_LOAD_DATA})
"""The topics of the extensible load manager.

If the state channel is a topic, the leader serves them, whichever broker owns their bundle."""

_EVENT_TOPICS: Final = frozenset(
    {
        "__change_events",
        "__transaction_buffer_snapshot",
        "__transaction_buffer_snapshot_indexes",
        "__transaction_buffer_snapshot_segments",
    }
)
TRANSACTION_COORDINATORS: Final = "persistent://pulsar/system/transaction_coordinator_assign"
"""A partitioned topic: the owner of its partition n runs transaction coordinator n."""
_TRANSACTIONS: Final = (TRANSACTION_COORDINATORS, "persistent://pulsar/system/__transaction_log_")


def is_used_by_brokers(topic: TopicName) -> bool:
    """Whether a topic is a system topic, or one of the extensible load manager's."""
    return is_system_topic(topic) or str(topic) in SYSTEM_TOPICS


def is_system_topic(topic: TopicName) -> bool:
    """Whether a topic is one of Pulsar's own (``SystemTopicNames``), left out of topic lists."""
    if "_" not in topic.local_name:
        return False
    name = topic.partitioned_name
    return (
        name.local_name in _EVENT_TOPICS
        or str(name).startswith(_TRANSACTIONS)
        or is_pending_ack_log(name)
    )


def is_pending_ack_log(topic: TopicName) -> bool:
    """Whether a topic, by its name, is a log of a subscription's pending acknowledgements.

    In it Pulsar stores what open transactions have acknowledged.
    """
    return topic.partitioned_name.local_name.endswith("__transaction_pending_ack")
