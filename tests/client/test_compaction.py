"""Compacted topics as an official client reads them."""

import pulsar

from tests.client.conftest import SOON, Target
from tests.waiting import found_soon


def status_of(target: Target, path: str) -> object:
    found = target.admin("GET", f"{path}/compaction")
    return found["status"] if isinstance(found, dict) else found


def compacted(target: Target, topic: str) -> None:
    path = topic.replace("://", "/")
    target.admin("PUT", f"{path}/compaction")
    found_soon(lambda: status_of(target, path) == "SUCCESS")


def read(client: pulsar.Client, topic: str, *, is_compacted: bool) -> list[tuple[str, bytes]]:
    reader = client.create_reader(topic, pulsar.MessageId.earliest, is_read_compacted=is_compacted)
    found = []
    while reader.has_message_available():
        message = reader.read_next(SOON)
        found.append((message.partition_key(), message.data()))
    reader.close()
    return found


def test_a_compacted_reader_gets_the_last_value_of_each_key(
    target: Target, client: pulsar.Client, topic: str
) -> None:
    """Also of a batch, and after the topic was unloaded; what has no value, or no key, is gone."""
    producer = client.create_producer(topic, batching_enabled=False)
    for key, value in [("a", b"1"), ("b", b"1"), ("a", b"2"), ("b", b""), ("c", b"1")]:
        producer.send(value, partition_key=key)
    producer.send(b"without a key")
    producer.close()
    batched = client.create_producer(topic, batching_max_publish_delay_ms=50)
    for key, value in [("c", b"2"), ("d", b"1"), ("d", b"2"), ("a", b"")]:
        batched.send_async(value, lambda *_: None, partition_key=key)
    batched.flush()
    compacted(target, topic)
    left = [("c", b"2"), ("d", b"2")]
    assert read(client, topic, is_compacted=True) == left
    assert len(read(client, topic, is_compacted=False)) == 10
    target.admin("PUT", f"{topic.replace('://', '/')}/unload")
    batched.send(b"3", partition_key="c")
    assert read(client, topic, is_compacted=True) == [*left, ("c", b"3")]
    compacted(target, topic)
    assert read(client, topic, is_compacted=True) == [("d", b"2"), ("c", b"3")]


def test_a_durable_consumer_goes_on_where_it_was(
    target: Target, client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(topic, batching_enabled=False)
    for number in range(6):
        producer.send(b"%d" % number, partition_key=str(number % 3))
    compacted(target, topic)

    def subscribe() -> pulsar.Consumer:
        return client.subscribe(
            topic, "s", is_read_compacted=True, initial_position=pulsar.InitialPosition.Earliest
        )

    consumer = subscribe()
    first = consumer.receive(SOON)
    assert first.data() == b"3"
    consumer.acknowledge_cumulative(first)
    consumer.close()
    producer.send(b"6", partition_key="0")
    consumer = subscribe()
    assert [consumer.receive(SOON).data() for _ in range(3)] == [b"4", b"5", b"6"]
    consumer.close()


def test_a_topic_without_a_value_left_has_nothing_for_a_compacted_reader(
    target: Target, client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(topic, batching_enabled=False)
    producer.send(b"1", partition_key="a")
    producer.send(b"", partition_key="a")
    compacted(target, topic)
    assert read(client, topic, is_compacted=True) == []
