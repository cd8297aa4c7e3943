"""What a topic's policies, and the broker's settings, allow its clients."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic import retention
from counterpoise.broker.topic.backlog_quota import BacklogQuota, quotas_of
from counterpoise.broker.topic.options import TopicOptions
from counterpoise.names.errors import InvalidName
from counterpoise.names.namespace import check_entity
from counterpoise.names.system_topics import is_system_topic
from counterpoise.names.topic import TopicName
from counterpoise.storage.port import Persistence, Quorums
from counterpoise.wire.entry import delay_ms
from counterpoise.wire.errors import ServerError
from counterpoise.wire.values import SubscriptionType


@dataclass(frozen=True, slots=True)
class TopicRules:
    """The limits and rules that apply to one topic; 0 is no limit."""

    producers: int = 0
    consumers: int = 0
    consumers_of_subscription: int = 0
    unacked_of_consumer: int = 0
    unacked_of_subscription: int = 0
    subscriptions: int = 0
    message_bytes: int = 0
    encryption_required: bool = False
    types: frozenset[str] = frozenset()
    """The types of subscription that are enabled; all, if it is empty."""
    key_shared: bool = True
    """Whether the broker's settings allow Key_Shared subscriptions."""
    creates_subscriptions: bool = True
    """Whether a consumer may create its durable subscription."""
    ttl_s: int = 0
    """After how long a message counts as acknowledged; 0 is never."""
    quotas: tuple[BacklogQuota, ...] = ()
    """How large, and how old, the backlog may be."""
    deduplicates: bool = False
    """Whether a message that its producer sends again is stored once."""
    dedup_snapshot_s: int = 0
    """After how long producers' sequence ids are saved, if they have changed."""
    compaction_bytes: int = 0
    """By how many bytes the topic has to grow to be compacted; 0: only on demand."""
    delays: bool = True
    """Whether delayed messages wait for their time (Shared and Key_Shared), or are sent at once."""
    early_ms: int = 0
    """How much before their time delayed messages may be delivered."""
    delay_max_ms: int = 0
    """The longest delay that a message may ask for."""
    lifetime: retention.TopicLifetime = retention.UNUSED_KEPT
    """How long the topic, its messages and its subscriptions are kept while they are not used."""
    persistence: Persistence | None = None
    """The quorums of its ledgers on bookies; None: those of broker.conf."""
    strict_names: bool = False
    """Whether consumers create subscriptions only with names of letters, digits and ``-=:._``."""

    def admit_producer(self, topic: TopicName, attached: int, *, encrypted: bool) -> None:
        """Raise `BrokerError` if one more producer is not allowed."""
        if self.encryption_required and not encrypted:
            raise BrokerError(
                ServerError.MetadataError,
                f"Encryption is required in {topic} (encryptionRequired): "
                "give the producer an encryption key",
            )
        if 0 < self.producers <= attached:
            raise BrokerError(
                ServerError.ProducerBusy,
                f"Topic reached max producers limit: {self.producers} (maxProducersPerTopic)",
            )

    def refuse(self, topic: TopicName, entry: bytes, *, is_chunk: bool) -> BrokerError | None:
        """Return the error for an entry that may not be stored; None if it may.

        As in Pulsar, a chunk of a larger message may have any size.
        """
        size = len(entry)
        if not is_chunk and 0 < self.message_bytes < size:
            return BrokerError(
                ServerError.NotAllowedError,
                f"Exceed maximum message size: {size} bytes, at most {self.message_bytes} "
                f"(maxMessageSize of {topic})",
            )
        if self.delays and topic.is_persistent and 0 < self.delay_max_ms < delay_ms(entry):
            return BrokerError(
                ServerError.NotAllowedError,
                f"Exceeds max allowed delivery delay of {self.delay_max_ms} milliseconds",
            )
        return None

    def admit_consumer(self, on_topic: int, on_subscription: int) -> None:
        """Raise `BrokerError` (ConsumerBusy) if one more consumer is not allowed."""
        if 0 < self.consumers <= on_topic:
            raise BrokerError(
                ServerError.ConsumerBusy,
                f"Topic reached max consumers limit: {self.consumers} (maxConsumersPerTopic)",
            )
        if 0 < self.consumers_of_subscription <= on_subscription:
            raise BrokerError(
                ServerError.ConsumerBusy,
                "Subscription reached max consumers limit: "
                f"{self.consumers_of_subscription} (maxConsumersPerSubscription)",
            )

    def admit_type(self, topic: TopicName, kind: SubscriptionType) -> None:
        """Raise `BrokerError` (NotAllowedError) if the subscription type is not enabled."""
        if kind is SubscriptionType.Key_Shared and not self.key_shared:
            raise BrokerError(
                ServerError.NotAllowedError,
                "Key_Shared subscription is disabled by broker. (subscriptionKeySharedEnable)",
            )
        if self.types and kind.name not in self.types:
            raise BrokerError(
                ServerError.NotAllowedError,
                f"Topic[{topic}] doesn't support {kind.name} sub type! "
                f"(subscriptionTypesEnabled: {', '.join(sorted(self.types))})",
            )

    def admit_created_by_consumer(self, topic: TopicName, name: str) -> None:
        """Raise `BrokerError` if a consumer may not create a durable subscription."""
        if not self.creates_subscriptions:
            raise BrokerError(
                ServerError.SubscriptionNotFound,
                f"Subscription does not exist: {name} of {topic}, and consumers may not create it "
                "(allowAutoSubscriptionCreation)",
            )

    def admit_name(self, name: str) -> None:
        """Raise `BrokerError` if no subscription of this name may be created."""
        if self.strict_names:
            try:
                check_entity(name, "subscription's name", name)
            except InvalidName:
                why = (
                    "Please let the subscription only contains '/w(a-zA-Z_0-9)' or '_', "
                    f"the current value is {name}"
                )
                # The code of Pulsar's NamingException.
                raise BrokerError(ServerError.ProducerBusy, why) from None

    def admit_subscription(self, topic: TopicName, present: int) -> None:
        """Raise `BrokerError` (NotAllowedError) if one more subscription is not allowed."""
        if 0 < self.subscriptions <= present and not is_system_topic(topic):
            raise BrokerError(
                ServerError.NotAllowedError,
                f"Exceed the maximum number of subscriptions of the topic: {topic} "
                f"(maxSubscriptionsPerTopic: {self.subscriptions})",
            )


