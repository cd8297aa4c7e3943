"""What topics read from broker.conf."""

from __future__ import annotations

from dataclasses import dataclass

from counterpoise.names.options import INT64_MAX, option


@dataclass(frozen=True, slots=True)
class TopicOptions:
    """Limits of delivery, under Pulsar's own names and with its defaults."""

    max_unacked_per_consumer: int = option(
        50_000,
        conf="maxUnackedMessagesPerConsumer",
        unit="messages",
        low=0,
        why="a Shared or Key_Shared consumer that holds this many unacknowledged gets no more "
        "until it holds half as many; 0 is no limit",
    )
    max_unacked_per_subscription: int = option(
        200_000,
        conf="maxUnackedMessagesPerSubscription",
        unit="messages",
        low=0,
        why="the same for all consumers of a subscription together; 0 is no limit",
    )
    round_robin_messages: int = option(
        20,
        conf="dispatcherMaxRoundRobinBatchSize",
        unit="messages",
        low=1,
        why="how many messages a Shared consumer gets in its turn",
    )
    look_ahead: int = option(
        20_000,
        conf="keySharedLookAheadMsgInReplayThresholdPerSubscription",
        unit="entries",
        low=1,
        why="how many entries of a Key_Shared subscription may wait for their consumer while "
        "others pass them",
    )
    loads_max: int = option(
        5000,
        conf="maxConcurrentTopicLoadRequest",
        unit="topics",
        low=1,
        why="how many topics are loaded at once; the others wait for their turn",
    )
    failover_delay_ms: int = option(
        1000,
        conf="activeConsumerFailoverDelayTimeMillis",
        unit="ms",
        low=0,
        why="how long a new active Failover consumer waits for the acknowledgements of one that "
        "is still there",
    )
    failover_consistent_hashing: bool = option(
        False,
        conf="activeConsumerFailoverConsistentHashing",
        why="whether a partition's active Failover consumer falls on a ring by name, as that of a "
        "topic without partitions does, and not by the partition's number",
    )
    rate_window_s: int = option(
        5,
        conf="statsUpdateFrequencyInSecs",
        unit="s",
        low=1,
        why="over how long the rates of topics, producers and consumers are taken: between this "
        "and twice this (Pulsar's default is 60, and shows nothing for the first minute)",
    )
    max_producers: int = option(
        0,
        conf="maxProducersPerTopic",
        unit="producers",
        low=0,
        why="how many producers a topic may have at once; 0 is no limit",
    )
    max_consumers: int = option(
        0,
        conf="maxConsumersPerTopic",
        unit="consumers",
        low=0,
        why="how many consumers all subscriptions of a topic may have at once; 0 is no limit",
    )
    max_consumers_per_subscription: int = option(
        0,
        conf="maxConsumersPerSubscription",
        unit="consumers",
        low=0,
        why="how many consumers a subscription may have at once; 0 is no limit",
    )
    ttl_s: int = option(
        0,
        conf="ttlDurationDefaultInSeconds",
        unit="s",
        low=0,
        why="after how long a message counts as acknowledged; 0 is never",
    )
    expiry_check_minutes: int = option(
        5,
        conf="messageExpiryCheckIntervalInMinutes",
        unit="minutes",
        low=1,
        why="how often messages expire that are older than their topic's messageTTL",
    )
    quota_checks: bool = option(
        True,
        conf="backlogQuotaCheckEnabled",
        why="whether backlogs are held to their quotas",
    )
    quota_check_s: int = option(
        60,
        conf="backlogQuotaCheckIntervalInSeconds",
        unit="s",
        low=1,
        why="how often it is looked whether a backlog exceeds its quota",
    )
    quota_bytes: int = option(
        -1,
        conf="backlogQuotaDefaultLimitBytes",
        unit="bytes",
        low=-1,
        high=INT64_MAX,
        why="how large a topic's backlog may be without a policy; 0 or less is no limit",
    )
    quota_policy: str = option(
        "producer_request_hold",
        conf="backlogQuotaDefaultRetentionPolicy",
        choices=("producer_request_hold", "producer_exception", "consumer_backlog_eviction"),
        why="what happens to a topic whose backlog is larger",
    )
    deduplicates: bool = option(
        False,
        conf="brokerDeduplicationEnabled",
        why="whether a topic stores once what a producer sends again, by its sequence id",
    )
    batch_index_acks: bool = option(
        False,
        conf="acknowledgmentAtBatchIndexLevelEnabled",
        why="whether messages of a batch are acknowledged one by one: what is delivered again "
        "lacks those that were",
    )
    encryption_required: bool = option(
        False,
        conf="encryptionRequireOnProducer",
        why="whether every producer has to encrypt what it publishes",
    )
    max_subscriptions: int = option(
        0,
        conf="maxSubscriptionsPerTopic",
        unit="subscriptions",
        low=0,
        why="how many subscriptions a topic may have; 0 is no limit",
    )
    types: tuple[str, ...] = option(
        ("Exclusive", "Shared", "Failover", "Key_Shared"),
        conf="subscriptionTypesEnabled",
        dynamic=True,
        why="the types of subscription that consumers may ask for",
    )
    creates_subscriptions: bool = option(
        True,
        conf="allowAutoSubscriptionCreation",
        dynamic=True,
        why="whether a consumer creates a durable subscription that is not there",
    )
    key_shared_ring: bool = option(
        True,
        conf="subscriptionKeySharedUseConsistentHashing",
        why="whether Key_Shared consumers share the keys by points on a ring, so that a newcomer "
        "takes a little of everyone's, or by halving the largest share",
    )
    saved_ranges: int = option(
        10_000,
        conf="managedLedgerMaxUnackedRangesToPersist",
        unit="ranges",
        low=1,
        why="how many stretches of acknowledged entries are saved while a topic is served: what a "
        "crash may make consumers see again, and what a save costs. A topic that leaves in order "
        "saves them all",
    )
