"""Topics that keep nothing: delivered to who is there, forgotten otherwise."""

import contextlib
import uuid

import pulsar
import pytest

from tests.client.conftest import NEVER, assert_no_more, payloads, receive_all
from tests.waiting import found_soon

pytestmark = pytest.mark.client


@pytest.fixture
def fleeting() -> str:
    return f"non-persistent://public/default/client-{uuid.uuid4().hex[:12]}"


def test_who_is_there_hears_it(client: pulsar.Client, fleeting: str) -> None:
    consumers = [client.subscribe(fleeting, name) for name in ("a", "b")]
    producer = client.create_producer(fleeting)
    for payload in payloads(20):
        producer.send(payload)
    for consumer in consumers:
        assert receive_all(consumer, 20) == payloads(20)


def test_nothing_is_kept(client: pulsar.Client, fleeting: str) -> None:
    producer = client.create_producer(fleeting)
    producer.send(b"lost")
    consumer = client.subscribe(fleeting, "s", initial_position=pulsar.InitialPosition.Earliest)
    producer.send(b"heard")
    assert receive_all(consumer, 1) == [b"heard"]
    assert_no_more(consumer)


def test_shared(client: pulsar.Client, fleeting: str) -> None:
    consumers = [client.subscribe(fleeting, "s", pulsar.ConsumerType.Shared) for _ in range(2)]
    producer = client.create_producer(fleeting)
    for payload in payloads(20):
        producer.send(payload)
    received: list[bytes] = []

    def read_on() -> bool:
        for consumer in consumers:
            with contextlib.suppress(pulsar.Timeout):
                received.append(consumer.receive(NEVER).data())
        return len(received) >= 20

    found_soon(read_on, "20 messages")
    assert sorted(received) == sorted(payloads(20))
    for consumer in consumers:
        assert_no_more(consumer)
