"""What a broker says of itself: who it is, and what its topics have counted."""

from __future__ import annotations

import time

from counterpoise.broker.config import BrokerConfig
from counterpoise.broker.load import TopicCount
from counterpoise.broker.server_sockets import Addresses
from counterpoise.broker.topic.topic import Topic
from counterpoise.load.report import LocalBrokerData
from counterpoise.names.bundle import BundleName

VERSION = "4.0.7"
"""The version of Pulsar whose behaviour brokers announce (``brokerVersionString``)."""


def blank_report(config: BrokerConfig, addresses: Addresses) -> LocalBrokerData:
    """The report of a broker that has just started."""
    return LocalBrokerData(
        web_service_url=addresses.web_url,
        web_service_url_tls=addresses.web_url_tls,
        pulsar_service_url=addresses.service_url,
        pulsar_service_url_tls=addresses.service_url_tls,
        advertised_listeners=dict(addresses.listeners),
        persistent_topics_enabled=config.filters.persistent_topics,
        non_persistent_topics_enabled=config.filters.non_persistent_topics,
        broker_version_string=VERSION,
        load_manager_class_name=config.filters.load_manager_class,
        start_timestamp=int(time.time() * 1000),
    )


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
    )
