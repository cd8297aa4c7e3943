"""Consumers on the wire: permits, acknowledgement, back-pressure, seeking, unloading."""

import asyncio
import socket
import struct
from collections.abc import Callable

import pytest

from counterpoise.broker.topic.options import TopicOptions
from counterpoise.broker.topic.ports import KeySharedMeta, SubscribeRequest
from counterpoise.names.position import Position
from counterpoise.names.topic import TopicName
from counterpoise.wire.errors import ServerError
from counterpoise.wire.values import InitialPosition, SubscriptionType
from tests.broker.connection.one_broker import OneBroker
from tests.broker.connection.raw_client import RawClient
from tests.broker.topic.conftest import batch
from tests.waiting import WITHIN_S, until
from tests.wire import frames
from tests.wire.frames import Type

UNASKED = (1 << 64) - 1


def publish(client: RawClient, topic: str, count: int, size: int = 10) -> None:
    """Store messages ``0…`` of ``size`` bytes, with a producer that is closed again."""
    client.produce(topic, producer_id=9)
    for number in range(count):
        body = frames.entry(b"%d" % number + b"." * size, sequence_id=number)
        client.send(frames.send(9, number, body))
        client.receive(Type.SEND_RECEIPT)
    client.command("close_producer", producer_id=9, request_id=1)
    client.receive(Type.SUCCESS)


def flow(client: RawClient, permits: int, consumer_id: int = 0) -> None:
    client.command("flow", consumer_id=consumer_id, message_permits=permits)


def quiet(client: RawClient) -> None:
    """Nothing was written before the answer to a ping."""
    client.ping()


def number(entry: bytes) -> int:
    size = int.from_bytes(entry[6:10], "big")
    return int(entry[10 + size :].split(b".")[0])


def take(client: RawClient, count: int) -> list[int]:
    return [number(client.receive_with_entry(Type.MESSAGE)[1]) for _ in range(count)]


def test_permits_are_kept(client: RawClient, topic: str) -> None:
    client.subscribe(topic)
    publish(client, topic, 10)
    quiet(client)
    flow(client, 3)
    assert take(client, 3) == [0, 1, 2]
    quiet(client)
    flow(client, 1)
    assert take(client, 1) == [3]
    flow(client, 100)
    assert take(client, 6) == [4, 5, 6, 7, 8, 9]
    quiet(client)


def test_the_entry_arrives_byte_for_byte(client: RawClient, topic: str) -> None:
    client.subscribe(topic)
    client.produce(topic)
    body = frames.entry(b"payload", partition_key="k", properties=[{"key": "a", "value": "b"}])
    client.send(frames.send(0, 0, body))
    receipt = client.receive(Type.SEND_RECEIPT).send_receipt
    flow(client, 1)
    command, entry = client.receive_with_entry(Type.MESSAGE)
    assert entry == body
    assert command.message.message_id.ledger_id == receipt.message_id.ledger_id
    assert command.message.message_id.entry_id == receipt.message_id.entry_id
    assert not command.message.HasField("redelivery_count")


def ack(client: RawClient, *entries: int, ledger_id: int, **more: object) -> None:
    client.command(
        "ack",
        **{
            "consumer_id": 0,
            "ack_type": 0,
            "message_id": [{"ledger_id": ledger_id, "entry_id": entry} for entry in entries],
            **more,
        },
    )


def test_acks_are_answered_when_asked(client: RawClient, topic: str) -> None:
    client.subscribe(topic)
    publish(client, topic, 3)
    flow(client, 3)
    ids = [client.receive(Type.MESSAGE).message.message_id for _ in range(3)]
    ack(client, 0, 2, ledger_id=ids[0].ledger_id, request_id=55)
    response = client.receive(Type.ACK_RESPONSE).ack_response
    assert (response.request_id, response.consumer_id) == (55, 0)
    assert not response.HasField("error")
    client.command("redeliver_unacknowledged_messages", consumer_id=0)
    flow(client, 3)
    command, entry = client.receive_with_entry(Type.MESSAGE)
    assert number(entry) == 1
    assert command.message.redelivery_count == 1
    quiet(client)


