"""Producers on the wire: receipts in order and after the commit, closing, throttling, unloading."""

from collections.abc import Callable

import pytest

from counterpoise.broker.connection import ConnectionConfig
from counterpoise.names.topic import TopicName
from counterpoise.wire.errors import ServerError
from tests.broker.connection.held_store import HeldStore
from tests.broker.connection.one_broker import OneBroker
from tests.broker.connection.raw_client import RawClient
from tests.waiting import WITHIN_S
from tests.wire import frames
from tests.wire.frames import Type

UNASKED = (1 << 64) - 1


def receipts(client: RawClient, count: int) -> list[tuple[int, int, int]]:
    """Return the next receipts: producer, sequence id, entry id."""
    got = [client.receive(Type.SEND_RECEIPT).send_receipt for _ in range(count)]
    return [(each.producer_id, each.sequence_id, each.message_id.entry_id) for each in got]


def test_receipts_come_in_order(client: RawClient, topic: str) -> None:
    client.produce(topic)
    client.send(b"".join(frames.send(0, number) for number in range(3000)))
    assert receipts(client, 3000) == [(0, number, number) for number in range(3000)]


def test_receipts_of_a_batch_name_both_ends(client: RawClient, topic: str) -> None:
    client.produce(topic)
    client.send(frames.send(0, 5, num_messages=4, highest_sequence_id=8))
    receipt = client.receive(Type.SEND_RECEIPT).send_receipt
    assert (receipt.sequence_id, receipt.highest_sequence_id) == (5, 8)


def test_nothing_is_confirmed_before_it_is_stored(topic: str) -> None:
    store = HeldStore()
    with OneBroker(store) as broker, RawClient(broker.service_url) as client:
        client.connect()
        client.produce(topic)
        store.hold()
        client.send(frames.send(0, 0) + frames.send(0, 1))
        assert store.waiting.wait(WITHIN_S)
        client.command("ping")
        client.receive(Type.PONG)  # and no receipt before it
        broker.run(store.release())
        assert receipts(client, 2) == [(0, 0, 0), (0, 1, 1)]


def test_closing_waits_for_the_receipts(topic: str) -> None:
    store = HeldStore()
    with OneBroker(store) as broker, RawClient(broker.service_url) as client:
        client.connect()
        client.produce(topic)
        store.hold()
        client.send(frames.send(0, 0))
        client.command("close_producer", producer_id=0, request_id=9)
        assert store.waiting.wait(WITHIN_S)
        client.ping()
        # Until then its id is taken: who asks for it may ask again.
        client.command("producer", topic=topic, producer_id=0, request_id=10)
        error = client.receive(Type.ERROR).error
        assert (error.request_id, error.error) == (10, ServerError.ServiceNotReady)
        broker.run(store.release())
        assert receipts(client, 1) == [(0, 0, 0)]
        assert client.receive(Type.SUCCESS).success.request_id == 9
        client.produce(topic)


def test_a_topic_that_leaves_does_not_keep_a_producer_that_is_being_closed(topic: str) -> None:
    """Its close is answered, though nothing that pends is; the topic's other producers leave."""
    store = HeldStore()
    with OneBroker(store) as broker, RawClient(broker.service_url) as client:
        client.connect()
        client.produce(topic, producer_id=0)
        client.produce(topic, producer_id=1)
        store.hold()
        client.send(frames.send(0, 0))
        client.command("close_producer", producer_id=0, request_id=9)
        assert store.waiting.wait(WITHIN_S)
        client.ping()

        async def disconnect() -> None:
            broker.topics.loaded[TopicName.parse(topic)].disconnect(None)

        broker.run(disconnect())
        assert client.receive(Type.SUCCESS).success.request_id == 9
        assert client.receive(Type.CLOSE_PRODUCER).close_producer.producer_id == 1
        broker.run(store.release())
        client.ping()


def test_an_id_can_be_used_again(client: RawClient, topic: str) -> None:
    client.produce(topic)
    client.command("close_producer", producer_id=0, request_id=9)
    client.receive(Type.SUCCESS)
    client.produce(f"{topic}-2")
    client.send(frames.send(0, 0))
    assert receipts(client, 1) == [(0, 0, 0)]


def test_asking_twice_is_answered_twice(client: RawClient, topic: str) -> None:
    first = client.produce(topic).producer_success
    second = client.produce(topic).producer_success
    assert first.producer_name == second.producer_name
    assert first.request_id != second.request_id


def test_a_damaged_entry_is_refused_alone(client: RawClient, topic: str) -> None:
    client.produce(topic)
    damaged = bytearray(frames.entry())
    damaged[-1] ^= 1
    client.send(frames.send(0, 0, bytes(damaged)))
    error = client.receive(Type.SEND_ERROR).send_error
    assert (error.sequence_id, error.error) == (0, ServerError.ChecksumError)
    client.send(frames.send(0, 1))
    assert receipts(client, 1) == [(0, 1, 0)]


def test_an_unknown_topic_name_is_refused(client: RawClient) -> None:
    client.command("producer", topic="a://b", producer_id=0, request_id=1)
    error = client.receive(Type.ERROR).error
    assert error.error == ServerError.InvalidTopicName


