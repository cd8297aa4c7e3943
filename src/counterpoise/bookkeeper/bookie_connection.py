"""One connection to a bookie, on asyncio."""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, cast

from counterpoise.bookkeeper.bookie_frames import (
    AnswerDecoder,
    BadFrame,
    BookieAnswer,
    BookieRequest,
)
from counterpoise.bookkeeper.errors import BookieError


class AnswerListener(Protocol):
    """What a connection calls, on the event loop, with a bookie's responses to requests."""

    def answered(self, bookie: str, answers: Sequence[BookieAnswer]) -> None:
        """Called with responses of the bookie to this listener's requests; each may be an error."""

    def unanswered(self, bookie: str, request: BookieRequest, error: BookieError) -> None:
        """Called when the bookie will not respond; it may have carried out the request."""


class _InFlight(NamedTuple):
    """A request that waits for its response; a named tuple, as each copy of an entry has one."""

    request: BookieRequest
    listener: AnswerListener
    sent_s: float


_Key = tuple[int, int, int]
"""Operation, ledger and entry, by which a response is matched to its request."""


class BookieConnection(asyncio.Protocol):
    """A connection to one bookie: sends concurrent requests and matches responses to them.

    The protocol has no request numbers: a response names operation, ledger and entry. Equal
    requests are matched in order. If a bookie does not respond within ``timeout_s``, the connection
    ends, and with it every request in flight. Everything sent in one turn of the event loop leaves
    as one write.
    """

    def __init__(self, bookie: str, frame_max: int, timeout_s: float) -> None:
        self._bookie = bookie
        self._timeout_s = timeout_s
        self._decoder = AnswerDecoder(frame_max)
        self._in_flight: dict[_Key, _InFlight] = {}
        """Requests that wait for a response, the oldest first; of equal requests only the first."""
        self._equal: dict[_Key, deque[_InFlight]] = {}
        """Requests that were sent while an equal one was in flight."""
        self._unsent: list[bytes] = []
        self._turn_s = 0.0
        """When the first of the unsent requests was made."""
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._watch: asyncio.TimerHandle | None = None
        self.failure = ""
        """Why the connection ended; empty while it has not."""
        self.has_answered = False
        """Whether the bookie has ever responded on this connection."""

    @property
    def usable(self) -> bool:
        """Whether the connection is open, so that requests can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    def send(self, requests: Sequence[BookieRequest], listener: AnswerListener) -> None:
        """Send requests; the listener is notified later, never before this returns."""
        if not self.usable:
            error = BookieError(self._bookie, self.failure or "the connection is closed")
            for request in requests:
                self._loop.call_soon(listener.unanswered, self._bookie, request, error)
            return
        if not self._unsent:
            self._turn_s = self._loop.time()
            self._loop.call_soon(self._flush)
        for request in requests:
            self._unsent.append(request.frame)
            key = request[:3]
            sent = _InFlight(request, listener, self._turn_s)
            if self._in_flight.setdefault(key, sent) is not sent:
                self._equal.setdefault(key, deque()).append(sent)
        if self._watch is None:
            self._watch = self._loop.call_at(self._turn_s + self._timeout_s, self._look)

    def close(self, why: str) -> None:
        """End the connection; requests in flight fail with ``why``."""
        self.failure = self.failure or why
        if self._transport is not None:
            self._transport.abort()
        self._fail_all()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio when the bookie is connected."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Parse bytes from the bookie, and pass complete responses to their listeners."""
        try:
            self._resolve(self._decoder.receive(data))
        except BadFrame as error:
            self.close(f"it sent {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio when the bookie is disconnected: fail all requests in flight."""
        self.failure = self.failure or (f"the connection was lost: {exc}" if exc else "it hung up")
        self._fail_all()

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self.usable and self._transport is not None:
            self._transport.writelines(unsent)

    def _resolve(self, answers: Iterable[BookieAnswer]) -> None:
        """Pass responses to their listeners, consecutive ones for the same listener in one call."""
        listener: AnswerListener | None = None
        its: list[BookieAnswer] = []
        for answer in answers:
            key = (answer.operation, answer.ledger, answer.entry)
            answered = self._in_flight.get(key)
            if listener is not None and (answered is None or answered.listener is not listener):
                listener.answered(self._bookie, its)
                its = []
                # The listener may have closed the connection.
                answered = self._in_flight.get(key)
            if answered is None:
                raise BadFrame(
                    f"an answer about {answer.ledger}:{answer.entry}, which nothing asked"
                )
            self.has_answered = True
            following = self._equal.get(key) if self._equal else None
            if following:
                self._in_flight[key] = following.popleft()
            else:
                del self._in_flight[key]
            listener = answered.listener
            its.append(answer)
        if listener is not None:
            listener.answered(self._bookie, its)

    def _look(self) -> None:
        """Check whether the oldest request has timed out."""
        self._watch = None
        oldest = next(iter(self._in_flight.values()), None)
        if oldest is None:
            return
        until = oldest.sent_s + self._timeout_s
        if until <= self._loop.time():
            self.close(f"no answer within {self._timeout_s:g} s")
        else:
            self._watch = self._loop.call_at(until, self._look)

    def _fail_all(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        in_flight, self._in_flight = self._in_flight, {}
        equal, self._equal = self._equal, {}
        error = BookieError(self._bookie, self.failure)
        for key, first in in_flight.items():
            for each in (first, *equal.get(key, ())):
                each.listener.unanswered(self._bookie, each.request, error)
