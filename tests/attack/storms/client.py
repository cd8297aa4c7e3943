"""A client that sends much at once and counts the answers."""

import asyncio
import struct
from collections import Counter
from collections.abc import Iterable
from typing import Any

from counterpoise.wire.proto.base_pb2 import BaseCommand
from tests.wire import frames
from tests.wire.frames import Type

TOPIC = "persistent://public/default/attacked"
ANSWERED_WITHIN_S = 60.0
_AT_ONCE = 1 << 18
OPENED = (Type.SUCCESS, Type.ERROR)


def command(field: str, **values: Any) -> bytes:
    """A frame."""
    return frames.frame(frames.command(field, **values))


def subscribe(number: int, name: str = "s", topic: str = TOPIC, **more: Any) -> bytes:
    """SUBSCRIBE as consumer ``number``: Shared, unless ``sub_type`` says otherwise."""
    values = {"sub_type": 1, "request_id": number, "consumer_id": number, **more}
    return command("subscribe", topic=topic, subscription=name, **values)


def producer(number: int, topic: str = TOPIC, **more: Any) -> bytes:
    """PRODUCER number ``number``."""
    return command("producer", topic=topic, producer_id=number, request_id=number, **more)


def flow(number: int, permits: int) -> bytes:
    """FLOW of a consumer."""
    return command("flow", consumer_id=number, message_permits=permits)


class Client:
    """One connection, read by a task of its own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.said = 0
        self.received: Counter[int] = Counter()
        self.last: dict[int, BaseCommand] = {}
        self._news = asyncio.Event()
        self._ended = False
        self._reading = asyncio.ensure_future(self._read())

    @classmethod
    async def dial(cls, service_url: str, **connect: Any) -> "Client":
        """Connect."""
        host, port = service_url.removeprefix("pulsar://").rsplit(":", 1)
        made = cls(*await asyncio.open_connection(host, int(port), limit=1 << 24))
        values = {"client_version": "storm", "protocol_version": 21, **connect}
        await made.say([command("connect", **values)])
        await made.until(1, Type.CONNECTED, Type.ERROR)
        return made

    async def _read(self) -> None:
        try:
            await self._read_on()
        finally:
            self._ended = True
            self._news.set()

    async def _read_on(self) -> None:
        while True:
            size, length = struct.unpack(">II", await self._reader.readexactly(8))
            rest = await self._reader.readexactly(size - 4)
            found = BaseCommand.FromString(rest[:length])
            self.received[found.type] += 1
            self.last[found.type] = found
            self._news.set()
            if found.type == Type.PING:
                self._writer.write(command("pong"))

    async def say(self, said: Iterable[bytes]) -> None:
        """Say all of it, as fast as it is taken."""
        waiting = 0
        for each in said:
            self._writer.write(each)
            self.said += 1
            waiting += len(each)
            if waiting > _AT_ONCE:
                await self._writer.drain()
                waiting = 0
        await self._writer.drain()

    async def until(self, count: int, *kinds: int) -> None:
        """Return when it has received so many of these in all; ConnectionError if it cannot be."""
        async with asyncio.timeout(ANSWERED_WITHIN_S):
            while sum(self.received[kind] for kind in kinds) < count:
                self._news.clear()
                if self._ended:
                    raise ConnectionError("the broker ended the connection")
                await self._news.wait()

    async def heard(self) -> None:
        """Return when all that was said has been served, as far as that is in order."""
        await self._ask(command("ping"), Type.PONG)

    async def publish(self, count: int, topic: str = TOPIC, number: int = 0) -> None:
        """Publish so many small messages to a topic, as producer ``number``."""
        await self._ask(command("lookup_topic", topic=topic, request_id=1), Type.LOOKUP_RESPONSE)
        await self._ask(producer(number, topic), Type.PRODUCER_SUCCESS)
        before = self.received[Type.SEND_RECEIPT]
        await self.say(frames.send(number, each) for each in range(count))
        await self.until(before + count, Type.SEND_RECEIPT)

    async def _ask(self, said: bytes, kind: int) -> None:
        before = self.received[kind]
        await self.say([said])
        await self.until(before + 1, kind)

    async def leave(self) -> None:
        """Go without a word."""
        self._reading.cancel()
        self._writer.transport.abort()
        self._writer.close()
        await asyncio.gather(self._reading, self._writer.wait_closed(), return_exceptions=True)
