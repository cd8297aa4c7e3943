"""Metrics of rate limits: how many clients wait at each, and how long clients have waited in
all.
"""

from collections.abc import Iterator, Sequence

from counterpoise.admin.metrics.sample import Labels, MetricSample, by_label, cluster_of, samples_of
from counterpoise.broker.face import Broker, LimitSnapshot, PauseReason

_PER_CONNECTION = (PauseReason.PENDING_PUBLISHES, PauseReason.PUBLISH_RATE)
"""Reasons to pause a connection for what it published itself, and not others."""

_CLASSES = {"ResourceGroupPublishRate": "Publish", "ResourceGroupDispatchRate": "Dispatch"}
"""The value of the label ``MonitoringClass`` (``ResourceGroupMonitoringClass``) for each level."""


def figures(broker: Broker) -> Iterator[MetricSample]:
    """The samples of rate limits that ever delayed a client: how often, and how many wait now."""
    cluster, limits = cluster_of(broker), broker.limits()
    yield from _connections(broker, limits)
    for limit in limits:
        if limit.level in _CLASSES:
            yield from _group(limit, cluster)
        if not limit.times:
            continue
        labels = (*cluster, ("level", limit.level), ("subject", limit.subject))
        if limit.level.endswith("PublishRate"):
            yield from samples_of("counterpoise_publish_limit_", labels, _publish(limit))
        else:
            yield from samples_of("counterpoise_dispatch_limit_", labels, _dispatch(limit))


def _connections(broker: Broker, limits: Sequence[LimitSnapshot]) -> Iterator[MetricSample]:
    """The number of throttled connections.

    Pulsar counts connections that it stopped reading from; this also counts those that are still
    read although one of their messages waits at a limit.
    """
    cluster = cluster_of(broker)
    paused = broker.listener.paused()
    throttled = {each.address for limit in limits for each in limit.producers}
    throttled.update(*(paused[reason] for reason in _PER_CONNECTION))
    yield MetricSample("pulsar_broker_throttled_connections", cluster, float(len(throttled)))
    now = ((reason.value, len(paused[reason])) for reason in PauseReason)
    yield from by_label("counterpoise_connections_paused", cluster, "reason", now)


def _publish(limit: LimitSnapshot) -> Iterator[tuple[str, float]]:
    yield from _waits(limit)
    yield "waiting_producers", len(limit.producers)
    yield "held_entries", sum(each.held_entries for each in limit.producers)
    yield "held_bytes", sum(each.held_bytes for each in limit.producers)


def _dispatch(limit: LimitSnapshot) -> Iterator[tuple[str, float]]:
    yield from _waits(limit)
    yield "waiting_subscriptions", len(limit.subscriptions)


def _waits(limit: LimitSnapshot) -> Iterator[tuple[str, float]]:
    yield "waits_total", limit.times
    yield "waited_seconds_total", limit.seconds


def _group(limit: LimitSnapshot, cluster: Labels) -> Iterator[MetricSample]:
    """This broker's share of a resource group's limit, and its use (``ResourceGroupService``)."""
    of = ("MonitoringClass", _CLASSES[limit.level])
    yield from samples_of(
        "pulsar_resource_group_",
        (*cluster, ("ResourceGroup", limit.subject), of),
        (
            ("calculated_messages_quota", limit.messages),
            ("calculated_bytes_quota", limit.bytes),
            ("messages_used", limit.passed_messages),
            ("bytes_used", limit.passed_bytes),
        ),
    )
