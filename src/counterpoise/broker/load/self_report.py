"""A broker's report of itself: its addresses, and the counters of its topics."""

import contextlib
import time
from collections.abc import Iterator
from typing import Protocol

from counterpoise.broker.base.addresses import Addresses
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.load import TopicCount
from counterpoise.broker.topic.topic import Topic
from counterpoise.broker.topic.topics import TopicRegistry
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.load.report import LocalBrokerData
from counterpoise.names.bundle import BundleName
from counterpoise.names.topic import TopicName

VERSION = "4.0.7"
"""The version of Pulsar whose behaviour brokers announce (``brokerVersionString``)."""


def blank_report(filters: FilterOptions, addresses: Addresses) -> LocalBrokerData:
    """The load report of a broker that has just started: its addresses, and no load."""
    return LocalBrokerData(
        web_service_url=addresses.web_url,
        web_service_url_tls=addresses.web_url_tls,
        pulsar_service_url=addresses.service_url,
        pulsar_service_url_tls=addresses.service_url_tls,
        advertised_listeners=dict(addresses.listeners),
        persistent_topics_enabled=filters.persistent_topics,
        non_persistent_topics_enabled=filters.non_persistent_topics,
        broker_version_string=VERSION,
        load_manager_class_name=filters.load_manager_class,
        start_timestamp=int(time.time() * 1000),
    )


class BundlesOfTopics(Protocol):
    """Maps a topic to the bundle that its load counts for."""

    def bundle_of(self, topic: TopicName) -> BundleName:
        """The topic's bundle; raises `BrokerError` if its namespace is not known here."""

    def goes_with_leader(self, topic: TopicName) -> bool:
        """Whether the leader serves the topic, whichever broker owns its bundle."""


class TopicCounts:
    """Reads the counters of the topics that count as this broker's load."""

    def __init__(self, topics: TopicRegistry, bundles: BundlesOfTopics) -> None:
        self._topics = topics
        self._bundles = bundles

    def read(self) -> Iterator[TopicCount]:
        """The counters of each topic."""
        for topic in list(self._topics.loaded.values()):
            if self._bundles.goes_with_leader(topic.name):
                continue
            # A topic that is being unloaded may have no bundle here any more: it counts nowhere.
            with contextlib.suppress(BrokerError):
                yield count_of(topic, self._bundles.bundle_of(topic.name))


def count_of(topic: Topic, bundle: BundleName) -> TopicCount:
    """The counters of a loaded topic."""
    subscriptions = topic.subscriptions.values()
    return TopicCount(
        topic=str(topic.name),
        bundle=str(bundle),
        opened=topic.created,
        msg_in=topic.meter_in.messages,
        bytes_in=topic.meter_in.bytes,
        msg_out=topic.meter_out.messages,
        bytes_out=topic.meter_out.bytes,
        producers=len(topic.producers),
        consumers=sum(len(each.consumers) for each in subscriptions),
        cache_size=topic.cached_bytes,
    )
