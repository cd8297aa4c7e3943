"""Messages that come again: negative acknowledgement, time-outs, dead letters."""

import re

import pulsar
import pytest

from tests.client.conftest import SOON, Target, assert_no_more, payloads, receive_all

pytestmark = pytest.mark.client


def test_negative_acknowledgement(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(
        topic, "s", pulsar.ConsumerType.Shared, negative_ack_redelivery_delay_ms=100
    )
    producer = client.create_producer(topic)
    for payload in payloads(10):
        producer.send(payload)
    messages = [consumer.receive(SOON) for _ in range(10)]
    for number, message in enumerate(messages):
        if number % 2:
            consumer.negative_acknowledge(message)
        else:
            consumer.acknowledge(message)
    again = [consumer.receive(SOON) for _ in range(5)]
    assert sorted(message.data() for message in again) == sorted(payloads(10)[1::2])
    assert {message.redelivery_count() for message in again} == {1}
    for message in again:
        consumer.acknowledge(message)
    assert_no_more(consumer)


def test_redelivery_of_everything(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    for payload in payloads(10):
        producer.send(payload)
    receive_all(consumer, 10, ack=False)
    consumer.redeliver_unacknowledged_messages()
    assert receive_all(consumer, 10) == payloads(10)


def test_redelivery_in_a_shared_subscription(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
    producer = client.create_producer(topic)
    for payload in payloads(10):
        producer.send(payload)
    receive_all(consumer, 10, ack=False)
    consumer.redeliver_unacknowledged_messages()
    assert sorted(receive_all(consumer, 10)) == sorted(payloads(10))


def test_dead_letters(client: pulsar.Client, topic: str) -> None:
    dead = client.subscribe(f"{topic}-dead", "s")
    consumer = client.subscribe(
        topic,
        "s",
        pulsar.ConsumerType.Shared,
        negative_ack_redelivery_delay_ms=50,
        dead_letter_policy=pulsar.ConsumerDeadLetterPolicy(2, f"{topic}-dead"),
    )
    producer = client.create_producer(topic)
    producer.send(b"poison")
    counts = []
    for _ in range(3):
        message = consumer.receive(SOON)
        counts.append(message.redelivery_count())
        consumer.negative_acknowledge(message)
    assert counts == [0, 1, 2]
    letter = dead.receive(SOON)
    assert letter.data() == b"poison"
    assert_no_more(consumer)


def test_a_batch_negatively_acknowledged(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(
        topic, "s", pulsar.ConsumerType.Shared, negative_ack_redelivery_delay_ms=100
    )
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_publish_delay_ms=60_000
    )
    for payload in payloads(5):
        producer.send_async(payload, None)
    producer.flush()
    for message in [consumer.receive(SOON) for _ in range(5)]:
        consumer.negative_acknowledge(message)
    assert sorted(receive_all(consumer, 5)) == sorted(payloads(5))
    assert_no_more(consumer)


def publish_to_each(client: pulsar.Client, topics: list[str]) -> list[bytes]:
    """Five messages to each topic; their payloads."""
    sent = []
    for number, topic in enumerate(topics):
        producer = client.create_producer(topic)
        for payload in payloads(5, 5 * number):
            producer.send(payload)
            sent.append(payload)
        producer.close()
    return sent


def unacknowledged(
    client: pulsar.Client, target: Target, topic: str, kind: str
) -> tuple[pulsar.Consumer, list[str]]:
    """A consumer that got five messages of each of three topics, and acknowledged the first's."""
    topics = [
        f"{topic}-partition-{n}" if kind == "partitions" else f"{topic}-{n}" for n in range(3)
    ]
    if kind == "partitions":
        target.create_partitioned_topic(topic, 3)
    sent = publish_to_each(client, topics) if kind == "pattern" else []
    consumer = client.subscribe(
        {"topics": topics, "partitions": topic, "pattern": re.compile(f"{topic}-.*")}[kind],
        "s",
        pulsar.ConsumerType.Shared,
        unacked_messages_timeout_ms=10_000,
        initial_position=pulsar.InitialPosition.Earliest,
    )
    sent = sent or publish_to_each(client, topics)
    messages = [consumer.receive(SOON) for _ in range(15)]
    assert sorted(message.data() for message in messages) == sorted(sent)
    ids = {(m.message_id().ledger_id(), m.message_id().entry_id()) for m in messages}
    assert len(ids) == 15, "topics share message ids"
    for message in messages:
        if message.topic_name() == topics[0]:
            consumer.acknowledge(message)
    return consumer, topics


def test_unacknowledged_messages_time_out_and_those_of_several_topics_apart(
    client: pulsar.Client, target: Target, topic: str
) -> None:
    """The client tracks unacknowledged messages by id, whatever topic they are of.

    Its shortest time-out is ten seconds, in which all of these wait together.
    """
    alone = client.subscribe(
        topic, "s", pulsar.ConsumerType.Shared, unacked_messages_timeout_ms=10_000
    )
    client.create_producer(topic).send(b"once more")
    receive_all(alone, 1, ack=False)
    of_several = {
        kind: unacknowledged(client, target, f"{topic}-{kind}", kind)
        for kind in ("topics", "partitions", "pattern")
    }
    message = alone.receive(2 * SOON)
    assert message.data() == b"once more"
    assert message.redelivery_count() >= 1
    alone.acknowledge(message)
    for kind, (consumer, topics) in of_several.items():
        again = [consumer.receive(2 * SOON) for _ in range(10)]
        assert {message.topic_name() for message in again} == set(topics[1:]), kind
        assert len({message.data() for message in again}) == 10
        for message in again:
            consumer.acknowledge(message)
        assert_no_more(consumer)
