"""A test with five faults has the same story each time that it runs."""

import os

import pulsar
import pytest

from counterpoise import Cluster
from counterpoise.app.faults.cluster_log import EventKind
from counterpoise.faults import ACK, LOOKUP, MESSAGE, RECEIPT, SEND

pytestmark = pytest.mark.client
VARIABLE = "COUNTERPOISE_REPETITIONS"
REPETITIONS = int(os.environ.get(VARIABLE, "20"))
"""``make clients ARGS="--repetitions 1000"`` sets it."""
FULL = "persistent://public/default/"


def story(cluster: Cluster, topic: str) -> list[str]:
    """What five faults do to ten messages, without the topic's name."""
    cluster.clear_faults()
    first, second = cluster.brokers
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(cluster.service_url, logger=logger)
    try:
        cluster.place(topic, first)
        cluster.fault(LOOKUP, topic=topic).delay(0.01).probability(0.5, seed=7)
        cluster.fault(SEND, topic=topic).error("PersistenceError").every(4).times(1)
        cluster.fault(RECEIPT, topic=topic).disconnect().every(5).times(1)
        lost = cluster.fault(MESSAGE, topic=topic).drop().every(3).times(1)
        unheard = cluster.fault(ACK, topic=topic).drop().once()
        consumer = client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
        producer = client.create_producer(topic, batching_enabled=False)
        for n in range(5):
            producer.send(b"%d" % n)
        cluster.place(topic, second)
        for n in range(5, 10):
            producer.send(b"%d" % n)
        lost.wait()
        consumer.acknowledge(consumer.receive(60_000))
        unheard.wait()
        consumer.close()
        again = client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
        missing = {b"%d" % n for n in range(10)}
        while missing:
            missing.discard(again.receive(60_000).data())
        cluster.assert_nothing_lost(topic, "s")
    finally:
        client.close()
    # By its topic, not by how many events there were before: only the newest are kept.
    kinds = (EventKind.FAULT, EventKind.MOVED)
    return [
        str(each.text).replace(FULL + topic, "T")
        for each in cluster.events
        if each.kind in kinds and each.topic == FULL + topic
    ]


@pytest.mark.timeout(300 + 5 * REPETITIONS)
def test_a_test_with_five_faults_has_one_story() -> None:
    with Cluster(brokers=2) as cluster:
        cluster.watch()
        first = story(cluster, "t-0")
        for each in (
            "LOOKUP of T delayed by 0.01 s",
            "SEND of T answered with PersistenceError",
            "RECEIPT of T connection closed",
            "MESSAGE of T dropped",
            "ACK of T dropped",
            "T from broker 1 to broker 2",
        ):
            assert each in first
        for number in range(1, REPETITIONS):
            assert story(cluster, f"t-{number}") == first, f"repetition {number}"
