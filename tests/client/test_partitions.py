"""Partitioned topics, several topics at once, and topics found by pattern."""

import re
import uuid

import pulsar
import pytest

from tests.client.conftest import SOON, Target, payloads, receive_all

pytestmark = pytest.mark.client


@pytest.fixture
def partitioned(target: Target, topic: str) -> str:
    target.create_partitioned_topic(topic, 4)
    return topic


def test_the_partitions_of_a_topic(client: pulsar.Client, partitioned: str) -> None:
    assert client.get_topic_partitions(partitioned) == [
        f"{partitioned}-partition-{index}" for index in range(4)
    ]


def test_a_topic_without_partitions(client: pulsar.Client, topic: str) -> None:
    client.create_producer(topic)
    assert client.get_topic_partitions(topic) == [topic]


def test_messages_are_spread_over_partitions(client: pulsar.Client, partitioned: str) -> None:
    consumer = client.subscribe(partitioned, "s")
    producer = client.create_producer(
        partitioned,
        message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution,
        batching_enabled=False,
    )
    for payload in payloads(40):
        producer.send(payload)
    messages = [consumer.receive(SOON) for _ in range(40)]
    for message in messages:
        consumer.acknowledge(message)
    assert sorted(message.data() for message in messages) == sorted(payloads(40))
    assert {message.message_id().partition() for message in messages} == {0, 1, 2, 3}


def test_a_key_always_goes_to_one_partition(client: pulsar.Client, partitioned: str) -> None:
    consumer = client.subscribe(partitioned, "s")
    producer = client.create_producer(partitioned)
    for number in range(60):
        producer.send(b"%d" % number, partition_key=f"key-{number % 6}")
    partition: dict[str, int] = {}
    order: dict[str, list[int]] = {}
    for _ in range(60):
        message = consumer.receive(SOON)
        key = message.partition_key()
        assert partition.setdefault(key, message.message_id().partition()) == (
            message.message_id().partition()
        )
        order.setdefault(key, []).append(int(message.data()))
    assert all(numbers == sorted(numbers) for numbers in order.values())


def test_one_partition_by_name(client: pulsar.Client, partitioned: str) -> None:
    consumer = client.subscribe(f"{partitioned}-partition-2", "s")
    producer = client.create_producer(f"{partitioned}-partition-2")
    producer.send(b"here")
    assert receive_all(consumer, 1) == [b"here"]


def test_a_shared_subscription_of_partitions(client: pulsar.Client, partitioned: str) -> None:
    consumers = [client.subscribe(partitioned, "s", pulsar.ConsumerType.Shared) for _ in range(2)]
    producer = client.create_producer(partitioned, batching_enabled=False)
    for payload in payloads(40):
        producer.send(payload)
    received: list[list[bytes]] = [[], []]
    while sum(map(len, received)) < 40:
        for number, consumer in enumerate(consumers):
            try:
                message = consumer.receive(200)
            except pulsar.Timeout:
                continue
            received[number].append(message.data())
            consumer.acknowledge(message)
    assert sorted(received[0] + received[1]) == sorted(payloads(40))
    assert all(received), "each has its share"


def test_failover_spreads_partitions(client: pulsar.Client, partitioned: str) -> None:
    consumers = [
        client.subscribe(partitioned, "s", pulsar.ConsumerType.Failover, consumer_name=name)
        for name in ("a", "b")
    ]
    producer = client.create_producer(partitioned)
    for payload in payloads(40):
        producer.send(payload)
    seen: list[bytes] = []
    partitions: list[set[int]] = [set(), set()]
    for _ in range(200):
        for index, consumer in enumerate(consumers):
            try:
                message = consumer.receive(100)
            except pulsar.Timeout:
                continue
            seen.append(message.data())
            partitions[index].add(message.message_id().partition())
            consumer.acknowledge(message)
        if len(seen) == 40:
            break
    assert sorted(seen) == sorted(payloads(40)), "each once"
    # By consumer name, partition modulo consumers; both were there before the first message.
    assert partitions == [{0, 2}, {1, 3}]


def test_a_partitioned_topic_read_from_the_start(client: pulsar.Client, partitioned: str) -> None:
    producer = client.create_producer(partitioned)
    for payload in payloads(20):
        producer.send(payload)
    reader = client.create_reader(partitioned, pulsar.MessageId.earliest)
    seen = []
    while reader.has_message_available():
        seen.append(reader.read_next(SOON).data())
    assert sorted(seen) == sorted(payloads(20))


def test_seek_over_partitions(client: pulsar.Client, partitioned: str) -> None:
    consumer = client.subscribe(partitioned, "s")
    producer = client.create_producer(partitioned)
    for payload in payloads(20):
        producer.send(payload)
    receive_all(consumer, 20)
    consumer.seek(pulsar.MessageId.earliest)
    assert sorted(receive_all(consumer, 20)) == sorted(payloads(20))


def test_several_topics_in_one_consumer(client: pulsar.Client, topic: str) -> None:
    topics = [f"{topic}-{number}" for number in range(3)]
    consumer = client.subscribe(topics, "s")
    for each in topics:
        client.create_producer(each).send(each.encode())
    assert sorted(receive_all(consumer, 3)) == [each.encode() for each in topics]


def test_topics_by_pattern(client: pulsar.Client) -> None:
    mark = uuid.uuid4().hex[:8]
    names = [f"persistent://public/default/{mark}-{number}" for number in range(3)]
    producers = [client.create_producer(name) for name in names]
    client.create_producer(f"persistent://public/default/other-{mark}")
    consumer = client.subscribe(re.compile(f"persistent://public/default/{mark}-.*"), "s")
    for producer, name in zip(producers, names, strict=True):
        producer.send(name.encode())
    assert sorted(receive_all(consumer, 3)) == [name.encode() for name in names]
