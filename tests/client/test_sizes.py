"""Large messages: up to the limit in one piece, beyond it in chunks."""

import pulsar
import pytest

from tests.client.conftest import SOON, payloads, receive_all

pytestmark = pytest.mark.client

LIMIT = 5 * 1024 * 1024


def pattern(size: int) -> bytes:
    return bytes(range(251)) * (size // 251 + 1)


@pytest.mark.parametrize("size", [0, 1, 64 * 1024, 1024 * 1024, LIMIT - 64 * 1024])
def test_a_message_of_any_size(client: pulsar.Client, topic: str, size: int) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    payload = pattern(size)[:size]
    producer.send(payload)
    assert receive_all(consumer, 1) == [payload]


def test_a_message_beyond_the_limit(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    with pytest.raises(pulsar.MessageTooBig):
        producer.send(pattern(LIMIT + 1)[: LIMIT + 1])
    producer.send(b"the producer is unharmed")


def test_chunks(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, chunking_enabled=True)
    payload = pattern(3 * LIMIT)[: 2 * LIMIT + 12345]
    producer.send(b"before")
    producer.send(payload)
    producer.send(b"after")
    assert receive_all(consumer, 3) == [b"before", payload, b"after"]
    consumer.close()
    producer.send(b"last")
    assert receive_all(client.subscribe(topic, "s"), 1) == [b"last"]


def test_many_large_messages_to_a_slow_consumer(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, max_pending_messages=10, block_if_queue_full=True)
    big = pattern(1024 * 1024)
    sent = [payload + big for payload in payloads(40)]
    for payload in sent:
        producer.send_async(payload, None)
    producer.flush()
    assert receive_all(consumer, 40) == sent


def test_an_empty_message_is_not_lost(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    client.create_producer(topic).send(b"")
    assert consumer.receive(SOON).data() == b""
