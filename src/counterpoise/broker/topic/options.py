"""The settings of topics in broker.conf."""

from dataclasses import dataclass

from counterpoise.broker.base.errors import BrokerError
from counterpoise.names.options import INT64_MAX, option
from counterpoise.names.topic import TopicName
from counterpoise.wire.errors import ServerError


@dataclass(frozen=True, slots=True)
class TopicOptions:
    """Settings of topics: limits of delivery and clients, expiry, quotas, deduplication."""

    max_unacked_per_consumer: int = option(
        50_000, "maxUnackedMessagesPerConsumer", "messages", low=0
    )
    """A Shared or Key_Shared consumer with this many unacknowledged messages gets no more until it
    has half as many; 0 is no limit."""
    max_unacked_per_subscription: int = option(
        200_000, "maxUnackedMessagesPerSubscription", "messages", low=0
    )
    """A subscription whose consumers together have this many unacknowledged messages delivers no
    more until they have half as many; 0 is no limit."""
    round_robin_messages: int = option(20, "dispatcherMaxRoundRobinBatchSize", "messages", low=1)
    """How many messages a Shared consumer gets in its turn."""
    look_ahead: int = option(
        20_000, "keySharedLookAheadMsgInReplayThresholdPerSubscription", "entries", low=1
    )
    """Entries of a Key_Shared subscription that may wait for consumers while others pass them."""
    loads_max: int = option(5000, "maxConcurrentTopicLoadRequest", "topics", low=1)
    """How many topics are loaded at once; the others wait for their turn."""
    failover_delay_ms: int = option(1000, "activeConsumerFailoverDelayTimeMillis", "ms", low=0)
    """How long a new active Failover consumer waits for the former one's acknowledgements."""
    failover_consistent_hashing: bool = option(False, "activeConsumerFailoverConsistentHashing")
    """Whether a partition's active Failover consumer falls on a ring by name, as that of a topic
    without partitions does, and not by the partition's number."""
    rate_window_s: int = option(5, "statsUpdateFrequencyInSecs", "s", low=1)
    """Over how long the rates of topics, producers and consumers are taken: between this and twice
    this (Pulsar's default is 60, and shows nothing for the first minute)."""
    max_producers: int = option(0, "maxProducersPerTopic", "producers", low=0)
    """How many producers a topic may have at once; 0 is no limit."""
    max_consumers: int = option(0, "maxConsumersPerTopic", "consumers", low=0)
    """How many consumers all subscriptions of a topic may have at once; 0 is no limit."""
    max_consumers_per_subscription: int = option(
        0, "maxConsumersPerSubscription", "consumers", low=0
    )
    """How many consumers a subscription may have at once; 0 is no limit."""
    ttl_s: int = option(0, "ttlDurationDefaultInSeconds", "s", low=0)
    """After how long a message counts as acknowledged; 0 is never."""
    expiry_check_minutes: int = option(5, "messageExpiryCheckIntervalInMinutes", "minutes", low=1)
    """How often messages expire that are older than their topic's messageTTL."""
    quota_checks: bool = option(True, "backlogQuotaCheckEnabled")
    """Whether backlogs are held to their quotas."""
    quota_check_s: int = option(60, "backlogQuotaCheckIntervalInSeconds", "s", low=1)
    """How often it is looked whether a backlog exceeds its quota."""
    quota_bytes: int = option(-1, "backlogQuotaDefaultLimitBytes", "bytes", low=-1, high=INT64_MAX)
    """How large a topic's backlog may be without a policy; 0 or less is no limit."""
    quota_policy: str = option(
        "producer_request_hold",
        "backlogQuotaDefaultRetentionPolicy",
        choices=("producer_request_hold", "producer_exception", "consumer_backlog_eviction"),
    )
    """What happens to a topic whose backlog is larger."""
    deduplicates: bool = option(False, "brokerDeduplicationEnabled")
    """Whether a topic stores once what a producer sends again, by its sequence id."""
    delays: bool = option(True, "delayedDeliveryEnabled")
    """Whether a message waits for the time that its producer asks for; else it goes at once."""
    delay_tick_ms: int = option(1000, "delayedDeliveryTickTimeMillis", "ms", low=0, high=INT64_MAX)
    """How much earlier it may be delivered than it asks for."""
    delay_is_strict: bool = option(False, "isDelayedDeliveryDeliverAtTimeStrict")
    """Whether it is never delivered earlier."""
    delay_max_ms: int = option(0, "delayedDeliveryMaxDelayInMillis", "ms", low=0, high=INT64_MAX)
    """How long a message may ask to wait, or it is refused; 0 is no limit."""
    retention_minutes: int = option(0, "defaultRetentionTimeInMinutes", "minutes", low=-1)
    """How long messages are kept that every subscription has acknowledged; -1 is for ever."""
    retention_megabytes: int = option(0, "defaultRetentionSizeInMB", "MB", low=-1)
    """How much is kept of the messages that every subscription has acknowledged; -1 is no limit."""
    retention_check_s: int = option(120, "retentionCheckIntervalInSeconds", "s", low=1)
    """How often ledgers are deleted whose retention has ended."""
    deletes_inactive: bool = option(True, "brokerDeleteInactiveTopicsEnabled", dynamic=True)
    """Whether a topic is deleted that no client has used for a while."""
    inactive_check_s: int = option(
        60, "brokerDeleteInactiveTopicsFrequencySeconds", "s", low=1, dynamic=True
    )
    """How often inactive topics are looked for."""
    inactive_s: int | None = option(
        None,
        "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds",
        "s",
        low=0,
        dynamic=True,
        kind=int,
        blank_is_none=True,
    )
    """How long a topic must be without a client to be inactive; by default as long as
    brokerDeleteInactiveTopicsFrequencySeconds."""
    inactive_mode: str = option(
        "delete_when_no_subscriptions",
        "brokerDeleteInactiveTopicsMode",
        choices=("delete_when_no_subscriptions", "delete_when_subscriptions_caught_up"),
        dynamic=True,
    )
    """Whether any subscription keeps a topic from being inactive, or only one with a backlog."""
    deletes_inactive_partitioned: bool = option(
        False, "brokerDeleteInactivePartitionedTopicMetadataEnabled"
    )
    """Whether a partitioned topic is deleted once its last partition is deleted as inactive."""
    subscription_minutes: int = option(0, "subscriptionExpirationTimeMinutes", "minutes", low=0)
    """After how long a subscription without a consumer is deleted; 0 is never."""
    subscription_check_minutes: int = option(
        5, "subscriptionExpiryCheckIntervalInMinutes", "minutes", low=0
    )
    """How often subscriptions without a consumer are looked for; 0 is never."""
    compaction_bytes: int = option(
        0, "brokerServiceCompactionThresholdInBytes", "bytes", low=0, high=INT64_MAX
    )
    """How many bytes a topic has to grow by to be compacted; 0: only on demand."""
    compaction_check_s: int = option(
        60, "brokerServiceCompactionMonitorIntervalInSeconds", "s", low=1
    )
    """How often topics are checked for the growth at which they are compacted."""
    keeps_keyless: bool = option(False, "topicCompactionRetainNullKey")
    """Whether compaction keeps messages that have no key."""
    dedup_entries: int = option(1000, "brokerDeduplicationEntriesInterval", "entries", low=1)
    """Entries between two saves of the sequence ids: what a recovery reads."""
    dedup_producers: int = option(
        10_000, "brokerDeduplicationMaxNumberOfProducers", "producers", low=1
    )
    """How many producers are remembered."""
    dedup_snapshot_s: int = option(120, "brokerDeduplicationSnapshotIntervalSeconds", "s", low=0)
    """After how long the ids are saved that have changed; 0: by the number of entries alone."""
    dedup_check_s: int = option(120, "brokerDeduplicationSnapshotFrequencyInSeconds", "s", low=0)
    """How often it is looked whether that has passed; 0 is never."""
    dedup_inactive_minutes: int = option(
        360, "brokerDeduplicationProducerInactivityTimeoutMinutes", "minutes", low=1
    )
    """After how long a producer that has left is forgotten."""
    batch_index_acks: bool = option(False, "acknowledgmentAtBatchIndexLevelEnabled")
    """Whether messages of a batch are acknowledged one by one: what is delivered again lacks those
    that were."""
    sums_by_producer_name: bool = option(False, "aggregatePublisherStatsByProducerName")
    """Whether the stats of a partitioned topic sum up producers by name, not by their order."""
    encryption_required: bool = option(False, "encryptionRequireOnProducer")
    """Whether every producer has to encrypt what it publishes."""
    max_subscriptions: int = option(0, "maxSubscriptionsPerTopic", "subscriptions", low=0)
    """How many subscriptions a topic may have; 0 is no limit."""
    own_policies: bool = option(True, "topicLevelPoliciesEnabled")
    """Whether a topic may be given policies of its own."""
    types: tuple[str, ...] = option(
        ("Exclusive", "Shared", "Failover", "Key_Shared"), "subscriptionTypesEnabled", dynamic=True
    )
    """The types of subscription that consumers may ask for."""
    creates_subscriptions: bool = option(True, "allowAutoSubscriptionCreation", dynamic=True)
    """Whether a consumer creates a durable subscription that is not there."""
    strict_names: bool = option(False, "strictlyVerifySubscriptionName", dynamic=True)
    """Whether consumers create subscriptions only with names of letters, digits and ``-=:._``."""
    key_shared: bool = option(True, "subscriptionKeySharedEnable")
    """Whether consumers may ask for Key_Shared, whatever the policies say."""
    key_shared_ring: bool = option(True, "subscriptionKeySharedUseConsistentHashing")
    """Whether Key_Shared consumers share the keys by points on a ring, so that a newcomer takes a
    little of everyone's, or by halving the largest share."""
    saved_ranges: int = option(10_000, "managedLedgerMaxUnackedRangesToPersist", "ranges", low=1)
    """How many stretches of acknowledged entries are saved while a topic is served: what a crash
    may make consumers see again, and what a save costs. A topic that leaves in order saves them
    all."""
    persistent_topics: bool = option(True, "enablePersistentTopics")
    """Whether this broker serves persistent topics."""
    non_persistent_topics: bool = option(True, "enableNonPersistentTopics")
    """Whether this broker serves non-persistent topics."""

    def check_served(self, topic: TopicName) -> None:
        """Raise `BrokerError` if this broker serves no topics of this one's domain."""
        if not (self.persistent_topics if topic.is_persistent else self.non_persistent_topics):
            why = f"Broker is unable to load {topic.domain} topic"
            raise BrokerError(ServerError.NotAllowedError, why)
