"""One connection's wire, as the parts that serve its requests use it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine

from counterpoise.broker.connection.outbox import Outbox
from counterpoise.broker.connection.pause import ReadingPause
from counterpoise.broker.errors import BrokerError
from counterpoise.names.errors import InvalidName
from counterpoise.names.topic import TopicName
from counterpoise.wire.errors import ServerError
from counterpoise.wire.protocol import ServerProtocol

log = logging.getLogger("counterpoise.broker")

Refuse = Callable[[ServerError, str], bytes]


class Link:
    """The protocol's state, the way out, why nothing is read, and the requests under way."""

    __slots__ = (
        "_loop",
        "_tasks",
        "address",
        "client_version",
        "outbox",
        "pause",
        "protocol",
        "protocol_version",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        protocol: ServerProtocol,
        outbox: Outbox,
        pause: ReadingPause,
        address: str,
    ) -> None:
        self.protocol = protocol
        self.outbox = outbox
        self.pause = pause
        self.address = address
        self.client_version = ""
        self.protocol_version = 0
        self._loop = loop
        self._tasks: set[asyncio.Task[None]] = set()

    def answer(self, work: Coroutine[None, None, bytes | None], refuse: Refuse) -> None:
        """Do a request's work beside the others'; write what it returns, or its refusal."""
        task = self._loop.create_task(self._answer(work, refuse))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, work: Coroutine[None, None, bytes | None], refuse: Refuse) -> None:
        try:
            frame = await work
        except BrokerError as error:
            frame = refuse(error.code, error.message)
        except InvalidName as error:
            frame = refuse(ServerError.InvalidTopicName, str(error))
        except Exception:
            log.exception("A request of %s failed in a way it must not", self.address)
            frame = refuse(ServerError.UnknownError, "The broker failed; its log says how")
        if frame is not None:
            self.outbox.write(frame)

    def close(self) -> None:
        """Give up what is still being worked on."""
        for task in self._tasks:
            task.cancel()


def topic_name(text: str) -> TopicName:
    """Read a topic's name as a client wrote it; BrokerError InvalidTopicName if it is none."""
    try:
        return TopicName.parse(text)
    except InvalidName as error:
        raise BrokerError(ServerError.InvalidTopicName, str(error)) from None
