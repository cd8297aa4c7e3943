"""The rate limits that broker.conf and the dynamic configuration set."""

from dataclasses import dataclass

from counterpoise.names.options import INT64_MAX, option


@dataclass(frozen=True, slots=True)
class RateOptions:
    """The settings of rate limits; policies of namespaces and topics override them."""

    broker_publish_messages: int = option(
        0, "brokerPublisherThrottlingMaxMessageRate", "messages/s", dynamic=True
    )
    """Messages/s published to one broker, all topics together; 0 means no limit."""
    broker_publish_bytes: int = option(
        0, "brokerPublisherThrottlingMaxByteRate", "bytes/s", high=INT64_MAX, dynamic=True
    )
    """Bytes/s published to one broker, all topics together; 0 means no limit."""
    topic_publish_messages: int = option(
        0, "maxPublishRatePerTopicInMessages", "messages/s", dynamic=True
    )
    """Messages/s published to a topic, unless a policy sets its rate; 0 means no limit."""
    topic_publish_bytes: int = option(
        0, "maxPublishRatePerTopicInBytes", "bytes/s", high=INT64_MAX, dynamic=True
    )
    """Bytes/s published to a topic, unless a policy sets its rate; 0 means no limit."""
    share_interval_s: int = option(
        2, "resourceUsageTransportPublishIntervalInSecs", "s", low=1, dynamic=True
    )
    """How often brokers report to each other what they use of resource groups, from which each
    broker's share follows (Pulsar's default is 60, and by default it reports nothing)."""
    broker_dispatch_messages: int = option(
        0, "dispatchThrottlingRateInMsg", "messages/s", dynamic=True
    )
    """Messages/s delivered by one broker; 0 means no limit."""
    broker_dispatch_bytes: int = option(
        0, "dispatchThrottlingRateInByte", "bytes/s", high=INT64_MAX, dynamic=True
    )
    """Bytes/s delivered by one broker; 0 means no limit."""
    topic_dispatch_messages: int = option(
        0, "dispatchThrottlingRatePerTopicInMsg", "messages/s", dynamic=True
    )
    """Messages/s delivered from one topic, unless a policy sets its rate; 0 means no limit."""
    topic_dispatch_bytes: int = option(
        0, "dispatchThrottlingRatePerTopicInByte", "bytes/s", high=INT64_MAX, dynamic=True
    )
    """Bytes/s delivered from one topic, unless a policy sets its rate; 0 means no limit."""
    subscription_dispatch_messages: int = option(
        0, "dispatchThrottlingRatePerSubscriptionInMsg", "messages/s", dynamic=True
    )
    """Messages/s delivered to one subscription, unless a policy sets its rate; 0 means no limit."""
    subscription_dispatch_bytes: int = option(
        0, "dispatchThrottlingRatePerSubscriptionInByte", "bytes/s", high=INT64_MAX, dynamic=True
    )
    """Bytes/s delivered to one subscription, unless a policy sets its rate; 0 means no limit."""
    subscribes: int = option(0, "subscribeThrottlingRatePerConsumer", "subscribes", dynamic=True)
    """How often one consumer may subscribe to a topic in subscribeRatePeriodPerConsumerInSecond, if
    no policy says otherwise; 0 means no limit."""
    subscribe_period_s: int = option(
        30, "subscribeRatePeriodPerConsumerInSecond", "s", dynamic=True
    )
    """The period of subscribeThrottlingRatePerConsumer; 0 means no limit."""
    dispatch_relative: bool = option(
        False, "dispatchThrottlingRateRelativeToPublishRate", dynamic=True
    )
    """Whether the dispatch rates of topics and subscriptions, if no policy says otherwise, are
    added to the topic's publish rate."""
    dispatch_caught_up: bool = option(
        True, "dispatchThrottlingOnNonBacklogConsumerEnabled", dynamic=True
    )
    """Whether dispatch limits also hold for subscriptions that lag by no more than 1,000
    entries."""
    dispatch_whole_batches: bool = option(
        False, "dispatchThrottlingOnBatchMessageEnabled", dynamic=True
    )
    """Whether a batch counts as one message towards dispatch limits."""
