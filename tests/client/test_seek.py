"""Moving about in a topic: seek, the last message, readers, tables."""

import time

import pulsar
import pytest

from tests.client.conftest import SOON, assert_no_more, payloads, receive_all
from tests.waiting import found_soon

pytestmark = pytest.mark.client


def test_seek_to_the_ends(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    for payload in payloads(10):
        producer.send(payload)
    receive_all(consumer, 10)
    consumer.seek(pulsar.MessageId.earliest)
    assert receive_all(consumer, 10) == payloads(10)
    consumer.seek(pulsar.MessageId.earliest)
    consumer.seek(pulsar.MessageId.latest)
    producer.send(b"new")
    assert receive_all(consumer, 1) == [b"new"]


def test_seek_to_a_message(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    ids = [producer.send(payload) for payload in payloads(10)]
    receive_all(consumer, 10)
    consumer.seek(ids[4])
    assert receive_all(consumer, 5) == payloads(5, 5)
    assert_no_more(consumer)


def test_seek_to_a_message_inclusively(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", start_message_id_inclusive=True)
    producer = client.create_producer(topic)
    ids = [producer.send(payload) for payload in payloads(10)]
    receive_all(consumer, 10)
    consumer.seek(ids[4])
    assert receive_all(consumer, 6) == payloads(6, 4)


def test_seek_to_a_time(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    for payload in payloads(5):
        producer.send(payload)
    times = [consumer.receive(SOON).publish_timestamp() for _ in range(5)]
    found_soon(lambda: time.time() * 1000 >= times[-1] + 2)
    between = times[-1] + 2
    for payload in payloads(5, 5):
        producer.send(payload)
    receive_all(consumer, 5)
    consumer.seek(between)
    assert receive_all(consumer, 5) == payloads(5, 5)


def test_seek_into_a_batch(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_publish_delay_ms=60_000
    )
    for payload in payloads(10):
        producer.send_async(payload, None)
    producer.flush()
    ids = [consumer.receive(SOON).message_id() for _ in range(10)]
    consumer.seek(ids[5])
    assert receive_all(consumer, 4) == payloads(4, 6)
    assert_no_more(consumer)


def test_the_last_message_id(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    for payload in payloads(3):
        last = producer.send(payload)
    found = consumer.get_last_message_id()
    assert (found.ledger_id(), found.entry_id()) == (last.ledger_id(), last.entry_id())


def test_the_last_message_id_of_a_batch(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_publish_delay_ms=60_000
    )
    for payload in payloads(4):
        producer.send_async(payload, None)
    producer.flush()
    assert consumer.get_last_message_id().batch_index() == 3


def test_a_reader_reads_everything(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    for payload in payloads(20):
        producer.send(payload)
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    assert [reader.read_next(SOON).data() for _ in range(20)] == payloads(20)
    assert not reader.has_message_available()
    producer.send(b"more")
    assert reader.has_message_available()
    assert reader.read_next(SOON).data() == b"more"


def test_a_reader_starts_after_a_message(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    ids = [producer.send(payload) for payload in payloads(10)]
    after = client.create_reader(topic, ids[6])
    assert [after.read_next(SOON).data() for _ in range(3)] == payloads(3, 7)
    at = client.create_reader(topic, ids[6], start_message_id_inclusive=True)
    assert at.read_next(SOON).data() == payloads(1, 6)[0]


def test_a_reader_from_the_latest_message(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    producer.send(b"old")
    reader = client.create_reader(topic, pulsar.MessageId.latest)
    assert not reader.has_message_available()
    producer.send(b"new")
    assert reader.read_next(SOON).data() == b"new"


def test_a_reader_seeks(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    ids = [producer.send(payload) for payload in payloads(10)]
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    for _ in range(10):
        reader.read_next(SOON)
    reader.seek(ids[7])
    assert reader.read_next(SOON).data() == payloads(1, 8)[0]


def test_readers_of_a_batch_stop_at_its_end(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_publish_delay_ms=60_000
    )
    for payload in payloads(5):
        producer.send_async(payload, None)
    producer.flush()
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    seen = []
    while reader.has_message_available():
        seen.append(reader.read_next(SOON).data())
    assert seen == payloads(5)


def test_a_table_holds_the_last_of_each_key(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    for number in range(20):
        producer.send(b"%d" % number, partition_key=f"k{number % 4}")
    table = client.create_table_view(topic)
    assert table.get("k3") == b"19"
    assert len(table) == 4
    table.close()
