"""The policies that follow from a broker's settings, each from its own one."""

import pytest

from counterpoise.admin.applied import applied_by_broker
from counterpoise.broker.config import BrokerConfig
from counterpoise.names.options import from_conf

SETTINGS = {
    "dispatchThrottlingRatePerTopicInMsg": "11",
    "dispatchThrottlingRatePerTopicInByte": "12",
    "dispatchThrottlingRatePerSubscriptionInMsg": "13",
    "dispatchThrottlingRatePerSubscriptionInByte": "14",
    "subscribeThrottlingRatePerConsumer": "15",
    "subscribeRatePeriodPerConsumerInSecond": "16",
    "ttlDurationDefaultInSeconds": "17",
    "brokerDeduplicationEnabled": "true",
    "brokerDeduplicationSnapshotIntervalSeconds": "18",
    "maxProducersPerTopic": "19",
    "maxConsumersPerTopic": "20",
    "maxConsumersPerSubscription": "21",
    "maxUnackedMessagesPerConsumer": "22",
    "maxUnackedMessagesPerSubscription": "23",
    "maxSubscriptionsPerTopic": "24",
    "managedLedgerDefaultEnsembleSize": "28",
    "managedLedgerDefaultWriteQuorum": "27",
    "managedLedgerDefaultAckQuorum": "26",
    "managedLedgerDefaultMarkDeleteRateLimit": "29.0",
    "brokerServiceCompactionThresholdInBytes": "25",
    "defaultRetentionTimeInMinutes": "26",
    "defaultRetentionSizeInMB": "27",
    "delayedDeliveryEnabled": "false",
    "delayedDeliveryTickTimeMillis": "28",
    "delayedDeliveryMaxDelayInMillis": "29",
    "brokerDeleteInactiveTopicsEnabled": "false",
    "brokerDeleteInactiveTopicsMode": "delete_when_subscriptions_caught_up",
    "brokerDeleteInactiveTopicsFrequencySeconds": "30",
    "subscriptionTypesEnabled": "Shared,Failover",
    "allowAutoSubscriptionCreation": "false",
}
CONFIG = from_conf(BrokerConfig, SETTINGS)
INACTIVE = {
    "inactiveTopicDeleteMode": "delete_when_subscriptions_caught_up",
    "maxInactiveDurationSeconds": 30,
    "deleteWhileInactive": False,
}
UNLIMITED = {"limit": -1, "limitSize": -1, "limitTime": -1, "policy": "producer_request_hold"}


def rate(messages: int, size: int) -> dict[str, object]:
    return {
        "dispatchThrottlingRateInMsg": messages,
        "dispatchThrottlingRateInByte": size,
        "relativeToPublishRate": False,
        "ratePeriodInSecond": 1,
    }


@pytest.mark.parametrize(
    ("policy", "value"),
    [
        ("dispatchRate", rate(11, 12)),
        ("subscriptionDispatchRate", rate(13, 14)),
        ("replicatorDispatchRate", rate(0, 0)),
        ("subscribeRate", {"subscribeThrottlingRatePerConsumer": 15, "ratePeriodInSecond": 16}),
        ("messageTTLInSeconds", 17),
        ("deduplicationEnabled", True),
        ("deduplicationSnapshotIntervalSeconds", 18),
        ("maxProducerPerTopic", 19),
        ("maxConsumerPerTopic", 20),
        ("maxConsumersPerSubscription", 21),
        ("maxUnackedMessagesOnConsumer", 22),
        ("maxUnackedMessagesOnSubscription", 23),
        ("maxSubscriptionsPerTopic", 24),
        ("compactionThreshold", 25),
        (
            "persistence",
            {
                "bookkeeperEnsemble": 28,
                "bookkeeperWriteQuorum": 27,
                "bookkeeperAckQuorum": 26,
                "managedLedgerMaxMarkDeleteRate": 29.0,
            },
        ),
        ("retentionPolicies", {"retentionTimeInMinutes": 26, "retentionSizeInMB": 27}),
        (
            "delayedDeliveryPolicies",
            {"active": False, "tickTime": 28, "maxDeliveryDelayInMillis": 29},
        ),
        ("inactiveTopicPolicies", INACTIVE),
        ("subscriptionTypesEnabled", ["Shared", "Failover"]),
        ("autoSubscriptionCreationOverride", {"allowAutoSubscriptionCreation": False}),
        ("entryFilters", {"entryFilterNames": ""}),
        ("backLogQuotaMap", {"destination_storage": UNLIMITED, "message_age": UNLIMITED}),
        ("publishRate", None),
    ],
)
def test_a_policy_follows_from_its_own_setting(policy: str, value: object) -> None:
    assert applied_by_broker(CONFIG, policy) == value


def test_a_topic_may_be_inactive_for_longer_than_brokers_look() -> None:
    more = {
        "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds": "31",
        "dispatchThrottlingRateRelativeToPublishRate": "true",
    }
    config = from_conf(BrokerConfig, SETTINGS | more)
    found = applied_by_broker(config, "inactiveTopicPolicies")
    assert found == INACTIVE | {"maxInactiveDurationSeconds": 31}
    for name, relative in (
        ("dispatchRate", True),
        ("subscriptionDispatchRate", True),
        ("replicatorDispatchRate", False),
    ):
        assert applied_by_broker(config, name)["relativeToPublishRate"] is relative
