"""What the request handlers of one client connection share."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.connection.outbox import FrameWriter
from counterpoise.broker.connection.pause import PauseReason, ReadingPause
from counterpoise.broker.connection.permissions import ClientPermissions
from counterpoise.broker.connection.round_trips import RoundTrips
from counterpoise.broker.topic.ports import ServiceUrls
from counterpoise.names.errors import InvalidName
from counterpoise.names.topic import TopicName
from counterpoise.wire import encode
from counterpoise.wire.errors import ServerError
from counterpoise.wire.protocol import ServerProtocol

REQUESTS_MAX: Final = 1000
"""Requests of one client that may be in progress; beyond it the client is not read until half are
answered."""

log = logging.getLogger("counterpoise.broker")

Refuse = Callable[[ServerError, str], bytes | None]


@dataclass(slots=True, eq=False)
class ClientLink:
    """What the request handlers of one client connection share: protocol state, outbox, reading
    pause, running requests.

    A request whose client disconnects is finished all the same and its response dropped: others may
    wait for it, such as for a lookup that acquires a bundle.
    """

    background: BackgroundTasks
    protocol: ServerProtocol
    outbox: FrameWriter
    pause: ReadingPause
    address: str
    permits: ClientPermissions
    """Checks what the client may do."""
    listener: str = ""
    """The advertised listener whose socket the client connected to; blank: the default."""
    client_version: str = field(default="", init=False)
    protocol_version: int = field(default=0, init=False)
    closed: bool = field(default=False, init=False)
    """Whether the client has disconnected, so that nothing is sent to it."""
    begun: int = field(default=0, init=False)
    """How many requests the client has begun since it connected."""
    listing: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    """Held while the client's list of topics is made: it is long, so one is made at a time."""
    round_trips: RoundTrips = field(init=False)
    _under_way: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Send PINGs to the outbox as it is now, so that no fault injected later strikes them."""
        ping = partial(self.outbox.write, encode.PING)
        self.round_trips = RoundTrips(asyncio.get_running_loop(), ping)

    def respond(self, work: Coroutine[None, None, bytes | None], event: Any) -> None:
        """Run ``work`` and write the response it returns; on an error, refuse ``event`` with it."""
        self.answer(work, partial(encode.refuse, event))

    def answer(self, work: Coroutine[None, None, bytes | None], refuse: Refuse) -> None:
        """Run a request concurrently; write its response, or on an error ``refuse``'s frame."""
        self.begun += 1
        self._under_way += 1
        if self._under_way >= REQUESTS_MAX:
            self.pause.hold(PauseReason.REQUESTS)
        task = self.background.start("a client's request", self._answer(work, refuse))
        task.add_done_callback(lambda _: self._answered(work))

    def _answered(self, work: Coroutine[None, None, bytes | None]) -> None:
        work.close()  # a task that is cancelled before it begins never awaits it
        self._under_way -= 1
        if self._under_way <= REQUESTS_MAX // 2:
            self.pause.release(PauseReason.REQUESTS)

    def sent_on_to(self, urls: ServiceUrls | None) -> tuple[str | None, str | None] | None:
        """The plain and TLS URL to redirect this client to; None: it must look up."""
        return None if urls is None else urls.seen_by(self.listener)

    def keep(
        self, name: str, work: Callable[[], Coroutine[None, None, None]]
    ) -> asyncio.Task[None]:
        """Run a background task of this connection, again after errors, until it is cancelled."""
        return self.background.keep(f"{name} of {self.address}", work)

    async def _answer(self, work: Coroutine[None, None, bytes | None], refuse: Refuse) -> None:
        if self.closed:
            return
        try:
            frame = await work
        except BrokerError as error:
            frame = refuse(error.code, _named(error))
        except InvalidName as error:
            frame = refuse(ServerError.InvalidTopicName, str(error))
        except Exception:
            log.exception("A request of %s failed in a way it must not", self.address)
            frame = refuse(ServerError.UnknownError, "The broker failed; its log says how")
        if frame is not None and not self.closed:
            self.outbox.write(frame)

    def close(self) -> None:
        """Start no more requests and write nothing, since the client has disconnected."""
        self.closed = True
        self.round_trips.end()


def _named(error: BrokerError) -> str:
    """Return an error's message, after the name of Pulsar's exception if a schema was refused.

    Tests of Pulsar's own clients look for that name.
    """
    if error.code is ServerError.IncompatibleSchema:
        return f"IncompatibleSchemaException: {error.message}"
    return error.message


def topic_name(text: str) -> TopicName:
    """Parse a topic's name as a client wrote it; raises `BrokerError` InvalidTopicName."""
    try:
        return TopicName.parse(text)
    except InvalidName as error:
        raise BrokerError(ServerError.InvalidTopicName, str(error)) from None
