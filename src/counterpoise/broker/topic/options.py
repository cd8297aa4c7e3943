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
    loads_max: int = option(5000, "maxConcurrentTopicLoadRequest", "topics", low=1, dynamic=True)
    """How many topics are loaded at the same time; the others wait for their turn."""
    failover_delay_ms: int = option(1000, "activeConsumerFailoverDelayTimeMillis", "ms", low=0)
    """How long a new active Failover consumer waits for the former one's acknowledgements."""
    failover_consistent_hashing: bool = option(False, "activeConsumerFailoverConsistentHashing")
    """Whether a partition's active Failover consumer is chosen by consistent hashing of names, as
    on a topic without partitions; if false, by the partition's number."""
    rate_window_s: int = option(5, "statsUpdateFrequencyInSecs", "s", low=1)
    """The window of the rates of topics, producers and consumers, which are averages over one to
    two windows (Pulsar's default is 60, and shows nothing for the first minute)."""
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
    """Whether backlog quotas are enforced."""
    quota_check_s: int = option(60, "backlogQuotaCheckIntervalInSeconds", "s", low=1)
    """How often backlogs are checked against their quotas."""
    quota_bytes: int = option(-1, "backlogQuotaDefaultLimitBytes", "bytes", low=-1, high=INT64_MAX)
    """How large a topic's backlog may be without a policy; 0 or less is no limit."""
    quota_policy: str = option(
        "producer_request_hold",
        "backlogQuotaDefaultRetentionPolicy",
        choices=("producer_request_hold", "producer_exception", "consumer_backlog_eviction"),
    )
    """What happens if a topic's backlog exceeds backlogQuotaDefaultLimitBytes."""
    deduplicates: bool = option(False, "brokerDeduplicationEnabled")
    """Whether a topic stores a message only once that its producer sends again, by its sequence
    id."""
    delays: bool = option(True, "delayedDeliveryEnabled")
    """Whether a message is delivered at the time that its producer asked for; if false, at once."""
    delay_tick_ms: int = option(1000, "delayedDeliveryTickTimeMillis", "ms", low=0, high=INT64_MAX)
    """How many milliseconds before its time a delayed message may be delivered at the earliest."""
    delay_is_strict: bool = option(False, "isDelayedDeliveryDeliverAtTimeStrict")
    """Whether a delayed message is never delivered earlier than its producer asked for."""
    delay_max_ms: int = option(0, "delayedDeliveryMaxDelayInMillis", "ms", low=0, high=INT64_MAX)
    """The longest delay; a message that asks for more is refused; 0 is no limit."""
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
        False, "brokerDeleteInactivePartitionedTopicMetadataEnabled", dynamic=True
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
    """How many entries are stored between two saves of the sequence ids; a recovery reads them."""
    dedup_producers: int = option(
        10_000, "brokerDeduplicationMaxNumberOfProducers", "producers", low=1
    )
    """How many producers' sequence ids a topic keeps."""
    dedup_snapshot_s: int = option(120, "brokerDeduplicationSnapshotIntervalSeconds", "s", low=0)
    """After how long changed sequence ids are saved, however few; 0: by the number of entries
    alone."""
    dedup_check_s: int = option(120, "brokerDeduplicationSnapshotFrequencyInSeconds", "s", low=0)
    """How often topics are checked for sequence ids to save by time; 0 is never."""
    dedup_inactive_minutes: int = option(
        360, "brokerDeduplicationProducerInactivityTimeoutMinutes", "minutes", low=1
    )
    """After how long the sequence id of a producer that has left is forgotten."""
    batch_index_acks: bool = option(False, "acknowledgmentAtBatchIndexLevelEnabled")
    """Whether messages of a batch are acknowledged one by one: a batch that is redelivered then
    lacks those that were."""
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
    """Whether a consumer creates a durable subscription that does not exist."""
    strict_names: bool = option(False, "strictlyVerifySubscriptionName", dynamic=True)
    """Whether consumers create subscriptions only with names of letters, digits and ``-=:._``."""
    key_shared: bool = option(True, "subscriptionKeySharedEnable")
    """Whether consumers may ask for Key_Shared; if false, not even where policies allow it."""
    key_shared_ring: bool = option(True, "subscriptionKeySharedUseConsistentHashing")
    """Whether keys are distributed to Key_Shared consumers by consistent hashing, so that a new
    consumer takes some from each; if false, it takes half of the largest share."""
    saved_ranges: int = option(10_000, "managedLedgerMaxUnackedRangesToPersist", "ranges", low=1)
    """How many ranges of entries that are acknowledged out of order a cursor saves while its topic
    is served. A save costs more with more of them; those that are not saved are redelivered after a
    crash. A topic that is closed in order saves all of them."""
    persistent_topics: bool = option(True, "enablePersistentTopics")
    """Whether this broker serves persistent topics."""
    non_persistent_topics: bool = option(True, "enableNonPersistentTopics")
    """Whether this broker serves non-persistent topics."""

    def check_served(self, topic: TopicName) -> None:
        """Raise `BrokerError` if this broker serves no topics of this one's domain."""
        if not (self.persistent_topics if topic.is_persistent else self.non_persistent_topics):
            why = f"Broker is unable to load {topic.domain} topic"
            raise BrokerError(ServerError.NotAllowedError, why)
