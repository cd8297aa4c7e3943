"""Figures of the transaction coordinators of a broker, and of transactions in topics.

Source: ``TransactionAggregator`` and ``TopicStats`` of 4.0.7. Durations are counted since the
coordinator was opened; Pulsar's are those since the last scrape.
"""

from collections.abc import Iterator

from counterpoise.admin.metrics.sample import Labels, MetricSample, cluster_of, samples_of
from counterpoise.broker.face import LATENCIES_MS, Broker, Marker, PersistentTopic, Subscription

_CLASSES = (*map(str, LATENCIES_MS), "overflow")


def figures(broker: Broker) -> Iterator[MetricSample]:
    """The samples of each transaction coordinator that is open on this broker."""
    for number, coordinator in sorted(broker.transactions.open.items()):
        of = coordinator.figures
        yield from samples_of(
            "pulsar_txn_",
            (*cluster_of(broker), ("coordinator_id", str(number))),
            (
                ("active_count", len(coordinator.table.transactions)),
                ("committed_total", of.committed),
                ("aborted_total", of.aborted),
                ("created_total", of.created),
                ("timeout_total", of.timed_out),
                ("append_log_total", of.records),
                *(
                    (f"execution_latency_le_{most}", count)
                    for most, count in zip(_CLASSES, of.durations, strict=True)
                ),
            ),
        )


def topic_figures(topic: PersistentTopic) -> list[tuple[str, float]]:
    """The names and values of a topic's transaction metrics; empty if it never had transactions."""
    if topic.transactions is None:
        return []
    buffer = topic.transactions.buffer
    return [
        ("pulsar_txn_tb_active_total", len(buffer.open)),
        ("pulsar_txn_tb_aborted_total", buffer.ended_by[Marker.ABORT]),
        ("pulsar_txn_tb_committed_total", buffer.ended_by[Marker.COMMIT]),
    ]


def of_subscription(subscription: Subscription, labels: Labels) -> Iterator[MetricSample]:
    """The samples of a subscription on which transactions have acknowledged; otherwise none."""
    if subscription.transactions is not None:
        ended = subscription.transactions.ended_by
        yield from samples_of(
            "pulsar_txn_tp_",
            (*labels, ("status", "succeed")),
            (
                ("committed_count_total", ended[Marker.COMMIT]),
                ("aborted_count_total", ended[Marker.ABORT]),
            ),
        )
