"""Memory for publishes that wait: who has to wait when there is little of it, and who does not."""

import asyncio
import contextlib
from typing import cast

import pytest

from counterpoise.broker.connection import ConnectionConfig
from counterpoise.broker.connection.outbox import MIB
from counterpoise.broker.connection.pause import ReadingPause
from counterpoise.broker.connection.publish_buffer import PublishBuffer, PublishShare
from tests.broker.connection.held_store import HeldStore
from tests.broker.connection.one_broker import OneBroker
from tests.broker.connection.raw_client import RawClient
from tests.broker.connection.test_pause import StrictTransport
from tests.waiting import until
from tests.wire import frames
from tests.wire.frames import Type


class Party:
    """A buffer of 100 bytes and connections that share it."""

    def __init__(self, limit: int = 100) -> None:
        self.buffer = PublishBuffer(limit)

    def connection(self) -> PublishShare:
        transport = cast("asyncio.Transport", StrictTransport())
        share = self.buffer.share(ReadingPause(transport, lambda: 0.0))
        share.join()
        return share


@pytest.fixture
def party() -> Party:
    return Party()


def test_no_client_waits_while_half_is_free(party: Party) -> None:
    share = party.connection()
    party.buffer.add(share, 49)
    assert not share.pause


def test_from_half_on_a_client_with_more_than_its_share_waits(party: Party) -> None:
    hog, modest = party.connection(), party.connection()
    party.buffer.add(hog, 40)
    party.buffer.add(modest, 2)
    party.buffer.add(hog, 10)
    assert hog.pause
    party.buffer.add(modest, 5)
    assert not modest.pause


def test_a_share_is_a_part_among_those_whose_bytes_wait(party: Party) -> None:
    hog, modest, *_idle = (party.connection() for _ in range(10))
    party.buffer.add(hog, 50)
    party.buffer.add(modest, 20)
    assert (bool(hog.pause), bool(modest.pause)) == (True, False)


def test_a_connection_that_is_gone_is_not_paused_when_the_buffer_is_full(party: Party) -> None:
    gone, hog = party.connection(), party.connection()
    gone.leave()
    party.buffer.add(hog, 100)
    assert (bool(gone.pause), bool(hog.pause)) == (False, True)
    hog.leave()
    party.buffer.set_limit(0)
    assert hog.pause, "nor is one that was paused read again"


@pytest.mark.parametrize(("limit", "is_full"), [(40, True), (41, False)])
def test_a_limit_that_is_set_to_what_waits_is_reached(
    party: Party, limit: int, is_full: bool
) -> None:
    hog, modest = party.connection(), party.connection()
    party.buffer.add(hog, 40)
    party.buffer.set_limit(limit)
    assert bool(modest.pause) is is_full


def test_at_the_limit_everybody_who_has_a_producer_waits(party: Party) -> None:
    """Else each newcomer would bring something along."""
    hog, modest = party.connection(), party.connection()
    party.buffer.add(hog, 100)
    assert modest.pause
    assert party.connection().pause


def test_a_client_that_leaves_does_not_free_what_it_left_waiting(party: Party) -> None:
    for _ in range(3):
        hog = party.connection()
        party.buffer.add(hog, 50)
        hog.leave()
    assert party.connection().pause
    assert party.buffer.waiting == 150


def test_they_go_on_when_three_quarters_are_free_or_nothing_of_theirs_waits(party: Party) -> None:
    hog, other, modest = (party.connection() for _ in range(3))
    party.buffer.add(hog, 40)
    party.buffer.add(other, 40)
    assert other.pause
    party.buffer.add(other, -40)
    assert not other.pause
    party.buffer.add(hog, 60)
    party.buffer.add(other, 1)
    party.buffer.add(other, -1)
    assert other.pause
    assert modest.pause
    party.buffer.add(hog, -74)
    assert hog.pause
    party.buffer.add(hog, -1)
    for each in (hog, other, modest):
        assert not each.pause
    party.buffer.add(hog, -25)
    assert party.buffer.waiting == 0