def rules_of(policies: Mapping[str, Any] | None, options: TopicOptions) -> TopicRules:
    """A topic's rules: from its ``applied_policies``, or from broker.conf where they are unset."""
    found = policies or {}

    def limit(name: str, default: int = 0) -> int:
        value = found.get(name)
        return value if isinstance(value, int) and value >= 0 else default

    deduplicates = found.get("deduplicationEnabled")
    types, creation = (
        found.get("subscriptionTypesEnabled"),
        found.get("autoSubscriptionCreationOverride"),
    )
    delay = found.get("delayedDeliveryPolicies")
    delay = delay if isinstance(delay, Mapping) else {}
    return TopicRules(
        limit("maxProducerPerTopic", options.max_producers),
        limit("maxConsumerPerTopic", options.max_consumers),
        limit("maxConsumersPerSubscription", options.max_consumers_per_subscription),
        limit("maxUnackedMessagesOnConsumer", options.max_unacked_per_consumer),
        limit("maxUnackedMessagesOnSubscription", options.max_unacked_per_subscription),
        limit("maxSubscriptionsPerTopic", options.max_subscriptions),
        limit("maxMessageSize"),
        options.encryption_required or found.get("encryption_required") is True,
        frozenset(map(str, types) if isinstance(types, list) and types else options.types),
        options.key_shared,
        creation.get("allowAutoSubscriptionCreation") is True
        if isinstance(creation, Mapping)
        else options.creates_subscriptions,
        limit("messageTTLInSeconds", options.ttl_s),
        quotas_of(found, BacklogQuota(options.quota_bytes, options.quota_policy)),
        bool(options.deduplicates if deduplicates is None else deduplicates),
        dedup_snapshot_s=limit("deduplicationSnapshotIntervalSeconds", options.dedup_snapshot_s),
        compaction_bytes=limit("compactionThreshold", options.compaction_bytes),
        delays=options.delays if delay.get("active") is None else delay["active"] is True,
        early_ms=0
        if options.delay_is_strict
        else int(delay.get("tickTime", options.delay_tick_ms)),
        delay_max_ms=int(delay.get("maxDeliveryDelayInMillis") or options.delay_max_ms),
        lifetime=retention.TopicLifetime(
            retention.retention_of(
                found, retention.Retention(options.retention_minutes, options.retention_megabytes)
            ),
            retention.inactivity_of(found, _inactivity(options)),
            limit("subscription_expiration_time_minutes", options.subscription_minutes),
        ),
        persistence=persistence_of(found),
        strict_names=options.strict_names,
    )


def persistence_of(policies: Mapping[str, Any] | None) -> Persistence | None:
    """The policy ``persistence``; None if it is unset, or has quorums that no ledger can have."""
    match (policies or {}).get("persistence"):
        case {
            "bookkeeperEnsemble": int(ensemble),
            "bookkeeperWriteQuorum": int(write),
            "bookkeeperAckQuorum": int(ack),
            **more,
        }:
            try:
                quorums = Quorums(ensemble, write, ack)
            except ValueError:
                return None
            rate = more.get("managedLedgerMaxMarkDeleteRate")
            per_s = max(0.0, rate) if isinstance(rate, int | float) else 0.0
            return Persistence(quorums, per_s)
    return None


def _inactivity(options: TopicOptions) -> retention.Inactivity:
    after = options.inactive_check_s if options.inactive_s is None else options.inactive_s
    return retention.Inactivity(options.deletes_inactive, options.inactive_mode, after)
