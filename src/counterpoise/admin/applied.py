"""Policies as the broker's settings give them, where no topic or namespace sets any."""

from operator import attrgetter

from counterpoise.admin.shapes import Json
from counterpoise.broker.face import BrokerConfig

_NO_QUOTA = {"limit": -1, "limitSize": -1, "limitTime": -1, "policy": "producer_request_hold"}
_NEVER_READ: dict[str, Json] = {
    "entryFilters": {"entryFilterNames": ""},
    "backLogQuotaMap": dict.fromkeys(("destination_storage", "message_age"), _NO_QUOTA),
}
"""Pulsar's defaults of settings that no broker here reads, for tools that show them."""


_SETTINGS = {
    "maxProducerPerTopic": "topics.max_producers",
    "maxConsumerPerTopic": "topics.max_consumers",
    "maxConsumersPerSubscription": "topics.max_consumers_per_subscription",
    "maxUnackedMessagesOnConsumer": "topics.max_unacked_per_consumer",
    "maxUnackedMessagesOnSubscription": "topics.max_unacked_per_subscription",
    "maxSubscriptionsPerTopic": "topics.max_subscriptions",
    "messageTTLInSeconds": "topics.ttl_s",
    "deduplicationEnabled": "topics.deduplicates",
    "deduplicationSnapshotIntervalSeconds": "topics.dedup_snapshot_s",
    "compactionThreshold": "topics.compaction_bytes",
}
"""By policy: the attribute of the broker's settings that applies if the policy is not set."""


def applied_by_broker(config: BrokerConfig, name: str) -> Json:
    """The value that the broker's settings give a policy, in the policy's JSON shape.

    None if no setting corresponds to the policy.
    """
    topics, rates = config.topics, config.rates
    match name:
        case "dispatchRate":
            return _dispatch(
                rates.topic_dispatch_messages, rates.topic_dispatch_bytes, rates.dispatch_relative
            )
        case "subscriptionDispatchRate":
            return _dispatch(
                rates.subscription_dispatch_messages,
                rates.subscription_dispatch_bytes,
                rates.dispatch_relative,
            )
        case "replicatorDispatchRate":
            return _dispatch(0, 0, relative=False)
        case "subscribeRate":
            return {
                "subscribeThrottlingRatePerConsumer": rates.subscribes,
                "ratePeriodInSecond": rates.subscribe_period_s,
            }
        case "delayedDeliveryPolicies":
            return {
                "active": topics.delays,
                "tickTime": topics.delay_tick_ms,
                "maxDeliveryDelayInMillis": topics.delay_max_ms,
            }
        case "persistence":
            managed = config.storage.managed
            return {
                "bookkeeperEnsemble": managed.ensemble,
                "bookkeeperWriteQuorum": managed.write_quorum,
                "bookkeeperAckQuorum": managed.ack_quorum,
                "managedLedgerMaxMarkDeleteRate": managed.mark_deletes_per_s,
            }
        case "retentionPolicies":
            return {
                "retentionTimeInMinutes": topics.retention_minutes,
                "retentionSizeInMB": topics.retention_megabytes,
            }
        case "inactiveTopicPolicies":
            after = topics.inactive_s
            return {
                "inactiveTopicDeleteMode": topics.inactive_mode,
                "maxInactiveDurationSeconds": topics.inactive_check_s if after is None else after,
                "deleteWhileInactive": topics.deletes_inactive,
            }
        case "subscriptionTypesEnabled":
            return list(topics.types)
        case "autoSubscriptionCreationOverride":
            return {"allowAutoSubscriptionCreation": topics.creates_subscriptions}
        case _ if name in _SETTINGS:
            return attrgetter(_SETTINGS[name])(config)
        case _:
            return _NEVER_READ.get(name)


def _dispatch(messages: int, size: int, relative: bool) -> Json:
    return {
        "dispatchThrottlingRateInMsg": messages,
        "dispatchThrottlingRateInByte": size,
        "relativeToPublishRate": relative,
        "ratePeriodInSecond": 1,
    }
