"""The rate limits that broker.conf and the dynamic configuration set."""

from __future__ import annotations

from dataclasses import dataclass

from counterpoise.names.options import INT64_MAX, option

_NO_LIMIT = "0 means no limit"


@dataclass(frozen=True, slots=True)
class RateOptions:
    """Limits under Pulsar's own names; policies of namespaces and topics come before them."""

    broker_publish_messages: int = option(
        0,
        conf="brokerPublisherThrottlingMaxMessageRate",
        unit="messages/s",
        dynamic=True,
        why=f"published to one broker, all topics together; {_NO_LIMIT}",
    )
    broker_publish_bytes: int = option(
        0,
        conf="brokerPublisherThrottlingMaxByteRate",
        unit="bytes/s",
        high=INT64_MAX,
        dynamic=True,
        why=f"published to one broker, all topics together; {_NO_LIMIT}",
    )
    topic_publish_messages: int = option(
        0,
        conf="maxPublishRatePerTopicInMessages",
        unit="messages/s",
        dynamic=True,
        why=f"published to a topic without a rate of its own or its namespace's; {_NO_LIMIT}",
    )
    topic_publish_bytes: int = option(
        0,
        conf="maxPublishRatePerTopicInBytes",
        unit="bytes/s",
        high=INT64_MAX,
        dynamic=True,
        why=f"published to a topic without a rate of its own or its namespace's; {_NO_LIMIT}",
    )
    share_interval_s: int = option(
        2,
        conf="resourceUsageTransportPublishIntervalInSecs",
        unit="s",
        low=1,
        dynamic=True,
        why="how often brokers report to each other what they use of resource groups, from which "
        "the parts of each follow (Pulsar's default is 60, and by default it reports nothing)",
    )
    broker_dispatch_messages: int = option(
        0,
        conf="dispatchThrottlingRateInMsg",
        unit="messages/s",
        dynamic=True,
        why=f"delivered by one broker; {_NO_LIMIT}",
    )
    broker_dispatch_bytes: int = option(
        0,
        conf="dispatchThrottlingRateInByte",
        unit="bytes/s",
        high=INT64_MAX,
        dynamic=True,
        why=f"delivered by one broker; {_NO_LIMIT}",
    )
    topic_dispatch_messages: int = option(
        0,
        conf="dispatchThrottlingRatePerTopicInMsg",
        unit="messages/s",
        dynamic=True,
        why=f"delivered of one topic, without a rate of its own or its namespace's; {_NO_LIMIT}",
    )
    topic_dispatch_bytes: int = option(
        0,
        conf="dispatchThrottlingRatePerTopicInByte",
        unit="bytes/s",
        high=INT64_MAX,
        dynamic=True,
        why=f"delivered of one topic, without a rate of its own or its namespace's; {_NO_LIMIT}",
    )
    subscription_dispatch_messages: int = option(
        0,
        conf="dispatchThrottlingRatePerSubscriptionInMsg",
        unit="messages/s",
        dynamic=True,
        why=f"delivered to one subscription, if no policy says otherwise; {_NO_LIMIT}",
    )
    subscription_dispatch_bytes: int = option(
        0,
        conf="dispatchThrottlingRatePerSubscriptionInByte",
        unit="bytes/s",
        high=INT64_MAX,
        dynamic=True,
        why=f"delivered to one subscription, if no policy says otherwise; {_NO_LIMIT}",
    )
    subscribes: int = option(
        0,
        conf="subscribeThrottlingRatePerConsumer",
        unit="subscribes",
        dynamic=True,
        why="how often one consumer may subscribe to a topic in "
        f"subscribeRatePeriodPerConsumerInSecond, if no policy says otherwise; {_NO_LIMIT}",
    )
    subscribe_period_s: int = option(
        30,
        conf="subscribeRatePeriodPerConsumerInSecond",
        unit="s",
        dynamic=True,
        why="the period of subscribeThrottlingRatePerConsumer; 0 means no limit",
    )
    dispatch_relative: bool = option(
        False,
        conf="dispatchThrottlingRateRelativeToPublishRate",
        dynamic=True,
        why="whether the dispatch rates of topics and subscriptions, if no policy says otherwise, "
        "come on top of the rate at which the topic is published to",
    )
    dispatch_caught_up: bool = option(
        True,
        conf="dispatchThrottlingOnNonBacklogConsumerEnabled",
        dynamic=True,
        why="whether dispatch limits hold for subscriptions that do not lag (by more than a "
        "thousand entries), too",
    )
    dispatch_whole_batches: bool = option(
        False,
        conf="dispatchThrottlingOnBatchMessageEnabled",
        dynamic=True,
        why="whether a batch counts as one message towards dispatch limits",
    )
