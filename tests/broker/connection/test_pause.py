"""Reasons to stop reading: each is released by itself, and only the last one starts it again."""

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from counterpoise.broker.connection import ConnectionConfig
from counterpoise.broker.connection.keep_alive import UNREAD_PINGS, KeepAlive
from counterpoise.broker.connection.pause import PauseReason, ReadingPause
from counterpoise.names.topic import TopicName
from tests.broker.connection.held_store import HeldStore
from tests.broker.connection.one_broker import OneBroker
from tests.broker.connection.raw_client import RawClient
from tests.broker.connection.unwired import UnwiredClient
from tests.quota.jumping import on_jumping_loop, pass_time
from tests.waiting import WITHIN_S, until
from tests.wire import frames
from tests.wire.frames import Type

PENDING = PauseReason.PENDING_PUBLISHES


class StrictTransport:
    """Refuses what real transports refuse: to stop or start twice, or once it is closing."""

    def __init__(self) -> None:
        self.reading = True
        self.closing = False

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None:
        assert self.reading
        assert not self.closing
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        assert not self.closing
        self.reading = True


@pytest.fixture
def transport() -> StrictTransport:
    return StrictTransport()


@pytest.fixture
def now() -> list[float]:
    return [0.0]


@pytest.fixture
def released() -> list[bool]:
    return []


@pytest.fixture
def pause(transport: StrictTransport, now: list[float], released: list[bool]) -> ReadingPause:
    return ReadingPause(
        cast("asyncio.Transport", transport),
        lambda: now[0],
        lambda: released.append(transport.reading),
    )


def test_one_who_releases_does_not_undo_another(
    pause: ReadingPause, transport: StrictTransport, released: list[bool]
) -> None:
    pause.hold(PENDING)
    pause.hold(PauseReason.REQUESTS)
    pause.release(PENDING)
    assert not transport.reading
    assert pause
    pause.release(PauseReason.REQUESTS)
    assert transport.reading
    assert not pause
    assert released == [
        False,
        True,
    ]  # each release is notified, with reading going on after the last


def test_to_hold_twice_is_to_hold_once(pause: ReadingPause, transport: StrictTransport) -> None:
    pause.hold(PENDING)
    pause.hold(PENDING)
    pause.release(PENDING)
    assert transport.reading
    assert pause.times[PENDING] == pause.pauses == 1


def test_to_release_what_is_not_held_is_nothing(
    pause: ReadingPause, transport: StrictTransport, released: list[bool]
) -> None:
    pause.release(PENDING)
    pause.hold(PENDING)
    pause.release(PauseReason.REQUESTS)
    assert not transport.reading
    assert not released


def test_a_closing_transport_is_left_alone(
    pause: ReadingPause, transport: StrictTransport, released: list[bool]
) -> None:
    transport.closing = True
    pause.hold(PENDING)
    pause.release(PENDING)
    assert not pause
    assert not released


def test_it_shows_since_when_each_reason_holds(pause: ReadingPause, now: list[float]) -> None:
    now[0] = 3.0
    pause.hold(PENDING)
    now[0] = 5.0
    pause.hold(PauseReason.REQUESTS)
    assert pause.since() == {PENDING: 3.0, PauseReason.REQUESTS: 5.0}
    pause.release(PENDING)
    assert pause.since() == {PauseReason.REQUESTS: 5.0}
    assert pause.holds(PauseReason.REQUESTS)
    assert not pause.holds(PENDING)


@on_jumping_loop
async def test_a_client_that_is_not_read_is_pinged_and_not_called_silent() -> None:
    """Its PONGs lie unread in the socket; once they may be read it has a whole interval again."""
    store, config = HeldStore(), ConnectionConfig(max_pending_publish_requests=1)
    async with UnwiredClient(store, config) as client:
        client.say("connect", client_version="unwired", protocol_version=21)
        client.say("producer", topic="public/default/slow", producer_id=0, request_id=1)
        await pass_time(1)
        assert client.heard() == [Type.CONNECTED, Type.PRODUCER_SUCCESS]
        store.hold()
        client.send(frames.send(0, 0))
        await pass_time(90)  # twice as long as a silent client is given, and more
        heard = client.heard()
        assert heard == [Type.PING, Type.PONG] * (1 + 2 * UNREAD_PINGS)
        await store.release()
        await pass_time(4)
        assert client.heard() == [Type.SEND_RECEIPT, Type.PING]
        await pass_time(29)
        client.say("pong")
        await pass_time(29)
        assert client.heard() == [Type.PING]
        assert not client.is_disconnected