def test_what_a_consumer_leaves_behind_counts_as_no_redelivery(
    client: RawClient, topic: str
) -> None:
    """As in Pulsar: the count is how often a consumer asked for another delivery."""
    client.subscribe(topic)
    publish(client, topic, 1)
    flow(client, 1)
    client.receive(Type.MESSAGE)
    client.command("redeliver_unacknowledged_messages", consumer_id=0)
    flow(client, 1)
    assert client.receive(Type.MESSAGE).message.redelivery_count == 1
    client.subscribe(topic, 1)
    client.command("close_consumer", consumer_id=0, request_id=9)
    client.receive(Type.SUCCESS)
    client.command("flow", consumer_id=1, message_permits=1)
    assert client.receive(Type.MESSAGE).message.redelivery_count == 1


@pytest.mark.parametrize(
    ("kind", "entries", "left"),
    [(0, [1], [2, 3]), (0, [0, 2], [0, 1, 2, 3]), (0, [], [0, 1, 2, 3]), (1, [1], [0, 1, 2, 3])],
)
def test_a_cumulative_ack_names_one_message_of_a_subscription_in_order(
    client: RawClient, topic: str, kind: int, entries: list[int], left: list[int]
) -> None:
    """Others acknowledge nothing and are answered all the same (``Consumer.messageAcked``)."""
    client.subscribe(topic, sub_type=kind)
    publish(client, topic, 4)
    flow(client, 4)
    ids = [client.receive(Type.MESSAGE).message.message_id for _ in range(4)]
    ack(client, *entries, ledger_id=ids[0].ledger_id, ack_type=1, request_id=55)
    response = client.receive(Type.ACK_RESPONSE).ack_response
    assert (response.request_id, response.HasField("error")) == (55, False)
    client.command("redeliver_unacknowledged_messages", consumer_id=0)
    flow(client, 4)
    assert take(client, len(left)) == left
    quiet(client)


