"""Which Prometheus series of Pulsar a history is made of, and their labels.

Topics have `pulsar_rate_in` and so on (`exposeTopicLevelMetricsInPrometheus`, on by default), and
bundles `pulsar_bundle_msg_rate_in` and so on (`exposeBundlesMetricsInPrometheus`, off by default;
only under the modular load manager). Brokers have `pulsar_lb_…_usage` under both load managers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from counterpoise.load.rows import RATES, RESOURCES
from counterpoise.names.bundle import BundleName
from counterpoise.names.errors import InvalidName
from counterpoise.names.topic import TopicName
from counterpoise.pipeline.collect.where import is_broker
from counterpoise.pipeline.collect.words import line
from counterpoise.pipeline.prometheus.boundaries import KnownBundles

TOPICS: Final = "topics"
BUNDLES: Final = "bundles"
RATE_SERIES: Final[Mapping[str, tuple[str, ...]]] = {
    TOPICS: ("pulsar_rate_in", "pulsar_rate_out", "pulsar_throughput_in", "pulsar_throughput_out"),
    BUNDLES: tuple(f"pulsar_bundle_{name}" for name in RATES),
}
"""By kind of series: the names of the series for each of `RATES`, in that order."""
COUNT_SERIES: Final[Mapping[str, Mapping[str, str]]] = {
    TOPICS: {"producers": "pulsar_producers_count", "consumers": "pulsar_consumers_count"},
    BUNDLES: {
        "topics": "pulsar_bundle_topics_count",
        "producers": "pulsar_bundle_producer_count",
        "consumers": "pulsar_bundle_consumer_count",
    },
}
USAGE_SERIES: Final = tuple(
    f"pulsar_lb_{'directMemory' if name == 'direct_memory' else name}_usage" for name in RESOURCES
)
"""The names of the series for each of `RESOURCES`, in that order; values are per cent."""
AVERAGE_SERIES: Final = "pulsar_lb_resource_usage"
AVERAGE_LABELS: Final = {"feature": "max_ema"}
"""The labels of the series with a broker's own average usage, which only the extensible load
manager has."""

BROKER_LABELS: Final = ("pod", "kubernetes_pod_name", "instance", "broker")
"""Labels that may name a broker, in the order in which they are looked for."""
DEFAULT_PORT: Final = 8080
_NO_PARTITION: Final = ("", "-1")


@dataclass(frozen=True, slots=True)
class SeriesPlace:
    """Which broker, bundle and topic a Prometheus series is about."""

    broker: str
    bundle: str = ""
    """The bundle; empty for a series of a broker."""
    topic: str = ""
    """The topic, or for a series of a bundle its name; empty for a series of a broker."""


class SeriesLabels:
    """Finds a series' broker, bundle and topic from its labels; caches them, since labels recur."""

    def __init__(
        self, bundles: KnownBundles, broker_label: str = "", names: Mapping[str, str] | None = None
    ) -> None:
        """`names` maps values of the broker label to broker ids, for values that are no
        `host:port`.
        """
        self._bundles = bundles
        self._labels = (broker_label,) if broker_label else BROKER_LABELS
        self._names = names or {}
        self._known: dict[bytes, SeriesPlace | None] = {}
        self.unreadable: dict[str, str] = {}
        """By reason why series were left out, the labels of one of them."""
        self.left_out = 0

    @property
    def assumed(self) -> list[str]:
        """The namespaces whose number of bundles was assumed to be the default."""
        return self._bundles.assumed

    async def places(self, lines: Sequence[bytes]) -> list[SeriesPlace | None]:
        """The broker, bundle and topic of each series, from its labels as JSON; None for labels
        that cannot be parsed.

        Raises `SeriesError`.
        """
        for each in lines:
            if each not in self._known:
                self._known[each] = await self._read(each)
        return [self._known[each] for each in lines]

    async def _read(self, text: bytes) -> SeriesPlace | None:
        try:
            labels = {str(name): str(value) for name, value in orjson.loads(text).items()}
            return await self._place(labels)
        except (orjson.JSONDecodeError, AttributeError, InvalidName) as error:
            self.left_out += 1
            self.unreadable.setdefault(line(str(error)), line(text.decode(errors="replace")))
            return None

    async def _place(self, labels: Mapping[str, str]) -> SeriesPlace:
        broker = self._broker(labels)
        if bundle := labels.get("bundle", ""):
            return SeriesPlace(broker, str(BundleName.parse(bundle)), bundle)
        if "topic" not in labels:
            return SeriesPlace(broker)
        topic = TopicName.parse(labels["topic"])
        if (partition := labels.get("partition", "")) not in _NO_PARTITION:
            # metricsSplitTopicAndPartitionLabelInPrometheus
            if not (partition.isascii() and partition.isdigit()):
                raise InvalidName(partition, "expected the number of a partition")
            topic = topic.partition(int(partition))
        await self._bundles.ask(topic.namespace_name)
        return SeriesPlace(broker, str(self._bundles.of(topic)), str(topic))

    def _broker(self, labels: Mapping[str, str]) -> str:
        name = next((labels[each] for each in self._labels if labels.get(each)), "")
        if not name:
            raise InvalidName(
                "", f"none of its labels names a broker ({', '.join(self._labels)}): --broker-label"
            )
        name = self._names.get(name, name)
        broker = name if ":" in name else f"{name}:{DEFAULT_PORT}"
        if not is_broker(broker):
            raise InvalidName(name, "is no name of a broker, host or host:port")
        return broker
