"""Clients of the admin API that are slow, silent or many: the others are served all the same."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from counterpoise import Cluster
from counterpoise.admin import client_limits as module
from counterpoise.admin.client_limits import HttpClientLimits
from counterpoise.admin.errors import answer_errors
from counterpoise.admin.metrics import exposition
from counterpoise.admin.metrics.sample import MetricSample
from counterpoise.admin.packed import Packed, answer_with
from counterpoise.admin.shared_answers import SharedAnswers
from counterpoise.broker.base.background import BackgroundTasks
from tests.admin.conftest import Api
from tests.waiting import WITHIN_S, until

LARGE_ANSWER = b"x" * 8_000_000
PUT = b"PUT /take HTTP/1.1\r\nHost: a\r\n"
LINE = b"GET /small HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine's clients take their time; a test whose client takes too long says so."""
    for name in ("READ_S", "BODY_S"):
        monkeypatch.setattr(module, name, 10 * WITHIN_S)


async def small(_: web.Request) -> web.Response:
    return web.Response(body=b"here you are")


class House:
    """A server with handlers of its own, and its clients."""

    def __init__(self, limits: HttpClientLimits) -> None:
        self.limits = limits
        self.server: web.Server | None = None
        self.port = 0
        self.writers: list[asyncio.StreamWriter] = []
        self.answered = 0
        """Large answers that were begun, and bodies that are being read."""
        self.bodies = 0

    async def large(self, _: web.Request) -> web.Response:
        self.answered += 1
        return web.Response(body=LARGE_ANSWER, content_type="text/plain")

    async def packed(self, _: web.Request) -> web.StreamResponse:
        self.answered += 1
        text = Packed()
        for _ in range(len(LARGE_ANSWER) // 1000):
            text.write("x" * 1000)
        return answer_with(Packed.joined([text]), "text/odd")

    async def take(self, request: web.Request) -> web.Response:
        self.bodies += 1
        try:
            return web.Response(text=str(len(await self.limits.body(request))))
        finally:
            self.bodies -= 1

    async def connect(self, said: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        sock = socket.socket()
        # What the kernel keeps for a client that does not read is not the point here.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))
        reader, writer = await asyncio.open_connection(sock=sock)
        self.writers.append(writer)
        writer.write(said)
        return reader, writer

    async def is_served(self) -> bool:
        reader, writer = await self.connect(LINE)
        async with asyncio.timeout(WITHIN_S):
            served = b" 200 " in await reader.readline()
        writer.close()
        return served

    async def takes_a_large_body(self) -> bool:
        """Whether there is a place for one."""
        reader, writer = await self.connect(PUT + b"Content-Length: 100000\r\n\r\n")
        writer.write(b"x" * 100_000)
        async with asyncio.timeout(WITHIN_S):
            return b" 200 " in await reader.readline()

    @property
    def open(self) -> list[Any]:
        return [] if self.server is None else self.server.connections

    @property
    def unsent(self) -> int:
        transports = (each.transport for each in self.open)
        return sum(it.get_write_buffer_size() for it in transports if it is not None)


@asynccontextmanager
async def open_house(most: int = 0) -> AsyncIterator[House]:
    limits = HttpClientLimits(most)
    house = House(limits)
    app = web.Application(middlewares=[limits.serve, answer_errors])
    app.router.add_get("/small", small)
    app.router.add_get("/packed", house.packed)
    app.router.add_get("/large", house.large)
    app.router.add_put("/take", house.take)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    assert runner.server is not None
    house.server = runner.server
    limits.receive(runner.server)
    server = await asyncio.get_running_loop().create_server(limits.make_protocol, "127.0.0.1", 0)
    house.port = server.sockets[0].getsockname()[1]
    yield house
    for writer in house.writers:
        writer.transport.abort()
    server.close()
    await runner.cleanup()


async def ended(reader: asyncio.StreamReader) -> bytes:
    """Everything until the connection's end."""
    got = b""
    async with asyncio.timeout(WITHIN_S):
        try:
            while piece := await reader.read(1 << 16):
                got += piece
        except ConnectionError:
            pass
    return got


async def test_there_are_no_more_than_there_is_room_for() -> None:
    async with open_house(most=3) as house:
        silent = [await house.connect() for _ in range(3)]
        await until(lambda: len(house.open) == 3)
        reader, _ = await house.connect(LINE)
        assert await ended(reader) == b""
        silent[0][1].close()
        await until(lambda: len(house.open) == 2)
        assert await house.is_served()


async def test_who_does_not_say_what_it_wants_goes() -> None:
    async with open_house() as house:
        half, _ = await house.connect(LINE[:-2])
        served, writer = await house.connect(LINE)
        await served.readuntil(b"here you are")
        now = asyncio.get_running_loop().time()
        await until(lambda: len(house.open) == 2)
        house.limits.sweep(now)
        house.limits.sweep(now + module.FIRST_REQUEST_S + 1)
        assert await ended(half) == b""
        writer.write(LINE)
        await served.readuntil(b"here you are")
        house.limits.sweep(now)
        house.limits.sweep(now + module.BETWEEN_REQUESTS_S + 1)
        assert await ended(served) == b""


async def test_a_silent_connection_is_kept_until_its_time_is_over() -> None:
    async with open_house() as house:
        half, writer = await house.connect(LINE[:-2])
        await until(lambda: len(house.open) == 1)
        house.limits.sweep(0)
        house.limits.sweep(module.FIRST_REQUEST_S)
        writer.write(LINE[-2:])
        await half.readuntil(b"here you are")


async def test_who_is_being_served_is_not_silent() -> None:
    async with open_house() as house:
        reader, writer = await house.connect(PUT + b"Content-Length: 4\r\n\r\n12")
        await until(lambda: house.bodies)
        now = asyncio.get_running_loop().time()
        house.limits.sweep(now)
        house.limits.sweep(now + 1000)
        writer.write(b"34")
        assert (await reader.readuntil(b"\r\n\r\n4")).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("size", [1000, 100_000])
async def test_a_body_that_does_not_come_is_waited_for_only_so_long(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(module, "BODY_S", 0.02)
    monkeypatch.setattr(module, "LARGE_BODIES_MAX", 1)
    async with open_house() as house:
        for _ in range(2):  # the first leaves its place to the second
            reader, _ = await house.connect(PUT + b"Content-Length: %d\r\n\r\n12" % size)
            assert b" 408 " in await reader.readline()


async def test_large_bodies_are_read_a_few_at_a_time_and_small_ones_always(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LARGE_BODIES", 2)
    monkeypatch.setattr(module, "LARGE_BODIES_MAX", 3)
    begun = PUT + b"Content-Length: %d\r\n\r\n"
    async with open_house() as house:
        three = [await house.connect(begun % 100_000) for _ in range(3)]
        await until(lambda: house.bodies == 3)
        reader, _ = await house.connect(begun % 100_000)
        assert b" 503 " in await reader.readline()
        chunked, _ = await house.connect(PUT + b"Transfer-Encoding: chunked\r\n\r\n")
        assert b" 503 " in await chunked.readline()
        reader, _ = await house.connect(begun % 3 + b"abc")
        assert b" 200 " in await reader.readline()
        for reader, writer in three:
            writer.write(b"x" * 100_000)
            assert b" 200 " in await reader.readline()
        assert await house.takes_a_large_body()


async def test_who_leaves_in_the_middle_of_its_body_is_no_error_of_ours(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "LARGE_BODIES_MAX", 1)
    async with open_house() as house:
        _, writer = await house.connect(PUT + b"Content-Length: 100000\r\n\r\n12")
        await until(lambda: house.bodies == 1)
        writer.transport.abort()
        await until(lambda: house.bodies == 0)
        assert await house.takes_a_large_body()
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


async def test_an_answer_is_written_as_it_is_read() -> None:
    async with open_house() as house:
        reader, _ = await house.connect(LINE.replace(b"small", b"large"))
        await until(lambda: house.unsent > 0)
        assert house.unsent < 4 * module.LARGE
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"Content-Type: text/plain" in head
        async with asyncio.timeout(WITHIN_S):
            assert await reader.readexactly(len(LARGE_ANSWER)) == LARGE_ANSWER


async def test_a_packed_answer_counts_as_what_it_takes_and_is_written_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "UNREAD_MAX", len(LARGE_ANSWER) // 10)
    monkeypatch.setattr(module, "PATIENCE_S", 0.0)
    async with open_house() as house:
        readers = [await house.connect(LINE.replace(b"small", b"packed")) for _ in range(2)]
        await until(lambda: house.answered == 2)
        await until(lambda: house.unsent > 0)
        assert house.unsent < 2 * 4 * module.LARGE
        for reader, _ in readers:
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"Content-Type: text/odd" in head
            assert b"Content-Length: %d" % len(LARGE_ANSWER) in head
            async with asyncio.timeout(WITHIN_S):
                assert await reader.readexactly(len(LARGE_ANSWER)) == LARGE_ANSWER
        assert await house.is_served()


async def test_who_asks_for_a_head_gets_no_body() -> None:
    async with open_house() as house:
        for path in (b"large", b"packed"):
            line = LINE.replace(b"GET", b"HEAD").replace(b"small", path)
            reader, writer = await house.connect(
                line + LINE.replace(b"Host", b"Connection: close\r\nHost")
            )
            async with asyncio.timeout(WITHIN_S):
                received = await reader.read()
            assert received.count(b"HTTP/1.1 200") == 2
            assert len(received) < 1000
            writer.close()


def test_more_requests_than_the_setting_allows_are_refused() -> None:
    config = {"httpRequestsLimitEnabled": True, "httpRequestsMaxPerSecond": 1.0}
    with Cluster(brokers=1, config=config) as cluster:
        api = Api(cluster.brokers[0].admin_url)
        statuses = [api("GET", "/admin/v2/clusters").status for _ in range(50)]
    assert statuses[0] == 200
    assert set(statuses) == {200, 429}
    # A request takes a few milliseconds: the burst of a second, and hardly any more.
    assert statuses.count(429) > 25


async def test_an_answer_that_its_client_does_not_read_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "READ_S", 0.05)
    async with open_house() as house:
        _, writer = await house.connect(LINE.replace(b"small", b"large"))
        await until(lambda: house.answered)
        await until(lambda: not house.open)
        writer.close()
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


async def test_the_slowest_reader_goes_when_there_is_too_much_to_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "UNREAD_MAX", 2 * len(LARGE_ANSWER))
    monkeypatch.setattr(module, "PATIENCE_S", 0.0)
    async with open_house() as house:
        readers = []
        for number in range(3):
            readers.append(await house.connect(LINE.replace(b"small", b"large")))
            await until(lambda n=number: house.answered == n + 1)  # type: ignore[misc]
        assert len(await ended(readers[0][0])) < len(LARGE_ANSWER)
        for reader, _ in readers[1:]:
            assert len(await ended_after(reader)) == len(LARGE_ANSWER)
        # What was read counts no longer: none of the two goes for another's sake.
        another, _ = await house.connect(LINE.replace(b"small", b"large"))
        assert len(await ended_after(another)) == len(LARGE_ANSWER)
        for reader, writer in readers[1:]:
            writer.write(LINE)
            await reader.readuntil(b"here you are")


async def test_a_slow_reader_has_some_time_whatever_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNREAD_MAX", len(LARGE_ANSWER) // 10)
    monkeypatch.setattr(module, "PATIENCE_S", 1000.0)
    async with open_house() as house:
        readers = []
        for number in range(3):
            readers.append(await house.connect(LINE.replace(b"small", b"large")))
            await until(lambda n=number: house.answered == n + 1)  # type: ignore[misc]
        for reader, _ in readers:
            assert len(await ended_after(reader)) == len(LARGE_ANSWER)


async def ended_after(reader: asyncio.StreamReader) -> bytes:
    await reader.readuntil(b"\r\n\r\n")
    async with asyncio.timeout(WITHIN_S):
        return await reader.readexactly(len(LARGE_ANSWER))


async def test_who_asks_meanwhile_shares_an_answer_that_is_no_older_than_the_question() -> None:
    shared = SharedAnswers(BackgroundTasks())
    made: list[asyncio.Future[bytes]] = []

    def make() -> Awaitable[bytes]:
        made.append(asyncio.get_running_loop().create_future())
        return made[-1]

    async def until_made(count: int) -> None:
        await until(lambda: len(made) == count)

    first = asyncio.ensure_future(shared.get("figures", make))
    await until_made(1)
    late = [asyncio.ensure_future(shared.get("figures", make)) for _ in range(50)]
    other = asyncio.ensure_future(shared.get("other figures", make))
    impatient = asyncio.ensure_future(shared.get("figures", make))
    await asyncio.sleep(0)
    impatient.cancel()
    assert len(made) == 1, "one at a time, whatever it is"
    made[0].set_result(b"old")
    assert await first == b"old"
    await until_made(2)
    made[1].set_result(b"new")
    assert {await each for each in late} == {b"new"}
    await until_made(3)
    made[2].set_exception(RuntimeError("no figures"))
    with pytest.raises(RuntimeError, match="no figures"):
        await other
    assert len(made) == 3


async def test_others_are_served_while_many_figures_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    figures = [MetricSample("a", (), 1.0)] * 100
    monkeypatch.setattr(exposition, "_pieces", lambda _: (iter(figures) for _ in range(100)))
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    samples = [each async for each in exposition.gathered(None)]  # type: ignore[arg-type]
    assert len(samples) == 10_000
    counting.cancel()
    assert turns >= 10_000 // exposition.FIGURES_IN_A_TURN // 2
