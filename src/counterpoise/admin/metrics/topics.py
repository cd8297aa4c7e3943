"""Metrics of topics, subscriptions and consumers, or their sums by namespace.

Source: ``TopicStats`` and ``NamespaceStatsAggregator`` of 4.0.7. What was delivered is counted by
subscription, so a topic's figure is the sum of its subscriptions'.
"""

from collections import defaultdict
from collections.abc import Iterator

from counterpoise.admin.metrics import transactions
from counterpoise.admin.metrics.sample import Labels, MetricSample, cluster_of, samples_of
from counterpoise.admin.subscription_json import backlog_size
from counterpoise.broker import face

_REASONS = {
    face.LimitLevel.SUBSCRIPTION_DISPATCH: "subscription",
    face.LimitLevel.TOPIC_DISPATCH: "topic",
    face.LimitLevel.GROUP_DISPATCH: "resource_group",
    face.LimitLevel.BROKER_DISPATCH: "broker",
}


def pieces(broker: face.Broker) -> Iterator[Iterator[MetricSample]]:
    """The samples of topics, in pieces; by ``exposeTopicLevelMetricsInPrometheus`` of namespaces.

    Each piece is consistent in itself; the broker may serve clients between two pieces.
    """
    exposed = broker.config.metrics
    if exposed.topics:
        for topic in _sorted(broker):
            yield from _topic(broker, topic, consumers=exposed.consumers)
    else:
        yield from _namespaces(broker)


def _sorted(broker: face.Broker) -> list[face.Topic]:
    return sorted(broker.topics.loaded.values(), key=lambda topic: str(topic.name))


def _topic(
    broker: face.Broker, topic: face.Topic, *, consumers: bool
) -> Iterator[Iterator[MetricSample]]:
    labels = (
        *cluster_of(broker),
        ("namespace", str(topic.name.namespace_name)),
        ("topic", str(topic.name)),
    )
    yield samples_of("", labels, _figures(topic))
    for name, subscription in sorted(topic.subscriptions.items()):
        of_subscription = (*labels, ("subscription", name))
        yield _subscription(subscription, of_subscription)
        for consumer in list(subscription.consumers) if consumers else ():
            yield _consumer(consumer, of_subscription)


def _figures(topic: face.Topic) -> list[tuple[str, float]]:
    """The figures of a topic that can be added up over the topics of a namespace."""
    subscriptions = topic.subscriptions.values()
    found: list[tuple[str, float]] = [
        ("pulsar_rate_in", topic.meter_in.rate),
        ("pulsar_rate_out", topic.meter_out.rate),
        ("pulsar_throughput_in", topic.meter_in.byte_rate),
        ("pulsar_throughput_out", topic.meter_out.byte_rate),
        ("pulsar_in_messages_total", topic.meter_in.messages),
        ("pulsar_in_bytes_total", topic.meter_in.bytes),
        ("pulsar_publish_rate_limit_times", topic.commons.limits.throttled_times(topic)),
        ("pulsar_producers_count", len(topic.producers.all())),
        ("pulsar_subscriptions_count", len(subscriptions)),
        ("pulsar_consumers_count", sum(len(each.consumers) for each in subscriptions)),
        ("pulsar_msg_backlog", sum(each.backlog for each in subscriptions)),
    ]
    if isinstance(topic, face.PersistentTopic):
        backlog = max(map(backlog_size, subscriptions), default=0)
        found += [
            ("pulsar_storage_size", topic.log.size),
            # Copies on several bookies are counted in neither size.
            ("pulsar_storage_logical_size", topic.log.size),
            ("pulsar_storage_backlog_size", backlog),
            ("counterpoise_storage_lost_entries", sum(each.entries for each in topic.log.lost)),
            *transactions.topic_figures(topic),
        ]
    return found


def _subscription(subscription: face.Subscription, labels: Labels) -> Iterator[MetricSample]:
    meters, consumers = subscription.meters, subscription.consumers
    unacked = acked_ms = sent_ms = flow_ms = 0
    for each in consumers:
        unacked += each.unacked
        acked_ms = max(acked_ms, each.last_acked_ms)
        sent_ms = max(sent_ms, each.last_sent_ms)
        flow_ms = max(flow_ms, each.last_flow_ms)
    yield from samples_of(
        "pulsar_subscription_",
        labels,
        (
            ("back_log", subscription.backlog),
            ("back_log_no_delayed", subscription.backlog - subscription.delayed),
            ("delayed", subscription.delayed),
            ("msg_rate_out", meters.out.rate),
            ("msg_throughput_out", meters.out.byte_rate),
            ("msg_rate_redeliver", meters.redelivered.rate),
            ("msg_ack_rate", meters.acked.rate),
            ("unacked_messages", unacked),
            ("blocked_on_unacked_messages", subscription.blocked),
            ("consumers_count", len(consumers)),
            ("last_acked_timestamp", acked_ms),
            ("last_consumed_timestamp", sent_ms),
            ("last_consumed_flow_timestamp", flow_ms),
        ),
    )
    yield from _throttled(subscription, labels)
    yield from transactions.of_subscription(subscription, labels)
    yield MetricSample("pulsar_out_messages_total", labels, float(meters.out.messages))
    yield MetricSample("pulsar_out_bytes_total", labels, float(meters.out.bytes))


def _throttled(subscription: face.Subscription, labels: Labels) -> Iterator[MetricSample]:
    """Samples of how often each dispatch limit delayed a subscription. Pulsar lacks groups'."""
    throttled = subscription.flow.events if subscription.flow is not None else {}
    for level, reason in _REASONS.items():
        for kind, what in (("messages", "msg"), ("bytes", "bytes")):
            name = f"pulsar_subscription_dispatch_throttled_{what}_events"
            count = throttled.get((level, kind), 0)
            if count or level is not face.LimitLevel.GROUP_DISPATCH:
                yield MetricSample(name, (*labels, ("reason", reason)), float(count))


def _consumer(consumer: face.Recipient, subscribed: Labels) -> Iterator[MetricSample]:
    meters = consumer.meters
    who = (("consumer_name", consumer.name), ("consumer_id", str(consumer.request.consumer_id)))
    yield from samples_of(
        "pulsar_consumer_",
        (*subscribed, *who),
        (
            ("msg_rate_out", meters.out.rate),
            ("msg_throughput_out", meters.out.byte_rate),
            ("msg_rate_redeliver", meters.redelivered.rate),
            ("msg_ack_rate", meters.acked.rate),
            ("unacked_messages", consumer.unacked),
            ("blocked_on_unacked_messages", consumer.blocked),
            ("available_permits", consumer.permits),
        ),
    )


def _namespaces(broker: face.Broker) -> Iterator[Iterator[MetricSample]]:
    sums: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for topic in _sorted(broker):
        of_namespace = sums[str(topic.name.namespace_name)]
        sent = (
            ("pulsar_out_messages_total", topic.meter_out.messages),
            ("pulsar_out_bytes_total", topic.meter_out.bytes),
        )
        for name, value in (*_figures(topic), *sent):
            of_namespace[name] += value
        # No sample yet, but other tasks may have their turn.
        yield iter(())
    for namespace, found in sums.items():
        labels = (*cluster_of(broker), ("namespace", namespace))
        yield samples_of("", labels, found.items())
