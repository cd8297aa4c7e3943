"""SENDs in a row: served together, they count and are answered as each of them alone."""

import time

import pytest

from counterpoise.broker.connection import ConnectionConfig
from counterpoise.broker.connection.pause import PauseReason
from counterpoise.broker.limits.publish_flow import ProducerFlow
from counterpoise.broker.limits.runner import LimitRunner
from counterpoise.names.topic import TopicName
from counterpoise.wire.entry import build
from counterpoise.wire.errors import ServerError
from counterpoise.wire.proto.metadata_pb2 import MessageMetadata
from tests.broker.connection.held_store import HeldStore
from tests.broker.connection.one_broker import OneBroker
from tests.broker.connection.raw_client import RawClient
from tests.waiting import found_soon
from tests.wire import frames
from tests.wire.frames import Type

NO_BATCH = build(
    MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=1000),
    b"too short for a thousand messages",
)


async def pauses(broker: OneBroker) -> list[PauseReason]:
    """Why the only client is not read."""
    return [why for why, clients in broker.listener.paused().items() if clients]


async def waiting(broker: OneBroker) -> int:
    """Bytes of entries that are not answered."""
    return broker.listener.publish_buffer.waiting


@pytest.mark.parametrize("order", [[0], [0] * 6, [0, 1, 0]], ids=str)
def test_a_row_takes_its_messages_and_its_bytes_of_a_limit(topic: str, order: list[int]) -> None:
    with OneBroker(HeldStore()) as broker, RawClient(broker.service_url) as client:
        client.connect()
        for producer in (0, 1):
            client.produce(f"{topic}-{producer}", producer)
        (attached,) = broker.topics.loaded[TopicName.parse(f"{topic}-0")].attached_producers()
        flow = attached.flow = ProducerFlow(LimitRunner(time.monotonic_ns), attached, ())
        flow.free_messages, flow.free_bytes = 100, 10_000
        bodies = [frames.entry(b"x" * (10 + number)) for number in range(len(order))]
        client.send(b"".join(frames.send(who, n, bodies[n]) for n, who in enumerate(order)))
        for _ in order:
            client.receive(Type.SEND_RECEIPT)
        taken = [len(bodies[n]) for n, who in enumerate(order) if who == 0]
        assert flow.free_messages == 100 - len(taken)
        assert flow.free_bytes == 10_000 - sum(taken)


ORDERS = [[0] * 6, [0, 1] * 3, [0, 0, 1, 1, 0, 1], [1, 0, 0, 0, 0, 0]]


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_each_is_counted_once(topic: str, order: list[int]) -> None:
    """A connection with as many pending as may be is not read; with one less it is."""
    for most in (len(order), len(order) + 1):
        store, config = HeldStore(), ConnectionConfig(max_pending_publish_requests=most)
        with OneBroker(store, config) as broker, RawClient(broker.service_url) as client:
            client.connect()
            for producer in (0, 1):
                client.produce(f"{topic}-{producer}", producer)
            store.hold()
            with broker.held():
                client.send(b"".join(frames.send(who, n) for n, who in enumerate(order)))
            found_soon(store.waiting.is_set)
            is_full = most == len(order)
            assert broker.run(pauses(broker)) == [PauseReason.PENDING_PUBLISHES] * is_full
            broker.run(store.release())
            for _ in order:
                client.receive(Type.SEND_RECEIPT)
            assert broker.run(pauses(broker)) == []


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_each_is_answered_in_order_and_a_close_after_them(topic: str, order: list[int]) -> None:
    store = HeldStore()
    with OneBroker(store) as broker, RawClient(broker.service_url) as client:
        client.connect()
        for producer in (0, 1):
            client.produce(f"{topic}-{producer}", producer)
        bodies = [frames.entry(b"x" * (10 + number)) for number in range(len(order))]
        store.hold()
        client.send(b"".join(frames.send(who, n, bodies[n]) for n, who in enumerate(order)))
        there = [producer for producer in (0, 1) if producer in order]
        for producer in there:
            client.command("close_producer", producer_id=producer, request_id=90 + producer)
        client.ping()
        assert broker.run(waiting(broker)) == sum(map(len, bodies))
        broker.run(store.release())
        got: dict[int, list[int]] = {0: [], 1: []}
        for _ in range(len(order) + len(there)):
            answer = client.receive()
            if answer.type == Type.SUCCESS:
                got[answer.success.request_id - 90].append(-1)
            else:
                receipt = answer.send_receipt
                got[receipt.producer_id].append(receipt.sequence_id)
        for producer in there:
            sent = [n for n, who in enumerate(order) if who == producer]
            assert got[producer] == [*sent, -1], "closed when all is answered, and not before"
        assert broker.run(waiting(broker)) == 0


def test_one_that_is_refused_is_answered_alone(topic: str) -> None:
    """Its answer comes while the row is still being served, and finds it counted."""
    config = ConnectionConfig(max_pending_publish_requests=1)
    with OneBroker(config=config) as broker, RawClient(broker.service_url) as client:
        client.connect()
        client.produce(topic)
        bodies = [frames.entry(), NO_BATCH, frames.entry()]
        client.send(b"".join(frames.send(0, n, body) for n, body in enumerate(bodies)))
        error = client.receive(Type.SEND_ERROR).send_error
        assert (error.sequence_id, error.error) == (1, ServerError.NotAllowedError)
        receipts = [client.receive(Type.SEND_RECEIPT).send_receipt for _ in range(2)]
        assert [each.sequence_id for each in receipts] == [0, 2]
        assert [each.message_id.entry_id for each in receipts] == [0, 1]
        assert broker.run(waiting(broker)) == 0
        assert broker.run(pauses(broker)) == [], "nothing pends"