def test_closing_what_is_not_there(client: RawClient) -> None:
    client.command("close_producer", producer_id=4, request_id=1)
    error = client.receive(Type.ERROR).error
    assert (error.error, error.message) == (
        ServerError.UnknownError,
        "Producer was not registered on the connection",
    )


def test_an_unload_sends_the_client_away(broker: OneBroker, client: RawClient, topic: str) -> None:
    client.produce(topic, producer_id=3)
    client.send(frames.send(3, 0))
    assert receipts(client, 1) == [(3, 0, 0)]
    broker.run(broker.topics.unload_topic(TopicName.parse(topic)))
    # These were on their way when the topic left: dropped, to be sent again.
    client.send(frames.send(3, 1) + frames.send(3, 2))
    close = client.receive(Type.CLOSE_PRODUCER).close_producer
    assert (close.producer_id, close.request_id) == (3, UNASKED)
    assert not close.HasField("assigned_broker_service_url")
    client.produce(topic, producer_id=3)
    client.send(frames.send(3, 1) + frames.send(3, 2))
    assert receipts(client, 2) == [(3, 1, 0), (3, 2, 1)]


def test_too_much_pending_stops_reading(topic: str) -> None:
    """With a limit of 10 nothing more is read until 5 are stored; nothing is lost meanwhile."""
    store = HeldStore()
    config = ConnectionConfig(max_pending_publish_requests=10)
    with OneBroker(store, config) as broker, RawClient(broker.service_url) as client:
        client.connect()
        client.produce(topic)
        store.hold()
        client.send(b"".join(frames.send(0, number) for number in range(10)))
        assert store.waiting.wait(WITHIN_S)
        client.command("ping")
        client.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.receive()
        client.socket.settimeout(WITHIN_S)
        client.send(b"".join(frames.send(0, number) for number in range(10, 500)))
        broker.run(store.release())
        got = [client.receive() for _ in range(501)]
        assert [each.send_receipt.sequence_id for each in got if each.type != Type.PONG] == list(
            range(500)
        )


def test_an_unload_lets_a_throttled_connection_read_again(topic: str) -> None:
    """What an unload drops is never answered, and must not count as pending for ever."""
    config = ConnectionConfig(max_pending_publish_requests=10)
    store = HeldStore()
    with OneBroker(store, config) as broker, RawClient(broker.service_url) as client:
        client.connect()
        client.produce(topic)
        loaded = broker.topics.loaded[TopicName.parse(topic)]

        async def closing() -> None:
            loaded.closing = True

        broker.run(closing())  # what quiesce does first: from here on sends are dropped
        client.send(b"".join(frames.send(0, number) for number in range(50)))
        client.command("ping")

        async def disconnect() -> None:
            loaded.disconnect(None)

        broker.run(disconnect())
        kinds = {client.receive().type for _ in range(2)}
        assert kinds == {Type.CLOSE_PRODUCER, Type.PONG}


def test_a_producer_that_was_sent_away_keeps_nothing_of_its_topic(
    broker: OneBroker, dial: Callable[[], RawClient], topic: str
) -> None:
    """Neither its name nor exclusive access: its client may never come back."""
    away, other = dial(), dial()
    away.connect()
    other.connect()
    away.produce(topic, producer_name="p", producer_access_mode=1)

    async def send_away() -> int:
        loaded = broker.topics.loaded[TopicName.parse(topic)]
        loaded.disconnect_producers()
        return loaded.attached_clients()

    assert broker.run(send_away()) == 0
    away.receive(Type.CLOSE_PRODUCER)
    assert other.produce(topic, producer_name="p").producer_success.producer_ready


def test_waiting_for_exclusive_access(dial: Callable[[], RawClient], topic: str) -> None:
    holder, waiter = dial(), dial()
    holder.connect()
    waiter.connect()
    first = holder.produce(topic, producer_access_mode=1).producer_success
    assert first.producer_ready
    waiting = waiter.produce(topic, producer_access_mode=2).producer_success
    assert not waiting.producer_ready
    holder.command("close_producer", producer_id=0, request_id=9)
    ready = waiter.receive(Type.PRODUCER_SUCCESS).producer_success
    assert ready.request_id == waiting.request_id
    assert ready.producer_ready
    assert ready.topic_epoch == first.topic_epoch + 1


def test_fencing_refuses_a_producer_that_waits(dial: Callable[[], RawClient], topic: str) -> None:
    holder, waiter, usurper = dial(), dial(), dial()
    for each in (holder, waiter, usurper):
        each.connect()
    holder.produce(topic, producer_access_mode=1)
    waiting = waiter.produce(topic, producer_access_mode=2).producer_success
    usurper.produce(topic, producer_access_mode=3)
    refused = waiter.receive(Type.ERROR).error
    assert (refused.request_id, refused.error) == (waiting.request_id, ServerError.ProducerFenced)
    assert not waiter.produce(topic, producer_access_mode=2).producer_success.producer_ready


def test_a_producer_brings_the_subscription_it_asks_for(
    broker: OneBroker, client: RawClient, topic: str
) -> None:
    client.produce(topic, initial_subscription_name="dead-letters")
    loaded = broker.run(broker.topics.get(TopicName.parse(topic)))
    assert list(loaded.subscriptions) == ["dead-letters"]
