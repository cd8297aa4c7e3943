"""Publish limits on the wire: who shares a connection with a throttled producer loses nothing."""

from collections.abc import Iterator

import pytest

from counterpoise.broker.connection import ConnectionConfig
from counterpoise.broker.connection.pause import PauseReason
from counterpoise.broker.limits.rates import Rate, TopicRates
from counterpoise.names.topic import TopicName
from tests.broker.connection.held_store import HeldStore
from tests.broker.connection.one_broker import OneBroker
from tests.broker.connection.raw_client import RawClient
from tests.waiting import until
from tests.wire import frames
from tests.wire.frames import Type

SLOW = TopicRates(Rate(messages=1_000_000, size=1))
"""So slow that nothing comes free while a test runs."""


class SlowBroker(OneBroker):
    """Topics whose names begin with "slow" pass one entry, and then hardly another."""

    limited = True

    async def rates_of(self, topic: TopicName) -> TopicRates:
        slow = self.limited and topic.local_name.startswith("slow")
        return SLOW if slow else TopicRates()

    async def free(self) -> None:
        self.limited = False
        await self.topics.limits.refresh(self.topics.limits.topics)

    async def reasons(self) -> list[PauseReason]:
        (connection,) = self.listener.open_connections
        return list(connection.pause.since())


@pytest.fixture
def slow() -> Iterator[SlowBroker]:
    with SlowBroker(config=ConnectionConfig(throttled_entries_max=100)) as broker:
        yield broker


def both(broker: SlowBroker) -> RawClient:
    """A connection with a producer (0) that is limited, and one (1) that is not."""
    client = RawClient(broker.service_url)
    client.connect()
    client.produce("persistent://public/default/slow", 0)
    client.produce("persistent://public/default/free", 1)
    return client


def receipt(client: RawClient) -> tuple[int, int]:
    got = client.receive(Type.SEND_RECEIPT).send_receipt
    return got.producer_id, got.sequence_id


def test_a_neighbour_on_the_same_connection_is_not_held_up(slow: SlowBroker) -> None:
    with both(slow) as client:
        client.send(b"".join(frames.send(0, number) for number in range(50)))
        assert receipt(client) == (0, 0)
        for number in range(20):
            client.send(frames.send(1, number))
            assert receipt(client) == (1, number)
        client.ping()
        assert slow.run(slow.reasons()) == []
        slow.run(slow.free())
        assert [receipt(client) for _ in range(49)] == [(0, number) for number in range(1, 50)]


def test_with_too_much_held_the_connection_is_not_read_until_there_is_room(
    slow: SlowBroker,
) -> None:
    with both(slow) as client:
        client.send(b"".join(frames.send(0, number) for number in range(101)))
        assert receipt(client) == (0, 0)
        while slow.run(slow.reasons()) != [PauseReason.PUBLISH_RATE]:
            pass
        client.send(frames.send(1, 7))
        slow.run(slow.free())
        got = [receipt(client) for _ in range(101)]
        assert [number for producer, number in got if producer == 0] == list(range(1, 101))
        assert (1, 7) in got
        assert slow.run(slow.reasons()) == []


def test_what_a_limit_releases_to_a_slow_disk_is_pending_from_then_on() -> None:
    """However much that is: the client is not read until half of what may pend is stored."""
    store = HeldStore()
    config = ConnectionConfig(throttled_entries_max=100, max_pending_publish_requests=10)
    with SlowBroker(store, config) as slow, both(slow) as client:
        client.send(b"".join(frames.send(0, number) for number in range(60)))
        assert receipt(client) == (0, 0)
        client.ping()
        assert slow.run(slow.reasons()) == []
        held, buffer = slow.listener.throttled_memory.size, slow.listener.publish_buffer
        assert (held > 0, buffer.waiting) == (True, 0), "it does not wait for the disk as well"
        store.hold()
        slow.run(slow.free())
        assert buffer.waiting == held
        assert slow.run(slow.reasons()) == [PauseReason.PENDING_PUBLISHES]
        slow.run(store.release())
        assert [receipt(client) for _ in range(59)] == [(0, number) for number in range(1, 60)]
        assert slow.run(slow.reasons()) == []


def test_closing_waits_for_what_is_held(slow: SlowBroker) -> None:
    with both(slow) as client:
        client.send(frames.send(0, 0) + frames.send(0, 1))
        client.command("close_producer", producer_id=0, request_id=9)
        assert receipt(client) == (0, 0)
        client.ping()
        slow.run(slow.free())
        assert receipt(client) == (0, 1)
        assert client.receive(Type.SUCCESS).success.request_id == 9


@pytest.mark.parametrize("sent", [50, 150])
def test_a_client_that_goes_leaves_nothing_behind(sent: int) -> None:
    # One that is not read any more is missed when a ping cannot be written.
    config = ConnectionConfig(throttled_entries_max=100, keep_alive_interval_s=2)
    with SlowBroker(config=config) as slow:
        client = both(slow)
        client.send(b"".join(frames.send(0, number) for number in range(sent)))
        assert receipt(client) == (0, 0)
        client.close()
        slow.run(until(lambda: not slow.listener.open_connections, "it is missed"))
        assert slow.listener.throttled_memory.size == 0
        assert slow.listener.publish_buffer.waiting == 0
        assert all(not each.waiting for each in slow.topics.limits.all())


def test_a_topic_that_moves_leaves_nothing_pending() -> None:
    config = ConnectionConfig(throttled_entries_max=100, max_pending_publish_requests=1)
    with SlowBroker(config=config) as slow, both(slow) as client:
        client.send(b"".join(frames.send(0, number) for number in range(50)))
        assert receipt(client) == (0, 0)
        slow.run(slow.topics.unload_topic(TopicName.parse("persistent://public/default/slow")))
        client.receive(Type.CLOSE_PRODUCER)
        assert slow.run(slow.reasons()) == [], "it is read although one may be pending"
        assert slow.listener.throttled_memory.size == 0
        assert slow.listener.publish_buffer.waiting == 0