def test_without_a_limit_no_client_waits() -> None:
    party = Party(0)
    share = party.connection()
    party.buffer.add(share, 1 << 40)
    assert not share.pause


def test_a_limit_that_is_raised_or_removed_lets_everybody_go(party: Party) -> None:
    for limit in (402, 0):
        party.buffer.set_limit(100)
        hog, modest = party.connection(), party.connection()
        party.buffer.add(hog, 200)
        assert hog.pause
        assert modest.pause
        party.buffer.set_limit(400)
        assert hog.pause, "half of it waits"
        party.buffer.set_limit(limit)
        assert not hog.pause
        assert not modest.pause
        assert not party.connection().pause
        party.buffer.add(hog, -200)


def test_a_limit_that_is_lowered_is_felt_at_once(party: Party) -> None:
    hog, modest = party.connection(), party.connection()
    party.buffer.add(hog, 40)
    party.buffer.set_limit(30)
    assert hog.pause
    assert modest.pause
    party.buffer.add(hog, -33)
    assert not hog.pause
    assert not modest.pause


def test_a_disk_that_hangs_holds_no_more_than_the_limit(topic: str) -> None:
    """Also not of a client that leaves, and comes again, and again."""
    store = HeldStore()
    body = frames.entry(b"x" * MIB)
    config = ConnectionConfig(publish_buffer_mb=8)
    with OneBroker(store, config) as broker:
        with RawClient(broker.service_url) as client:
            client.connect()
            client.produce(topic)
        store.hold()
        buffer = broker.listener.publish_buffer
        for _ in range(4):
            with RawClient(broker.service_url) as client:
                client.connect()
                client.produce(topic)
                client.socket.settimeout(0.3)
                with contextlib.suppress(TimeoutError):
                    client.send(b"".join(frames.send(0, number, body) for number in range(40)))
            assert 4 * MIB <= buffer.waiting < 10 * MIB
        broker.run(store.release())
        with RawClient(broker.service_url) as client:
            client.connect()
            client.produce(topic)
            for number in range(40):
                client.send(frames.send(0, number, body))
                client.receive(Type.SEND_RECEIPT)
        assert buffer.waiting == 0


def test_what_a_client_left_behind_is_counted_until_it_is_stored(topic: str) -> None:
    store = HeldStore()
    with OneBroker(store) as broker:
        buffer = broker.listener.publish_buffer
        for left in (frames.entry(b"x" * 1000), frames.entry(b"x" * 10)):
            with RawClient(broker.service_url) as client:
                client.connect()
                client.produce(topic)
                store.hold()
                for number in (0, 1):  # in two groups, of which the topic hears one by one
                    client.send(frames.send(0, number, left))
                    client.ping()
                    broker.run(until(store.waiting.is_set))
                    store.waiting.clear()
                assert buffer.waiting == 2 * len(left)
            broker.run(until(lambda: not broker.listener.connections))
            assert buffer.waiting == 2 * len(left)
            broker.run(store.release())
            assert buffer.waiting == 0


def test_small_publishes_are_booked_to_the_byte(topic: str) -> None:
    """Receipts come for runs of unequal entries of several producers; nothing is left over."""
    with OneBroker() as broker, RawClient(broker.service_url) as client:
        client.connect()
        for producer_id in range(3):
            client.produce(f"{topic}-{producer_id}", producer_id=producer_id)
        client.produce(topic.replace("persistent", "non-persistent"), producer_id=3)
        sent = [(n % 4, n, frames.entry(b"x" * (n * 37 % 500))) for n in range(400)]
        client.send(b"".join(frames.send(*each) for each in sent))
        for _ in sent:
            client.receive(Type.SEND_RECEIPT)
        assert broker.listener.publish_buffer.waiting == 0
