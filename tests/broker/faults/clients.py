"""Clients on the brokers' own event loop, which lose nothing, whatever happens to their brokers."""

import asyncio
import contextlib
import struct
from collections.abc import Callable
from typing import Any

from counterpoise.names.topic import TopicName
from counterpoise.wire.proto.base_pb2 import BaseCommand
from tests.broker.conftest import BrokersOfTest
from tests.waiting import WITHIN_S, pause, until
from tests.wire import frames
from tests.wire.frames import Type

SUBSCRIPTION = "s"
WIDTH = 8
WINDOW = 5
LEAVES = (Type.CLOSE_PRODUCER, Type.CLOSE_CONSUMER, Type.SEND_ERROR)


class Refused(Exception):
    """The broker said no."""


class Wire:
    """One connection, read by a task of its own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.peer: tuple[str, int] = writer.get_extra_info("peername")[:2]
        """The broker's address."""
        self._answers: dict[int, asyncio.Future[BaseCommand]] = {}
        self._requests = 1
        self._ponged = asyncio.Event()
        self.hear: Callable[[BaseCommand, bytes], None] = lambda _command, _entry: None
        self.ended = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def dial(cls, service_url: str) -> "Wire":
        host, port = service_url.removeprefix("pulsar://").split(":")
        made = cls(*await asyncio.open_connection(host, int(port)))
        made.say(Type.CONNECT, "connect", client_version="faults", protocol_version=21)
        return made

    def say(self, kind: int, field: str, **values: Any) -> None:
        self.write(frames.frame(BaseCommand(type=kind, **{field: values})))

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def ask(self, kind: int, field: str, **values: Any) -> BaseCommand:
        """Say it and wait for the answer; `Refused` or `ConnectionError` where that is none."""
        self._requests += 1
        answer = asyncio.get_running_loop().create_future()
        self._answers[self._requests] = answer
        self.say(kind, field, request_id=self._requests, **values)
        async with asyncio.timeout(WITHIN_S):
            await asyncio.wait([answer, self.ended], return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise ConnectionError("the broker ended the connection")
        reply: BaseCommand = answer.result()
        if reply.type == Type.ERROR:
            raise Refused(reply.error.message)
        return reply

    async def heard(self) -> None:
        """Wait until the broker has read all that was said."""
        self._ponged.clear()
        self.say(Type.PING, "ping")
        async with asyncio.timeout(WITHIN_S):
            await self._ponged.wait()

    async def _read(self) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                (total,) = struct.unpack(">I", await self._reader.readexactly(4))
                rest = await self._reader.readexactly(total)
                self._take(*frames.parse(struct.pack(">I", total) + rest))
        self.ended.set_result(None)

    def _take(self, command: BaseCommand, entry: bytes) -> None:
        if command.type == Type.PING:
            self.say(Type.PONG, "pong")
        if command.type == Type.PONG:
            self._ponged.set()
        for _, value in command.ListFields():
            waiting = self._answers.pop(getattr(value, "request_id", 0), None)
            if waiting is not None:
                if command.type == Type.PRODUCER_SUCCESS and not value.producer_ready:
                    continue
                waiting.set_result(command)
                return
        self.hear(command, entry)

    async def leave(self) -> None:
        """Go without a word."""
        self._reading.cancel()
        self._writer.transport.abort()
        self._writer.close()
        await asyncio.gather(self._reading, self._writer.wait_closed(), return_exceptions=True)


async def found(brokers: BrokersOfTest, topic: TopicName) -> Wire:
    """A connection to the broker of a topic, found as clients find it."""
    url, authoritative = brokers.all[-1].service_url, False
    for _ in range(10):
        wire = await Wire.dial(url)
        try:
            command = await wire.ask(
                Type.LOOKUP, "lookup_topic", topic=str(topic), authoritative=authoritative
            )
            found = command.lookup_topic_response
            if found.response == found.Failed:
                raise Refused(found.message)
            if found.response == found.Connect and found.broker_service_url == url:
                return wire
        except BaseException:
            await wire.leave()
            raise
        await wire.leave()
        url, authoritative = found.broker_service_url, found.authoritative
    raise Refused("sent from one broker to the other")


async def until_served(
    brokers: BrokersOfTest, topic: TopicName, kind: int, field: str, **values: Any
) -> Wire:
    """The connection on which a topic's broker has said yes to a PRODUCER or SUBSCRIBE."""
    last: Exception | None = None
    try:
        async with asyncio.timeout(WITHIN_S):
            while True:
                try:
                    wire = await found(brokers, topic)
                    try:
                        await wire.ask(kind, field, topic=str(topic), **values)
                    except BaseException:
                        await wire.leave()
                        raise
                    return wire
                except (Refused, OSError) as error:
                    last = error
                    await pause()
    except TimeoutError:
        raise AssertionError(f"{topic} is not served: {last}") from None


class Publisher:
    """Publishes numbers, a few at once and each until it is acknowledged, wherever the topic is."""

    def __init__(self, brokers: BrokersOfTest, topic: TopicName, start: int = 0) -> None:
        self.brokers, self.topic, self.start = brokers, topic, start
        self.acknowledged = start
        self.by: dict[str, int] = {}
        """How many each broker has acknowledged, by the URL that it is served at."""
        self._end: int | None = None
        self._news = asyncio.Event()
        self._running = asyncio.create_task(self._run())

    async def more(self, count: int = 10) -> None:
        """Wait until that many more were acknowledged than are now."""
        goal = self.acknowledged + count
        await self._until(lambda: self.acknowledged >= goal, f"{count} more acknowledged")

    async def stop(self) -> int:
        """End when all that was sent is acknowledged; the number after the last."""
        self._end = self.acknowledged + WINDOW
        await self._until(self._running.done, "all is acknowledged")
        await self._running
        return self._end

    async def kill(self) -> None:
        """End at once."""
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)

    async def _until(self, holds: Callable[[], bool], what: str) -> None:
        def failed_or_holds() -> bool:
            return holds() or self._running.done()

        await until(failed_or_holds, f"{what}, after {self.acknowledged}")
        if self._running.done():
            self._running.result()

    async def _run(self) -> None:
        while self._end is None or self.acknowledged < self._end:
            wire = await until_served(
                self.brokers, self.topic, Type.PRODUCER, "producer", producer_id=0
            )
            try:
                await self._publish(wire)
            finally:
                await wire.leave()

    async def _publish(self, wire: Wire) -> None:
        left, sent = False, self.acknowledged
        host, port = wire.peer
        url = f"pulsar://{host}:{port}"

        def hear(command: BaseCommand, _entry: bytes) -> None:
            nonlocal left
            self._news.set()
            if command.type == Type.SEND_RECEIPT:
                assert command.send_receipt.sequence_id == self.acknowledged, "out of order"
                self.acknowledged += 1
                self.by[url] = self.by.get(url, 0) + 1
            left = left or command.type in LEAVES

        wire.hear = hear
        wire.ended.add_done_callback(lambda _: self._news.set())
        while not (left or wire.ended.done() or self.acknowledged == self._end):
            self._news.clear()
            last = self.acknowledged + WINDOW
            for number in range(sent, last if self._end is None else min(last, self._end)):
                body = b"%0*d" % (WIDTH, number)
                wire.write(frames.send(0, number, frames.entry(body, sequence_id=number)))
                sent = number + 1
            await self._news.wait()


async def stored(brokers: BrokersOfTest, topic: TopicName, last: int) -> list[int]:
    """The numbers that a new subscription receives, up to the last one, as they come."""
    wire = await until_served(
        brokers,
        topic,
        Type.SUBSCRIBE,
        "subscribe",
        subscription="reads",
        consumer_id=0,
        sub_type=0,
        initial_position=1,
    )
    numbers: list[int] = []

    def hear(command: BaseCommand, entry: bytes) -> None:
        if command.type == Type.MESSAGE:
            numbers.append(int(entry[-WIDTH:]))

    wire.hear = hear
    wire.say(Type.FLOW, "flow", consumer_id=0, message_permits=1_000_000)
    try:
        await until(lambda: last in numbers, f"{last} is read")
    finally:
        await wire.leave()
    return numbers
