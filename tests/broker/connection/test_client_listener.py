"""Clients that connect while the listener is being closed, or drops them, are disconnected."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.connection import ConnectionConfig, Services
from counterpoise.broker.connection.client_listener import ClientListener
from counterpoise.broker.topic.topics import TopicRegistry
from counterpoise.storage.memory import MemoryLedgerStore
from tests.broker.connection.one_broker import OPEN_TO_ALL, Everything, OneBroker
from tests.broker.connection.raw_client import RawClient
from tests.waiting import WITHIN_S
from tests.wire import frames


def new_listener(background: BackgroundTasks) -> ClientListener:
    world = Everything()
    topics = TopicRegistry(MemoryLedgerStore(), world, world, owner="localhost:0")
    unused = (None, None)
    services = Services(topics, world, world, world, OPEN_TO_ALL, *unused)
    return ClientListener(services, ConnectionConfig(), background)


@pytest.mark.parametrize("end", ["stop", "kill"])
async def test_a_client_that_connects_while_it_ends_is_disconnected(end: str) -> None:
    """However far its coming had got, in turns of the loop."""
    loop = asyncio.get_running_loop()
    for turns in range(8):
        background = BackgroundTasks()
        listener = new_listener(background)
        port = await listener.start(socket.create_server(("127.0.0.1", 0)))
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.setblocking(False)
            for _ in range(turns):
                await asyncio.sleep(0)
            if end == "stop":
                await listener.stop()
                assert listener.connections == 0
            else:
                listener.kill()
            with contextlib.suppress(ConnectionResetError):
                async with asyncio.timeout(WITHIN_S):
                    assert await loop.sock_recv(client, 1) == b""
        await background.stop()


async def test_figures_of_its_traffic_stay_as_they_were_read() -> None:
    background = BackgroundTasks()
    listener = new_listener(background)
    before = listener.traffic()
    port = await listener.start(socket.create_server(("127.0.0.1", 0)))
    client = frames.frame(frames.command("connect", client_version="raw", protocol_version=21))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(client)
    assert await reader.read(1)
    now = listener.traffic()
    assert (before.bytes_in, before.bytes_out) == (0, 0)
    assert (now.bytes_in, now.bytes_out) == (listener.bytes_in, listener.bytes_out)
    assert (now.bytes_in, now.bytes_out > 0) == (len(client), True)
    writer.close()
    await listener.stop()
    await background.stop()


async def test_half_as_much_may_wait_for_a_rate_limit_as_for_the_disk() -> None:
    listener = new_listener(BackgroundTasks())
    for mib, size in ((3, 3 << 20), (0, 0), (-1, 0)):
        listener.set_limits(ConnectionConfig(publish_buffer_mb=mib))
        assert (listener.publish_buffer.limit, listener.throttled_memory.limit) == (size, size // 2)


@pytest.mark.parametrize("for_good", [False, True])
def test_clients_that_are_dropped_may_come_again_unless_it_is_for_good(for_good: bool) -> None:
    with OneBroker() as broker, RawClient(broker.service_url) as client:
        client.connect()

        async def drop() -> None:
            broker.listener.drop_connections(for_good=for_good)
            broker.listener.drop_connections()

        async def admit() -> None:
            broker.listener.admit_again()

        broker.run(drop())
        assert client.closed()
        refused = pytest.raises(ConnectionError) if for_good else contextlib.nullcontext()
        with RawClient(broker.service_url) as late, refused:
            late.connect()
        broker.run(admit())
        with RawClient(broker.service_url) as again:
            again.connect()
