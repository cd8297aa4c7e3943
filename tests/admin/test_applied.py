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
    "brokerServiceCompactionThresholdInBytes": "25",
    "defaultRetentionTimeInMinutes": "26",
    "defaultRetentionSizeInMB": "27",
}
CONFIG = from_conf(BrokerConfig, SETTINGS)


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
        (
            "subscribeRate",
            {"subscribeThrottlingRatePerConsumer": 15, "ratePeriodInSecond": 16},
        ),
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
        ("retentionPolicies", {"retentionTimeInMinutes": 26, "retentionSizeInMB": 27}),
    ],
)
def test_a_policy_follows_from_its_own_setting(policy: str, value: object) -> None:
    assert applied_by_broker(CONFIG, policy) == value
