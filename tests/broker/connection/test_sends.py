"""SENDs in a row: served together, they count and are answered as each of them alone."""

import time
from typing import Any

import pytest

from counterpoise.broker.limits.publish_flow import ProducerFlow
from counterpoise.broker.limits.runner import LimitRunner
from counterpoise.wire.entry import build
from counterpoise.wire.errors import ServerError
from counterpoise.wire.proto.metadata_pb2 import MessageMetadata
from tests.broker.connection.held_store import HeldStore
from tests.broker.connection.one_broker import OneBroker
from tests.broker.connection.raw_client import RawClient
from tests.wire import frames
from tests.wire.frames import Type

NO_BATCH = build(
    MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=1000),
    b"too short for a thousand messages",
)


class Counts:
    """What a connection counts as not answered."""

    def __init__(self, broker: OneBroker) -> None:
        (self._connection,) = broker.listener.open_connections
        self._broker = broker

    def now(self) -> tuple[int, list[int], list[int]]:
        """In all; by producer; their bytes."""

        async def look() -> Any:
            producing = self._connection._producing
            attached = [producing._attached[number] for number in sorted(producing._attached)]
            return (
                producing._pending,
                [each.pending for each in attached],
                [each.pending_bytes for each in attached],
            )

        return self._broker.run(look())  # type: ignore[no-any-return]


@pytest.mark.parametrize("order", [[0], [0] * 6, [0, 1, 0]], ids=str)
def test_a_row_takes_its_messages_and_its_bytes_of_a_limit(topic: str, order: list[int]) -> None:
    with OneBroker(HeldStore()) as broker, RawClient(broker.service_url) as client:
        client.connect()
        for producer in (0, 1):
            client.produce(f"{topic}-{producer}", producer)
        (connection,) = broker.listener.open_connections
        attached = connection._producing._attached[0].producer
        flow = attached.flow = ProducerFlow(LimitRunner(time.monotonic_ns), attached, ())
        flow.free_messages, flow.free_bytes = 100, 10_000
        bodies = [frames.entry(b"x" * (10 + number)) for number in range(len(order))]
        client.send(b"".join(frames.send(who, n, bodies[n]) for n, who in enumerate(order)))
        for _ in order:
            client.receive(Type.SEND_RECEIPT)
        taken = [len(bodies[n]) for n, who in enumerate(order) if who == 0]
        assert flow.free_messages == 100 - len(taken)
        assert flow.free_bytes == 10_000 - sum(taken)


@pytest.mark.parametrize(
    "order", [[0] * 6, [0, 1] * 3, [0, 0, 1, 1, 0, 1], [1, 0, 0, 0, 0, 0]], ids=str
)
def test_each_is_counted_once_and_answered_in_order(topic: str, order: list[int]) -> None:
    store = HeldStore()
    with OneBroker(store) as broker, RawClient(broker.service_url) as client:
        client.connect()
        for producer in (0, 1):
            client.produce(f"{topic}-{producer}", producer)
        counts = Counts(broker)
        bodies = [frames.entry(b"x" * (10 + number)) for number in range(len(order))]
        store.hold()
        client.send(b"".join(frames.send(who, n, bodies[n]) for n, who in enumerate(order)))
        client.command(Type.PING, "ping")
        client.receive(Type.PONG)
        sizes = [sum(len(bodies[n]) for n, who in enumerate(order) if who == p) for p in (0, 1)]
        assert counts.now() == (6, [order.count(0), order.count(1)], sizes)
        broker.run(store.release())
        got: dict[int, list[int]] = {0: [], 1: []}
        for _ in order:
            receipt = client.receive(Type.SEND_RECEIPT).send_receipt
            got[receipt.producer_id].append(receipt.sequence_id)
        for producer, sequence_ids in got.items():
            assert sequence_ids == [n for n, who in enumerate(order) if who == producer]
        assert counts.now() == (0, [0, 0], [0, 0])


def test_one_that_is_refused_is_answered_alone(topic: str) -> None:
    """Its answer comes while the row is still being served, and finds it counted."""
    with OneBroker() as broker, RawClient(broker.service_url) as client:
        client.connect()
        client.produce(topic)
        counts = Counts(broker)
        bodies = [frames.entry(), NO_BATCH, frames.entry()]
        client.send(b"".join(frames.send(0, n, body) for n, body in enumerate(bodies)))
        error = client.receive(Type.SEND_ERROR).send_error
        assert (error.sequence_id, error.error) == (1, ServerError.NotAllowedError)
        receipts = [client.receive(Type.SEND_RECEIPT).send_receipt for _ in range(2)]
        assert [each.sequence_id for each in receipts] == [0, 2]
        assert [each.message_id.entry_id for each in receipts] == [0, 1]
        assert counts.now() == (0, [0], [0])
