"""Faults that a test sets, as the official client meets them."""

from collections.abc import Iterator

import pulsar
import pytest

from counterpoise import Cluster
from counterpoise.app.cluster_log import EventKind
from counterpoise.faults import RECEIPT, SEND, InvalidFault

pytestmark = pytest.mark.client


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2) as started:
        yield started


@pytest.fixture
def client(cluster: Cluster) -> Iterator[pulsar.Client]:
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    connected = pulsar.Client(cluster.service_url, operation_timeout_seconds=5, logger=logger)
    yield connected
    connected.close()


def received(consumer: pulsar.Consumer, count: int) -> list[bytes]:
    return [consumer.receive(10_000).data() for _ in range(count)]


def texts(cluster: Cluster, kind: EventKind) -> list[str]:
    return [each.text for each in cluster.events if each.kind is kind]


def test_a_refused_send_is_sent_again_and_stored_once(
    cluster: Cluster, client: pulsar.Client
) -> None:
    consumer = client.subscribe("orders", "s")
    fault = cluster.fault(SEND, topic="orders").error("PersistenceError").once()
    producer = client.create_producer("orders")
    for n in range(3):
        producer.send(b"%d" % n)
    assert received(consumer, 3) == [b"0", b"1", b"2"]
    assert fault.struck == 1
    topic = "persistent://public/default/orders"
    assert texts(cluster, EventKind.FAULT) == [f"SEND of {topic} answered with PersistenceError"]


def test_a_lost_receipt_makes_a_message_come_twice(cluster: Cluster, client: pulsar.Client) -> None:
    consumer = client.subscribe("orders", "s")
    producer = client.create_producer("orders")
    with cluster.fault(RECEIPT, topic="orders").disconnect().once() as fault:
        producer.send(b"0")
    assert fault.struck == 1
    assert received(consumer, 2) == [b"0", b"0"]


def test_what_cannot_be_is_refused_before_anything_is_set(cluster: Cluster) -> None:
    with pytest.raises(InvalidFault, match="no operation"):
        cluster.fault("SENDING")
    with pytest.raises(LookupError, match="no broker"):
        cluster.fault(SEND, broker="elsewhere:1")
    with pytest.raises(InvalidFault, match="choose chance or count"):
        cluster.fault(SEND).once().probability(0.5, seed=1)
    assert cluster.events == []
