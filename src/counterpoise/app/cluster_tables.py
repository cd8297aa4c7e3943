"""Turns the load that a cluster's brokers report into rows of tables.

The source is the admin API's ``broker-stats/topics``, which lists the loaded topics by bundle,
whichever load manager the cluster uses.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from counterpoise.app.errors import UserError

Json = Any


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One loaded topic as a row. Rates are per second; Apache's brokers average over a minute."""

    topic: str
    bundle: str
    broker: str
    msg_rate_in: float
    msg_rate_out: float
    bytes_rate_in: float
    bytes_rate_out: float
    producers: int
    consumers: int
    subscriptions: int
    backlog: int


@dataclass(frozen=True, slots=True)
class BundleRow:
    """One bundle as a row: the sums of its loaded topics."""

    bundle: str
    broker: str
    topics: int
    msg_rate_in: float
    msg_rate_out: float
    bytes_rate_in: float
    bytes_rate_out: float
    producers: int
    consumers: int
    backlog: int


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """One broker as a row: the sums of its loaded topics; ``error``: why it did not answer."""

    broker: str
    leader: bool
    bundles: int
    topics: int
    msg_rate_in: float
    msg_rate_out: float
    bytes_rate_in: float
    bytes_rate_out: float
    producers: int
    consumers: int
    error: str = ""


def topic_rows(broker: str, stats: Json) -> list[TopicRow]:
    """Make a row for each topic in a broker's response to ``broker-stats/topics``.

    Raises `UserError` if the response is malformed.
    """
    try:
        return [
            _topic_row(broker, f"{namespace}/{bundle}", topic, stats)
            for namespace, bundles in stats.items()
            for bundle, domains in bundles.items()
            for topics in domains.values()
            for topic, stats in topics.items()
        ]
    except (AttributeError, TypeError, ValueError):
        raise UserError(f"{broker} does not answer with its topics (broker-stats/topics)") from None


def _topic_row(broker: str, bundle: str, topic: str, stats: Mapping[str, Json]) -> TopicRow:
    subscriptions = stats.get("subscriptions") or {}
    return TopicRow(
        topic=topic,
        bundle=bundle,
        broker=broker,
        msg_rate_in=float(stats.get("msgRateIn") or 0),
        msg_rate_out=float(stats.get("msgRateOut") or 0),
        bytes_rate_in=float(stats.get("msgThroughputIn") or 0),
        bytes_rate_out=float(stats.get("msgThroughputOut") or 0),
        producers=int(stats.get("producerCount") or 0),
        consumers=sum(len(each.get("consumers") or ()) for each in subscriptions.values()),
        subscriptions=len(subscriptions),
        backlog=sum(int(each.get("msgBacklog") or 0) for each in subscriptions.values()),
    )


def bundle_rows(topics: Iterable[TopicRow]) -> list[BundleRow]:
    """Sum the rows of topics by bundle and broker."""
    found: dict[tuple[str, str], list[TopicRow]] = {}
    for each in topics:
        found.setdefault((each.bundle, each.broker), []).append(each)
    return [
        BundleRow(
            bundle=bundle,
            broker=broker,
            topics=len(rows),
            backlog=sum(each.backlog for each in rows),
            **_sums(rows),
        )
        for (bundle, broker), rows in found.items()
    ]


def broker_row(broker: str, topics: Sequence[TopicRow], *, leader: bool) -> BrokerRow:
    """Sum the rows of topics for one broker."""
    return BrokerRow(
        broker=broker,
        leader=leader,
        bundles=len({each.bundle for each in topics}),
        topics=len(topics),
        **_sums(topics),
    )


def unasked(broker: str, error: str, *, leader: bool) -> BrokerRow:
    """The row of a broker that did not answer; ``error`` is the reason."""
    return BrokerRow(broker, leader, 0, 0, 0.0, 0.0, 0.0, 0.0, 0, 0, error)


def _sums(rows: Sequence[TopicRow]) -> dict[str, Any]:
    return {
        name: sum(getattr(each, name) for each in rows)
        for name in (
            "msg_rate_in",
            "msg_rate_out",
            "bytes_rate_in",
            "bytes_rate_out",
            "producers",
            "consumers",
        )
    }
