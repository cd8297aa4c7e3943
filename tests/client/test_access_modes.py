"""Producers that want a topic for themselves (PIP-68)."""

import contextlib
import threading

import pulsar
import pytest

from tests.client.conftest import SOON, receive_all

pytestmark = pytest.mark.client

Mode = pulsar.ProducerAccessMode


def test_exclusive_keeps_others_out(client: pulsar.Client, topic: str) -> None:
    first = client.create_producer(topic, access_mode=Mode.Exclusive)
    with pytest.raises(pulsar.ProducerFenced):
        client.create_producer(topic, access_mode=Mode.Exclusive)
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer(topic)
    first.close()
    client.create_producer(topic)


def test_exclusive_wants_an_empty_topic(client: pulsar.Client, topic: str) -> None:
    client.create_producer(topic)
    with pytest.raises(pulsar.ProducerFenced):
        client.create_producer(topic, access_mode=Mode.Exclusive)


def test_waiting_for_exclusive_access(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    first = client.create_producer(topic, access_mode=Mode.Exclusive)
    opened = threading.Event()

    def wait() -> None:
        second = client.create_producer(topic, access_mode=Mode.WaitForExclusive)
        opened.set()
        second.send(b"second")

    waiter = threading.Thread(target=wait)
    waiter.start()
    assert not opened.wait(0.3)
    first.send(b"first")
    first.close()
    assert opened.wait(SOON / 1000)
    waiter.join(SOON / 1000)
    assert receive_all(consumer, 2) == [b"first", b"second"]


def test_fencing_pushes_the_others_out(client: pulsar.Client, topic: str) -> None:
    first = client.create_producer(topic, access_mode=Mode.Exclusive)
    second = client.create_producer(topic, access_mode=Mode.ExclusiveWithFencing)
    second.send(b"mine")
    with pytest.raises(pulsar.PulsarException):
        first.send(b"not mine")
    # The client closes a producer that was refused by itself, sooner or later: closed here, the
    # fixture does not meet it half way.
    with contextlib.suppress(pulsar.PulsarException):
        first.close()
