"""Messages that come again: negative acknowledgement, time-outs, dead letters."""

import pulsar
import pytest

from tests.client.conftest import SOON, assert_no_more, payloads, receive_all

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


def test_unacknowledged_messages_time_out(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(
        topic, "s", pulsar.ConsumerType.Shared, unacked_messages_timeout_ms=10_000
    )
    producer = client.create_producer(topic)
    producer.send(b"once more")
    receive_all(consumer, 1, ack=False)
    message = consumer.receive(30_000)
    assert message.data() == b"once more"
    assert message.redelivery_count() >= 1
    consumer.acknowledge(message)


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