def test_an_unload_of_one_topic_leaves_what_pends_on_another(topic: str) -> None:
    """Pending publishes are the connection's, whichever topic they went to."""
    store = HeldStore()
    config = ConnectionConfig(max_pending_publish_requests=4)
    with OneBroker(store, config) as broker, RawClient(broker.service_url) as client:
        client.connect()
        client.produce(f"{topic}-1", producer_id=1)
        client.produce(f"{topic}-2", producer_id=2)
        store.hold()
        client.send(frames.send(1, 0) + b"".join(frames.send(2, n) for n in range(3)))
        assert store.waiting.wait(WITHIN_S)
        # Not sooner: what is read together with the last publish is served.
        client.command("ping")

        async def disconnect() -> None:
            broker.topics.loaded[TopicName.parse(f"{topic}-1")].disconnect(None)

        broker.run(disconnect())
        assert client.receive().type == Type.CLOSE_PRODUCER
        client.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.receive()
        client.socket.settimeout(WITHIN_S)
        broker.run(store.release())
        kinds = [client.receive().type for _ in range(4)]
        assert sorted(kinds) == sorted([Type.SEND_RECEIPT] * 3 + [Type.PONG])


def test_how_often_clients_were_not_read_counts_those_that_have_gone(topic: str) -> None:
    """What a metric counts must not fall when a client leaves."""
    config = ConnectionConfig(max_pending_publish_requests=1)
    with OneBroker(config=config) as broker:
        for number in range(2):
            with RawClient(broker.service_url) as client:
                client.connect()
                client.produce(topic)
                client.send(frames.send(0, 0))
                client.receive(Type.SEND_RECEIPT)
                assert broker.listener.pauses()[PENDING] == number + 1
            broker.run(until(lambda: not broker.listener.connections))
            assert broker.listener.pauses()[PENDING] == number + 1


class Timers:
    """An event loop as far as `KeepAlive` knows it: what is to be called next, and when."""

    def __init__(self) -> None:
        self.wait_s = 0.0
        self.call: Callable[[], None] = lambda: None

    def call_later(self, wait_s: float, call: Callable[[], None]) -> None:
        self.wait_s, self.call = wait_s, call


def test_the_pings_of_a_client_that_is_not_read_are_answered_unseen() -> None:
    """The C++ client gives up a connection on which no PONG came between two of its own ticks.

    They are as far apart as ours: one an interval comes too late half of the time.
    """
    timers, sent, reading = Timers(), [], True
    loop = cast("asyncio.AbstractEventLoop", timers)
    keep_alive = KeepAlive(
        loop,
        30,
        lambda: (True, reading),
        ping=lambda: sent.append("PING"),
        answer=lambda: sent.append("PONG"),
        end=pytest.fail,
    )
    assert timers.wait_s == 30
    reading = False
    for _ in range(3):
        timers.call()
        assert timers.wait_s == 30 / UNREAD_PINGS <= 10
    assert sent == ["PING", "PONG"] * 3
    reading, keep_alive.silent = True, False
    timers.call()
    assert sent[6:] == ["PING"]


def test_no_client_has_to_write_before_the_first_ping() -> None:
    """Then once between two pings: a silent client is disconnected at the second."""
    timers, sent, ended = Timers(), [], []
    loop = cast("asyncio.AbstractEventLoop", timers)
    KeepAlive(
        loop,
        30,
        lambda: (True, True),
        ping=lambda: sent.append("PING"),
        answer=pytest.fail,
        end=ended.append,
    )
    timers.call()
    assert (sent, ended) == (["PING"], [])
    timers.call()
    assert (sent, ended) == (["PING"], ["silent for 30 s after a ping"])


def test_it_shows_whether_there_is_any_other_reason(pause: ReadingPause) -> None:
    assert not pause.other_than(PauseReason.TURNS)
    pause.hold(PauseReason.TURNS)
    assert not pause.other_than(PauseReason.TURNS)
    pause.hold(PENDING)
    assert pause.other_than(PauseReason.TURNS)
    pause.release(PauseReason.TURNS)
    assert pause.other_than(PauseReason.TURNS)