def test_a_consumer_that_cannot_read_its_messages_is_logged_once(
    client: RawClient, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It may be unable to read any; it acknowledges them, and they do not come again."""
    client.subscribe(topic, consumer_id=3)
    publish(client, topic, 2)
    flow(client, 2, consumer_id=3)
    ids = [client.receive(Type.MESSAGE).message.message_id for _ in range(2)]
    for number, each in enumerate(ids):
        ack(
            client,
            each.entry_id,
            ledger_id=each.ledger_id,
            consumer_id=3,
            validation_error=1,
            request_id=number,
        )
        assert client.receive(Type.ACK_RESPONSE).ack_response.request_id == number
    (logged,) = [it.getMessage() for it in caplog.records if "cannot read" in it.getMessage()]
    assert "consumer 3" in logged
    assert "validation error 1" in logged
    client.command("redeliver_unacknowledged_messages", consumer_id=3)
    flow(client, 2, consumer_id=3)
    quiet(client)


def test_where_a_topic_ends_and_how_far_it_is_acknowledged(client: RawClient, topic: str) -> None:
    client.subscribe(topic)
    publish(client, topic, 4)
    flow(client, 4)
    ids = [client.receive(Type.MESSAGE).message.message_id for _ in range(4)]
    for entry, mark in ((None, -1), (1, -1), (0, 1)):
        if entry is not None:
            ack(client, entry, ledger_id=ids[0].ledger_id, request_id=1)
            client.receive(Type.ACK_RESPONSE)
        client.command("get_last_message_id", consumer_id=0, request_id=7)
        response = client.receive().get_last_message_id_response
        last, marked = response.last_message_id, response.consumer_mark_delete_position
        assert (response.request_id, last.ledger_id) == (7, ids[3].ledger_id)
        assert last.entry_id == ids[3].entry_id
        assert marked.entry_id == mark % (1 << 64)


def test_a_consumer_that_subscribes_again_is_the_same(client: RawClient, topic: str) -> None:
    """As a client does that gave up waiting for the first answer."""
    first, second = client.subscribe(topic, sub_type=0), client.subscribe(topic, sub_type=0)
    assert first.success.request_id != second.success.request_id
    publish(client, topic, 1)
    flow(client, 2)
    assert take(client, 1) == [0]
    quiet(client)


def test_acks_in_a_transaction_are_refused(client: RawClient, topic: str) -> None:
    client.subscribe(topic)
    ack(client, 0, ledger_id=0, request_id=55, txnid_most_bits=1, txnid_least_bits=1)
    assert client.receive(Type.ACK_RESPONSE).ack_response.error == ServerError.NotAllowedError


def test_messages_carry_the_epoch_of_their_consumer(client: RawClient, topic: str) -> None:
    client.subscribe(topic, sub_type=0, consumer_epoch=4)
    publish(client, topic, 2)
    flow(client, 2)
    for _ in range(2):
        assert client.receive(Type.MESSAGE).message.consumer_epoch == 4
    client.command("redeliver_unacknowledged_messages", consumer_id=0, consumer_epoch=5)
    flow(client, 2)
    for _ in range(2):
        assert client.receive(Type.MESSAGE).message.consumer_epoch == 5


def test_a_seek_disconnects_then_succeeds(client: RawClient, topic: str) -> None:
    client.subscribe(topic)
    publish(client, topic, 5)
    flow(client, 10)
    first = client.receive(Type.MESSAGE).message.message_id
    take(client, 4)
    client.command(
        "seek",
        consumer_id=0,
        request_id=3,
        message_id={"ledger_id": first.ledger_id, "entry_id": 2, "ack_set": [1]},
    )
    answers = {client.receive().type for _ in range(2)}
    assert answers == {Type.CLOSE_CONSUMER, Type.SUCCESS}
    client.subscribe(topic)
    flow(client, 10)
    got = [client.receive(Type.MESSAGE).message for _ in range(3)]
    assert [(it.message_id.entry_id, [*it.ack_set]) for it in got] == [(2, [1]), (3, []), (4, [])]


def test_a_seek_to_a_time_is_in_milliseconds(client: RawClient, topic: str) -> None:
    client.subscribe(topic)
    client.produce(topic, producer_id=9)
    for sent in range(4):
        body = frames.entry(b"%d." % sent, sequence_id=sent, publish_time=1000 + sent)
        client.send(frames.send(9, sent, body))
        client.receive(Type.SEND_RECEIPT)
    client.command("seek", consumer_id=0, request_id=3, message_publish_time=1002)
    assert {client.receive().type for _ in range(2)} == {Type.CLOSE_CONSUMER, Type.SUCCESS}
    client.subscribe(topic)
    flow(client, 10)
    assert take(client, 2) == [2, 3]


def test_a_seek_to_nowhere_is_refused(client: RawClient, topic: str) -> None:
    client.subscribe(topic)
    client.command("seek", consumer_id=0, request_id=3)
    assert client.receive(Type.ERROR).error.error == ServerError.MetadataError


@pytest.mark.parametrize("field", ["seek", "unsubscribe", "get_last_message_id", "close_consumer"])
def test_requests_about_no_consumer(client: RawClient, field: str) -> None:
    client.command(field, consumer_id=77, request_id=3)
    error = client.receive(Type.ERROR).error
    assert (error.request_id, error.error, error.message) == (
        3,
        ServerError.MetadataError,
        "Consumer not found",
    )


def test_late_words_of_a_closed_consumer_are_ignored(client: RawClient, topic: str) -> None:
    client.subscribe(topic)
    client.command("close_consumer", consumer_id=0, request_id=2)
    client.receive(Type.SUCCESS)
    flow(client, 5)
    ack(client, 0, ledger_id=0)
    quiet(client)


def test_consumer_stats(client: RawClient, topic: str) -> None:
    client.subscribe(topic, consumer_name="me")
    publish(client, topic, 3)
    flow(client, 2)
    take(client, 2)
    client.command("consumer_stats", consumer_id=0, request_id=8)
    stats = client.receive(Type.CONSUMER_STATS_RESPONSE).consumer_stats_response
    assert (stats.request_id, stats.consumer_name, stats.type) == (8, "me", "Shared")
    assert (stats.available_permits, stats.unacked_messages, stats.msg_backlog) == (0, 2, 3)
    flow(client, 1)
    assert take(client, 1) == [2]
    client.produce(topic, producer_id=9)
    client.send(frames.send(9, 4, batch(3, sequence_id=4)))
    client.receive(Type.SEND_RECEIPT)
    flow(client, 1)
    client.receive(Type.MESSAGE)
    client.command("consumer_stats", consumer_id=0, request_id=8)
    stats = client.receive(Type.CONSUMER_STATS_RESPONSE).consumer_stats_response
    assert (stats.available_permits, stats.unacked_messages, stats.msg_backlog) == (0, 6, 4)
    client.command("consumer_stats", consumer_id=5, request_id=9)
    stats = client.receive(Type.CONSUMER_STATS_RESPONSE).consumer_stats_response
    assert stats.error_code == ServerError.ConsumerNotFound


@pytest.mark.parametrize("is_reader", [False, True])
def test_all_that_a_consumer_asks_for_reaches_its_topic(
    broker: OneBroker, client: RawClient, topic: str, is_reader: bool
) -> None:
    ranges = [{"start": 5, "end": 9}, {"start": 20, "end": 30}]
    sticky = {"key_shared_mode": 1, "hash_ranges": ranges, "allow_out_of_order_delivery": True}
    reader = {"durable": False, "start_message_id": {"ledger_id": 3, "entry_id": 4}}
    client.subscribe(
        topic,
        7,
        "asked",
        consumer_name="me",
        consumer_epoch=2,
        priority_level=4,
        initial_position=1,
        metadata=[{"key": "a", "value": "b"}],
        subscription_properties=[{"key": "c", "value": "d"}],
        sub_type=0 if is_reader else 3,
        **({**reader, "read_compacted": True} if is_reader else {"key_shared_meta": sticky}),
    )

    async def request() -> SubscribeRequest:
        found = (await broker.topics.get(TopicName.parse(topic))).subscriptions["asked"]
        [consumer] = found.consumers
        return consumer.request

    asked = broker.run(request())
    address = asked.address
    assert address.startswith("/127.0.0.1:")
    assert asked == SubscribeRequest(
        subscription="asked",
        type=SubscriptionType.Exclusive if is_reader else SubscriptionType.Key_Shared,
        consumer_id=7,
        consumer_name="me",
        priority_level=4,
        durable=not is_reader,
        initial_position=InitialPosition.Earliest,
        start_message_id=Position(3, 4) if is_reader else None,
        read_compacted=is_reader,
        key_shared=KeySharedMeta(
            None if is_reader else ((5, 9), (20, 30)), allow_out_of_order=not is_reader
        ),
        consumer_epoch=2,
        metadata={"a": "b"},
        properties={"c": "d"},
        address=address,
        client_version="raw",
    )


def test_an_unload_sends_the_client_away(broker: OneBroker, client: RawClient, topic: str) -> None:
    client.subscribe(topic, consumer_id=6)
    broker.run(broker.topics.unload_topic(TopicName.parse(topic)))
    close = client.receive(Type.CLOSE_CONSUMER).close_consumer
    assert (close.consumer_id, close.request_id) == (6, UNASKED)
    flow(client, 5, consumer_id=6)  # the client had not heard yet
    client.subscribe(topic, consumer_id=6)


def test_a_client_that_does_not_read_is_not_buffered_for(
    broker: OneBroker, client: RawClient, topic: str
) -> None:
    """Of 60 MB that it has permits for, only a few leave; each consumer gets all, in order."""
    publish(client, topic, 30, size=1_000_000)
    before = broker.listener.bytes_out
    for consumer_id, name in enumerate("st"):
        client.subscribe(topic, consumer_id, name, sub_type=0, initial_position=1)
    for consumer_id in range(2):
        flow(client, 1000, consumer_id)

    (consumer,) = broker.topics.loaded[TopicName.parse(topic)].subscriptions["s"].consumers

    async def written() -> int:
        """What leaves until the connection takes no more."""
        await until(lambda: not consumer.sink.writable, "the connection is full")
        return broker.listener.bytes_out

    assert broker.run(written()) - before < 30_000_000
    got: dict[int, list[int]] = {0: [], 1: []}
    for _ in range(60):
        message, entry = client.receive_with_entry(Type.MESSAGE)
        got[message.message.consumer_id].append(number(entry))
    assert got == {0: list(range(30)), 1: list(range(30))}


FAILOVER = 2


def two(dial: Callable[[], RawClient]) -> tuple[RawClient, RawClient]:
    """Two connections that have said hello."""
    clients = dial(), dial()
    for each in clients:
        each.connect()
    return clients


def test_the_first_consumer_is_notified_that_it_is_active_when_it_can_take_notifications(
    dial: Callable[[], RawClient], topic: str
) -> None:
    """Go's client registers a consumer after it has read the answer to its SUBSCRIBE."""
    first, second = two(dial)
    first.subscribe(topic, sub_type=FAILOVER, consumer_name="a")
    first.ping()
    change = first.receive(Type.ACTIVE_CONSUMER_CHANGE).active_consumer_change
    assert (change.consumer_id, change.is_active) == (0, True)
    second.subscribe(topic, sub_type=FAILOVER, consumer_name="b", priority_level=1)
    change = second.receive(Type.ACTIVE_CONSUMER_CHANGE).active_consumer_change
    assert change.is_active is False
    quiet(first)
    first.close()
    change = second.receive(Type.ACTIVE_CONSUMER_CHANGE).active_consumer_change
    assert change.is_active is True


def test_a_consumer_of_a_topic_that_has_ended_is_notified_of_all_after_its_success(
    topic: str,
) -> None:
    at_once = TopicOptions(failover_delay_ms=0)
    with OneBroker(options=at_once) as broker, RawClient(broker.service_url) as client:
        client.connect()
        publish(client, topic, 1)
        broker.run(broker.topics.terminate(TopicName.parse(topic)))
        client.subscribe(topic, sub_type=FAILOVER)
        assert client.receive(Type.ACTIVE_CONSUMER_CHANGE).active_consumer_change.is_active
        assert client.receive(Type.REACHED_END_OF_TOPIC).reached_end_of_topic.consumer_id == 0


def test_a_consumer_that_comes_back_has_nothing_of_the_one_before_it(topic: str) -> None:
    """Neither its epoch, nor what followed its success."""
    at_once = TopicOptions(failover_delay_ms=0)
    with OneBroker(options=at_once) as broker, RawClient(broker.service_url) as client:
        client.connect()
        publish(client, topic, 1)
        client.subscribe(topic, sub_type=FAILOVER, consumer_epoch=4)
        client.receive(Type.ACTIVE_CONSUMER_CHANGE)
        broker.run(broker.topics.unload_topic(TopicName.parse(topic)))
        client.receive(Type.CLOSE_CONSUMER)
        client.subscribe(topic, name="other", initial_position=1)
        quiet(client)
        flow(client, 1)
        assert not client.receive(Type.MESSAGE).message.HasField("consumer_epoch")


@pytest.mark.parametrize("name", ["", " ", "\t\n"])
def test_a_subscription_has_a_name(client: RawClient, topic: str, name: str) -> None:
    client.command(
        "subscribe", topic=topic, subscription=name, sub_type=1, consumer_id=1, request_id=3
    )
    error = client.receive(Type.ERROR).error
    assert (error.request_id, error.error) == (3, ServerError.ProducerBusy)
    assert error.message == "Empty subscription name"


def test_a_refused_consumer_hears_nothing_more(dial: Callable[[], RawClient], topic: str) -> None:
    first, second = two(dial)
    first.subscribe(topic)
    second.command(
        "subscribe", topic=topic, subscription="s", consumer_id=0, request_id=1, sub_type=FAILOVER
    )
    second.receive(Type.ERROR)
    quiet(second)


@pytest.mark.parametrize("kind", [0, 1, 2, 3])
def test_a_lost_connection_leaves_no_consumer_behind(
    broker: OneBroker, dial: Callable[[], RawClient], topic: str, kind: int
) -> None:
    lost, other = two(dial)
    publish(other, topic, 3)
    lost.subscribe(topic, sub_type=kind, initial_position=1)
    if kind == FAILOVER:
        lost.receive(Type.ACTIVE_CONSUMER_CHANGE)
    flow(lost, 10)
    assert take(lost, 3) == [0, 1, 2]
    subscription = broker.topics.loaded[TopicName.parse(topic)].subscriptions["s"]
    assert len(subscription.consumers) == 1
    # Reset, not closed: what a machine that dies leaves behind.
    lost.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    lost.close()

    async def gone() -> None:
        async with asyncio.timeout(WITHIN_S):
            while subscription.consumers:  # noqa: ASYNC110 - turns of the broker's loop
                await asyncio.sleep(0)

    broker.run(gone())
    other.subscribe(topic, sub_type=kind, consumer_name="other")
    if kind == FAILOVER:
        other.receive(Type.ACTIVE_CONSUMER_CHANGE)
    flow(other, 10)
    assert take(other, 3) == [0, 1, 2]


def test_a_subscribe_that_is_refused_leaves_its_id_free(client: RawClient, topic: str) -> None:
    client.command(
        "subscribe", topic="a://b", subscription="s", sub_type=1, consumer_id=5, request_id=1
    )
    assert client.receive(Type.ERROR).error.error == ServerError.InvalidTopicName
    client.subscribe(topic, 5)
