"""``/metrics``: figures for Prometheus under Pulsar's names, all of type gauge as Pulsar has them.

Source: ``PrometheusMetricsGenerator`` and ``ModularLoadManagerImpl`` of 4.0.7.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from aiohttp import web

from counterpoise.admin import route
from counterpoise.admin.request import broker_of
from counterpoise.broker.face import BrokerFace, PersistentTopic

CONTENT_TYPE = "text/plain"


@dataclass(frozen=True, slots=True)
class Figure:
    """One sample: a metric's name, its labels in order, its value."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float

    def __str__(self) -> str:
        labels = ", ".join(f'{name}="{_escaped(value)}"' for name, value in self.labels)
        return f"{self.name}{{{labels}}} {self.value:g}" if labels else f"{self.name} {self.value}"


def routes() -> Iterable[route.Route]:
    """The paths of this resource; Prometheus is usually told the one with the slash."""
    return [route.get("/metrics", metrics), route.get("/metrics/", metrics)]


async def metrics(request: web.Request) -> web.Response:
    """Every figure of this broker, grouped by name."""
    by_name: dict[str, list[Figure]] = {}
    for figure in figures(broker_of(request)):
        by_name.setdefault(figure.name, []).append(figure)
    lines: list[str] = []
    for name, found in by_name.items():
        lines.append(f"# TYPE {name} gauge")
        lines.extend(map(str, found))
    return web.Response(text="\n".join(lines) + "\n", content_type=CONTENT_TYPE)


def figures(broker: BrokerFace) -> Iterator[Figure]:
    """Everything this broker can tell, most general first."""
    report = broker.load_report()
    cluster = ("cluster", broker.config.cluster_name)
    for name, value in (
        ("pulsar_broker_topics_count", report.num_topics),
        ("pulsar_broker_subscriptions_count", _subscriptions(broker)),
        ("pulsar_broker_producers_count", report.num_producers),
        ("pulsar_broker_consumers_count", report.num_consumers),
        ("pulsar_broker_rate_in", report.msg_rate_in),
        ("pulsar_broker_rate_out", report.msg_rate_out),
        ("pulsar_broker_throughput_in", report.msg_throughput_in),
        ("pulsar_broker_throughput_out", report.msg_throughput_out),
    ):
        yield Figure(name, (cluster,), float(value))
    host = ("broker", broker.config.advertised_address)
    load = (cluster, host, ("metric", "loadBalancing"))
    for name, usage in (
        ("cpu", report.cpu),
        ("memory", report.memory),
        ("directMemory", report.direct_memory),
        ("bandwidth_in", report.bandwidth_in),
        ("bandwidth_out", report.bandwidth_out),
    ):
        yield Figure(f"pulsar_lb_{name}_usage", load, float(usage.percent))
    for bundle, stats in sorted(report.last_stats.items()):
        labels = (cluster, host, ("bundle", bundle), ("metric", "bundle"))
        for name, value in (
            ("msg_rate_in", stats.msg_rate_in),
            ("msg_rate_out", stats.msg_rate_out),
            ("topics_count", stats.topics),
            ("consumer_count", stats.consumer_count),
            ("producer_count", stats.producer_count),
            ("msg_throughput_in", stats.msg_throughput_in),
            ("msg_throughput_out", stats.msg_throughput_out),
        ):
            yield Figure(f"pulsar_bundle_{name}", labels, float(value))
    yield from _limit_figures(broker, cluster)
    yield from _topic_figures(broker, cluster)


def _limit_figures(broker: BrokerFace, cluster: tuple[str, str]) -> Iterator[Figure]:
    """Publish limits; a limit that nobody ever reached is not told of one by one."""
    limits = broker.topics.limits.seen()
    throttled = {each.address for limit in limits for each in limit.producers}
    yield Figure("pulsar_broker_throttled_connections", (cluster,), float(len(throttled)))
    for limit in limits:
        if not limit.times:
            continue
        labels = (cluster, ("level", limit.level), ("subject", limit.subject))
        for what, value in (
            ("waits_total", limit.times),
            ("waited_seconds_total", limit.seconds),
            ("waiting_producers", len(limit.producers)),
            ("held_entries", sum(each.held_entries for each in limit.producers)),
            ("held_bytes", sum(each.held_bytes for each in limit.producers)),
        ):
            yield Figure(f"counterpoise_publish_limit_{what}", labels, float(value))


def _topic_figures(broker: BrokerFace, cluster: tuple[str, str]) -> Iterator[Figure]:
    for name, topic in sorted(broker.topics.loaded.items()):
        labels = (cluster, ("namespace", str(name.namespace_name)), ("topic", str(name)))
        for what, value in (
            ("pulsar_rate_in", topic.meter_in.rate),
            ("pulsar_rate_out", topic.meter_out.rate),
            ("pulsar_throughput_in", topic.meter_in.byte_rate),
            ("pulsar_throughput_out", topic.meter_out.byte_rate),
            ("pulsar_in_messages_total", topic.meter_in.messages),
            ("pulsar_in_bytes_total", topic.meter_in.bytes),
            ("pulsar_out_messages_total", topic.meter_out.messages),
            ("pulsar_out_bytes_total", topic.meter_out.bytes),
            (
                "pulsar_publish_rate_limit_times",
                broker.topics.limits.throttled_times(topic),
            ),
            ("pulsar_producers_count", len(topic.producers.all())),
            ("pulsar_subscriptions_count", len(topic.subscriptions)),
            ("pulsar_msg_backlog", sum(each.backlog for each in topic.subscriptions.values())),
        ):
            yield Figure(what, labels, float(value))
        if isinstance(topic, PersistentTopic):
            lost = sum(each.entries for each in topic.log.lost)
            yield Figure("counterpoise_storage_lost_entries", labels, float(lost))


def _subscriptions(broker: BrokerFace) -> int:
    return sum(len(topic.subscriptions) for topic in broker.topics.loaded.values())


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
