"""What waits for a client that does not read: how much may, and what happens beyond that."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import cast

import pytest

from counterpoise.broker.base.traffic import Traffic
from counterpoise.broker.connection.outbox import GIVE_UP_AT, HIGH_WATER, MIB, UNREAD_MAX, Outbox
from counterpoise.broker.connection.pause import PauseReason, ReadingPause
from counterpoise.wire.proto.base_pb2 import BaseCommand
from tests.broker.connection.one_broker import OneBroker
from tests.broker.connection.raw_client import RawClient
from tests.broker.connection.test_consumers import flow, publish, take
from tests.broker.connection.test_pause import StrictTransport
from tests.waiting import WITHIN_S, until
from tests.wire import frames
from tests.wire.frames import Type

Dial = Callable[[], RawClient]
PING = frames.frame(BaseCommand(type=Type.PING, ping={}))


class FullSocket(StrictTransport):
    """Takes everything, and sends nothing of it."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting = 0

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        assert low < high < UNREAD_MAX

    def write(self, data: bytes) -> None:
        self._waiting += len(data)

    def writelines(self, list_of_data: list[bytes]) -> None:
        self._waiting += sum(map(len, list_of_data))

    def get_write_buffer_size(self) -> int:
        return self._waiting


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("pieces", [1, 3])
async def test_a_client_is_read_while_no_more_waits_for_it_than_may(
    kept: bool, pieces: int
) -> None:
    """To the byte, in one write or several; far beyond that it is given up."""
    socket = FullSocket()
    transport = cast("asyncio.Transport", socket)
    given_up: list[str] = []
    outbox = Outbox(
        asyncio.get_running_loop(),
        transport,
        Traffic(),
        ReadingPause(transport, lambda: 0.0),
        on_writable=pytest.fail,
        give_up=given_up.append,
    )
    if kept:
        outbox.keep()
    for most, is_read, is_given_up in (
        (UNREAD_MAX, True, False),
        (UNREAD_MAX + 1, False, False),
        (GIVE_UP_AT, False, False),
        (GIVE_UP_AT + 1, False, True),
    ):
        size = most - outbox.waiting
        for piece in range(pieces):
            outbox.write(b"x" * (size // pieces + (piece < size % pieces)))
        assert outbox.waiting == most
        await asyncio.sleep(0)
        assert (outbox.waiting, socket.reading) == (most, is_read)
        assert given_up == [f"{most} bytes wait for it to read them"] * is_given_up


async def test_a_client_that_has_read_what_waited_is_read_again() -> None:
    socket, writable = FullSocket(), list[bool]()
    transport = cast("asyncio.Transport", socket)
    outbox = Outbox(
        asyncio.get_running_loop(),
        transport,
        Traffic(),
        ReadingPause(transport, lambda: 0.0),
        on_writable=lambda: writable.append(outbox.writable),
        give_up=pytest.fail,
    )
    outbox.write(b"x" * (UNREAD_MAX + 1))
    outbox.pause()
    await asyncio.sleep(0)
    assert (socket.reading, outbox.writable, writable) == (False, False, [])
    outbox.resume()
    assert (socket.reading, writable) == (True, [True])


async def test_no_more_is_delivered_in_a_turn_than_the_socket_is_to_hold() -> None:
    """Else one turn of the loop would collect all that a client has permits for."""
    transport, writable = cast("asyncio.Transport", FullSocket()), list[bool]()
    outbox = Outbox(
        asyncio.get_running_loop(),
        transport,
        Traffic(),
        ReadingPause(transport, lambda: 0.0),
        on_writable=lambda: writable.append(outbox.writable),
        give_up=pytest.fail,
    )
    for write in (outbox.write, lambda frame: outbox.write_burst([frame], len(frame))):
        write(b"x" * (HIGH_WATER - 1))
        assert outbox.writable
        write(b"x")
        assert not outbox.writable
        await asyncio.sleep(0)
        # The socket has not said that it is full: topics go on.
        assert writable.pop() is True


@pytest.mark.parametrize("frozen", [False, True])
def test_whom_too_much_waits_for_is_disconnected(
    broker: OneBroker, dial: Dial, caplog: pytest.LogCaptureFixture, frozen: bool
) -> None:
    client = dial()
    client.connect()
    client.send(PING)
    client.receive(Type.PONG)
    (connection,) = broker.listener.open_connections

    async def say_too_much() -> None:
        if frozen:
            connection.freeze()
        # Private: no request has an answer of so many bytes.
        connection.outbox.write(b"x" * (GIVE_UP_AT + 16 * MIB))

    broker.run(say_too_much())
    with contextlib.suppress(ConnectionError):
        while client.socket.recv(1 << 20):
            pass
    assert "bytes wait for it to read them" in caplog.text


def test_a_frozen_connection_is_read_again_when_it_has_thawed(
    broker: OneBroker, dial: Dial, topic: str
) -> None:
    """Also where the socket takes most of what was kept at once, too much though that was."""
    client, other = dial(), dial()
    client.connect()
    other.connect()
    client.subscribe(topic)
    flow(client, 10)
    name = "/{}:{}".format(*client.socket.getsockname())
    (connection,) = (it for it in broker.listener.open_connections if it.address == name)

    async def freeze() -> None:
        connection.freeze()

    async def reasons() -> list[PauseReason]:
        return list(connection.pause.since())

    async def thaw() -> None:
        connection.thaw()

    broker.run(freeze())
    # A socket takes some megabytes of it: what is left is too little to be notified of.
    publish(other, topic, 5, size=UNREAD_MAX // 5)
    assert broker.run(reasons()) == [PauseReason.FROZEN, PauseReason.UNREAD_ANSWERS]
    broker.run(thaw())
    assert take(client, 5) == [0, 1, 2, 3, 4]
    client.send(PING)
    client.receive(Type.PONG)


async def frozen(broker: OneBroker, *, clients: int, frozen: bool | None = None) -> list[str]:
    """Freeze a broker or thaw it; the clients that it does not read because it is frozen."""
    await until(lambda: broker.listener.connections == clients)
    if frozen is not None:
        broker.listener.freeze(frozen=frozen)
    return sorted(broker.listener.paused()[PauseReason.FROZEN])


def test_a_client_that_comes_to_a_frozen_broker_is_served_when_it_has_thawed() -> None:
    with OneBroker() as broker, RawClient(broker.service_url) as client:
        names = ["/{}:{}".format(*client.socket.getsockname())]
        assert broker.run(frozen(broker, frozen=True, clients=1)) == names
        with RawClient(broker.service_url) as late:
            for each in (client, late):
                each.command("connect", client_version="raw", protocol_version=21)
            names.append("/{}:{}".format(*late.socket.getsockname()))
            assert broker.run(frozen(broker, clients=2)) == sorted(names)
            late.socket.settimeout(0.2)
            with pytest.raises(TimeoutError):
                late.receive()
            late.socket.settimeout(WITHIN_S)
            assert broker.run(frozen(broker, frozen=False, clients=2)) == []
            for each in (client, late):
                each.receive(Type.CONNECTED)
