"""Batches and compression: carried untouched, acknowledged by index."""

import pulsar
import pytest

from counterpoise import Cluster
from tests.client.conftest import SOON, Target, assert_no_more, payloads, receive_all

pytestmark = pytest.mark.client

COMPRESSIONS = [
    pulsar.CompressionType.NONE,
    pulsar.CompressionType.LZ4,
    pulsar.CompressionType.ZLib,
    pulsar.CompressionType.ZSTD,
    pulsar.CompressionType.SNAPPY,
]


def batching(client: pulsar.Client, topic: str, **options: object) -> pulsar.Producer:
    """Return a producer that sends a batch only when flushed or full."""
    return client.create_producer(
        topic, batching_enabled=True, batching_max_publish_delay_ms=60_000, **options
    )


@pytest.mark.parametrize("compression", COMPRESSIONS, ids=str)
@pytest.mark.parametrize("batched", [False, True], ids=["alone", "batched"])
def test_compressed_messages_arrive(
    client: pulsar.Client, topic: str, compression: pulsar.CompressionType, batched: bool
) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, compression_type=compression, batching_enabled=batched)
    sent = [payload * 50 for payload in payloads(100)]
    for payload in sent:
        producer.send_async(payload, None)
    producer.flush()
    assert receive_all(consumer, len(sent)) == sent


def test_a_batch_is_one_entry(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = batching(client, topic)
    for payload in payloads(10):
        producer.send_async(payload, None)
    producer.flush()
    ids = [consumer.receive(SOON).message_id() for _ in range(10)]
    assert len({(each.ledger_id(), each.entry_id()) for each in ids}) == 1
    assert [each.batch_index() for each in ids] == list(range(10))


def test_a_batch_comes_back_whole_unless_acknowledged_whole(
    client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s")
    producer = batching(client, topic)
    for payload in payloads(6):
        producer.send_async(payload, None)
    producer.flush()
    receive_all(consumer, 4)
    consumer.close()
    again = client.subscribe(topic, "s")
    assert receive_all(again, 6) == payloads(6)
    assert_no_more(again)
    again.close()
    assert_no_more(client.subscribe(topic, "s"))


def test_cumulative_acknowledgement_across_batches(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = batching(client, topic)
    for start in (0, 5, 10):
        for payload in payloads(5, start):
            producer.send_async(payload, None)
        producer.flush()
    messages = [consumer.receive(SOON) for _ in range(15)]
    consumer.acknowledge_cumulative(messages[9])
    consumer.close()
    assert receive_all(client.subscribe(topic, "s"), 5) == payloads(5, 10)


def test_keys_and_properties_inside_a_batch(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = batching(client, topic)
    for number, payload in enumerate(payloads(5)):
        producer.send_async(
            payload, None, partition_key=f"k{number}", properties={"n": str(number)}
        )
    producer.flush()
    for number in range(5):
        message = consumer.receive(SOON)
        assert message.partition_key() == f"k{number}"
        assert message.properties() == {"n": str(number)}


def test_batches_by_key(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", pulsar.ConsumerType.KeyShared)
    producer = batching(client, topic, batching_type=pulsar.BatchingType.KeyBased)
    for number in range(30):
        producer.send_async(b"%d" % number, None, partition_key=f"k{number % 3}")
    producer.flush()
    by_key: dict[str, list[int]] = {}
    for _ in range(30):
        message = consumer.receive(SOON)
        by_key.setdefault(message.partition_key(), []).append(int(message.data()))
        consumer.acknowledge(message)
    assert by_key == {f"k{key}": list(range(key, 30, 3)) for key in range(3)}


def test_batch_receive(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(
        topic, "s", batch_receive_policy=pulsar.ConsumerBatchReceivePolicy(10, -1, SOON)
    )
    producer = client.create_producer(topic)
    for payload in payloads(10):
        producer.send(payload)
    batch = consumer.batch_receive()
    assert [message.data() for message in batch] == payloads(10)


def test_some_of_a_batch_acknowledged_by_index(client: pulsar.Client, topic: str) -> None:
    """The client acknowledges by index: delivered again, the acknowledged ones are left out."""
    consumer = client.subscribe(
        topic, "s", pulsar.ConsumerType.Shared, batch_index_ack_enabled=True
    )
    producer = batching(client, topic)
    for payload in payloads(6):
        producer.send_async(payload, None)
    producer.flush()
    messages = [consumer.receive(SOON) for _ in range(6)]
    for message in messages[::2]:
        consumer.acknowledge(message)
    consumer.close()
    again = client.subscribe(topic, "s", pulsar.ConsumerType.Shared, batch_index_ack_enabled=True)
    received = [again.receive(SOON).data() for _ in range(6)]
    # acknowledgmentAtBatchIndexLevelEnabled is off by default: the whole batch comes again.
    assert received == payloads(6)


@pytest.mark.parametrize("kind", [pulsar.ConsumerType.Shared, pulsar.ConsumerType.Exclusive])
def test_a_batch_comes_back_without_what_was_acknowledged_of_it(kind: pulsar.ConsumerType) -> None:
    config = {"acknowledgmentAtBatchIndexLevelEnabled": True}
    with Cluster(brokers=2, config=config) as cluster:
        client = pulsar.Client(
            cluster.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        )
        topic = "persistent://public/default/batches"
        consumer = client.subscribe(topic, "s", kind, batch_index_ack_enabled=True)
        # While it lags, what "s" has acknowledged is not deleted.
        client.subscribe(topic, "lagging").close()
        producer = batching(client, topic)
        for payload in payloads(70):
            producer.send_async(payload, None)
        producer.flush()
        kept = {3, 64, 69}
        for number in range(70):
            message = consumer.receive(SOON)
            if number not in kept:
                consumer.acknowledge(message)
        # What the client gathers is sent when it closes.
        consumer.close()
        left = [b"message-%d" % number for number in sorted(kept)]
        consumer = client.subscribe(topic, "s", kind, batch_index_ack_enabled=True)
        assert receive_all(consumer, len(left), ack=False) == left
        consumer.close()
        # The next owner knows it, too.
        cluster.unload(topic)
        consumer = client.subscribe(topic, "s", kind, batch_index_ack_enabled=True)
        assert receive_all(consumer, len(left)) == left
        consumer.close()
        consumer = client.subscribe(topic, "s", kind, batch_index_ack_enabled=True)
        assert_no_more(consumer)
        at = consumer.get_last_message_id()
        consumer.close()
        middle = {"ledgerId": at.ledger_id(), "entryId": at.entry_id(), "batchIndex": 67}
        reset = "persistent/public/default/batches/subscription/s/resetcursor"
        target = Target(cluster.service_url, cluster.admin_url)
        target.admin("POST", reset, {**middle, "excluded": True})
        consumer = client.subscribe(topic, "s", kind, batch_index_ack_enabled=True)
        assert receive_all(consumer, 2, ack=False) == [b"message-68", b"message-69"]
        client.close()
