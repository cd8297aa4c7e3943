"""Publishing and consuming: order, ids, metadata, acknowledgement, what stays after a close."""

import pulsar
import pytest

from tests.client.conftest import SOON, assert_no_more, payloads, receive_all

pytestmark = pytest.mark.client


def test_messages_arrive_in_order(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    sent = payloads(200)
    for payload in sent:
        producer.send(payload)
    assert receive_all(consumer, len(sent)) == sent
    assert_no_more(consumer)


def test_send_returns_the_id_the_consumer_sees(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    ids = [producer.send(payload) for payload in payloads(5)]
    received = [consumer.receive(SOON).message_id() for _ in ids]
    assert [str(each) for each in received] == [str(each) for each in ids]
    assert received == sorted(received)
    assert len({each.ledger_id() for each in ids}) == 1


def test_key_properties_and_times_are_carried(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, producer_name="named", properties={"p": "q"})
    producer.send(
        b"payload",
        properties={"a": "1", "b": "ü"},
        partition_key="key",
        ordering_key="order",
        event_timestamp=123456,
        sequence_id=77,
    )
    message = consumer.receive(SOON)
    assert message.data() == b"payload"
    assert message.properties() == {"a": "1", "b": "ü"}
    assert message.partition_key() == "key"
    assert message.ordering_key() == "order"
    assert message.event_timestamp() == 123456
    assert message.publish_timestamp() > 0
    assert message.producer_name() == "named"
    assert message.topic_name() == topic
    assert message.redelivery_count() == 0


def test_a_producer_gets_a_name(client: pulsar.Client, topic: str) -> None:
    first, second = client.create_producer(topic), client.create_producer(topic)
    assert first.producer_name()
    assert first.producer_name() != second.producer_name()


def test_a_name_is_taken_while_its_producer_lives(client: pulsar.Client, topic: str) -> None:
    first = client.create_producer(topic, producer_name="only")
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer(topic, producer_name="only")
    first.close()
    client.create_producer(topic, producer_name="only").send(b"again")


def test_acknowledged_messages_do_not_come_back(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    for payload in payloads(10):
        producer.send(payload)
    receive_all(consumer, 4)
    for _ in range(3):
        consumer.receive(SOON)
    consumer.close()
    again = client.subscribe(topic, "s")
    assert receive_all(again, 6) == payloads(6, start=4)
    assert_no_more(again)


def test_cumulative_acknowledgement(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    for payload in payloads(10):
        producer.send(payload)
    messages = [consumer.receive(SOON) for _ in range(10)]
    consumer.acknowledge_cumulative(messages[6])
    consumer.close()
    again = client.subscribe(topic, "s")
    assert receive_all(again, 3) == payloads(3, start=7)


def test_a_subscription_keeps_what_is_published_without_consumers(
    client: pulsar.Client, topic: str
) -> None:
    client.subscribe(topic, "s").close()
    producer = client.create_producer(topic)
    for payload in payloads(5):
        producer.send(payload)
    assert receive_all(client.subscribe(topic, "s"), 5) == payloads(5)


def test_a_new_subscription_starts_at_its_initial_position(
    client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(topic)
    producer.send(b"before")
    latest = client.subscribe(topic, "latest")
    earliest = client.subscribe(topic, "earliest", initial_position=pulsar.InitialPosition.Earliest)
    producer.send(b"after")
    assert receive_all(latest, 1) == [b"after"]
    assert receive_all(earliest, 2) == [b"before", b"after"]


def test_every_subscription_gets_everything(client: pulsar.Client, topic: str) -> None:
    consumers = [client.subscribe(topic, name) for name in ("a", "b", "c")]
    producer = client.create_producer(topic)
    for payload in payloads(20):
        producer.send(payload)
    for consumer in consumers:
        assert receive_all(consumer, 20) == payloads(20)


def test_unsubscribe_forgets_the_position(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    producer.send(b"before")
    consumer.unsubscribe()
    again = client.subscribe(topic, "s")
    producer.send(b"after")
    assert receive_all(again, 1) == [b"after"]


def test_closing_a_producer_keeps_what_it_sent(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    for payload in payloads(50):
        producer.send_async(payload, None)
    producer.flush()
    producer.close()
    assert receive_all(consumer, 50) == payloads(50)


def test_a_small_queue_still_gets_everything(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", receiver_queue_size=1)
    producer = client.create_producer(topic)
    for payload in payloads(30):
        producer.send(payload)
    assert receive_all(consumer, 30) == payloads(30)


def test_a_listener_is_called(client: pulsar.Client, topic: str) -> None:
    from queue import Queue

    heard: Queue[bytes] = Queue()

    def listen(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        heard.put(message.data())
        consumer.acknowledge(message)

    consumer = client.subscribe(topic, "s", message_listener=listen)
    producer = client.create_producer(topic)
    for payload in payloads(10):
        producer.send(payload)
    assert [heard.get(timeout=SOON / 1000) for _ in range(10)] == payloads(10)
    consumer.close()


def test_a_name_that_is_none_is_refused(client: pulsar.Client) -> None:
    with pytest.raises(pulsar.InvalidTopicName):
        client.create_producer("persistent://public")


def test_a_namespace_that_is_not_there_is_refused(client: pulsar.Client) -> None:
    with pytest.raises((pulsar.TopicNotFound, pulsar.AuthorizationError, pulsar.LookupError)):
        client.create_producer("persistent://unknown/nothing/topic")
