"""One sample of one series of `/metrics`, before it becomes text."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from counterpoise.broker.face import Broker

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class MetricSample:
    """One sample: a metric's name, its labels in Pulsar's order, its value."""

    name: str
    labels: Labels
    value: float


def samples_of(
    prefix: str, labels: Labels, values: Iterable[tuple[str, float]]
) -> Iterator[MetricSample]:
    """Samples with the same labels; ``prefix`` is put before each metric's name."""
    for name, value in values:
        yield MetricSample(prefix + name, labels, float(value))


def by_label(
    name: str, labels: Labels, label: str, values: Iterable[tuple[str, float]]
) -> Iterator[MetricSample]:
    """Samples of one series, one for each value of an additional label."""
    for each, value in values:
        yield MetricSample(name, (*labels, (label, each)), float(value))


def cluster_of(broker: Broker) -> Labels:
    """The label that every metric has: the cluster's name."""
    return (("cluster", broker.config.cluster_name),)


def broker_labels(broker: Broker, metric: str) -> Labels:
    """The labels of a sample about a broker as a whole; Pulsar names a broker by its host alone."""
    host = broker.config.advertised_address
    return (*cluster_of(broker), ("broker", host), ("metric", metric))
