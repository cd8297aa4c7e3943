"""One sample of one series, before anybody writes it down."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from counterpoise.broker.face import BrokerFace

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """A series' name, its labels in Pulsar's order, its value."""

    name: str
    labels: Labels
    value: float


def figures_of(
    prefix: str, labels: Labels, values: Iterable[tuple[str, float]]
) -> Iterator[Figure]:
    """Several figures of one subject."""
    for name, value in values:
        yield Figure(prefix + name, labels, float(value))


def by_label(
    name: str, labels: Labels, label: str, values: Iterable[tuple[str, float]]
) -> Iterator[Figure]:
    """One figure for each value of one more label."""
    for each, value in values:
        yield Figure(name, (*labels, (label, each)), float(value))


def cluster_of(broker: BrokerFace) -> Labels:
    """The label that every series has."""
    return (("cluster", broker.config.cluster_name),)


def broker_labels(broker: BrokerFace, metric: str) -> Labels:
    """The labels of what a broker says of itself; Pulsar names it by its host alone."""
    host = broker.config.advertised_address
    return (*cluster_of(broker), ("broker", host), ("metric", metric))
