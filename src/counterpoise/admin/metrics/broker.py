"""Metrics of the broker as a whole: its topics and clients, connections, background tasks."""

from collections import Counter
from collections.abc import Iterator

from counterpoise.admin.metrics import sample
from counterpoise.broker.face import Broker, PauseReason, PersistentTopic


def figures(broker: Broker) -> Iterator[sample.MetricSample]:
    """The samples of the broker as a whole, including counts of failures."""
    report = broker.load_report()
    cluster = sample.cluster_of(broker)
    loaded = broker.topics.loaded
    subscriptions = [each for topic in loaded.values() for each in topic.subscriptions.values()]
    stored = [topic.log.size for topic in loaded.values() if isinstance(topic, PersistentTopic)]
    yield from sample.samples_of(
        "pulsar_broker_",
        cluster,
        (
            ("topics_count", report.num_topics),
            ("subscriptions_count", len(subscriptions)),
            ("producers_count", report.num_producers),
            ("consumers_count", report.num_consumers),
            ("rate_in", report.msg_rate_in),
            ("rate_out", report.msg_rate_out),
            ("throughput_in", report.msg_throughput_in),
            ("throughput_out", report.msg_throughput_out),
            ("storage_size", sum(stored)),
            ("msg_backlog", sum(each.backlog for each in subscriptions)),
            ("publish_latency_count", broker.topics.publish_latency.entries),
            ("publish_latency_sum", 1000 * broker.topics.publish_latency.seconds),
        ),
    )
    yield from sample.samples_of(
        "", cluster, (("process_start_time_seconds", report.start_timestamp / 1000),)
    )
    counts = Counter(str(name.namespace_name) for name in loaded)
    yield from sample.by_label("pulsar_topics_count", cluster, "namespace", sorted(counts.items()))
    yield from _connections(broker)
    yield from sample.by_label(
        "counterpoise_background_failures_total",
        cluster,
        "task",
        sorted(_by_kind(broker.background.failures).items()),
    )


def _connections(broker: Broker) -> Iterator[sample.MetricSample]:
    listener = broker.listener
    yield from sample.samples_of(
        "pulsar_",
        sample.broker_labels(broker, "broker_connection"),
        (
            ("active_connections", listener.connections),
            ("connection_created_total_count", listener.connections_admitted),
            ("connection_closed_total_count", listener.connections_admitted - listener.connections),
        ),
    )
    cluster, pauses = sample.cluster_of(broker), listener.pauses()
    yield from sample.by_label(
        "counterpoise_connection_pauses_total",
        cluster,
        "reason",
        ((each.value, pauses[each]) for each in PauseReason),
    )
    yield from sample.samples_of(
        "counterpoise_connection_",
        cluster,
        (("received_bytes_total", listener.bytes_in), ("sent_bytes_total", listener.bytes_out)),
    )


def _by_kind(failures: Counter[str]) -> Counter[str]:
    """Sum failures of background tasks by kind: "loading persistent://…" counts as "loading"."""
    kinds: Counter[str] = Counter()
    for name, times in failures.items():
        kinds[name.partition("persistent://")[0].removesuffix("non-").strip()] += times
    return kinds
