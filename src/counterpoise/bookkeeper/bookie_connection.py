"""One connection to a bookie, on asyncio."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol, cast

from counterpoise.bookkeeper.bookie_frames import (
    AnswerDecoder,
    BadFrame,
    BookieAnswer,
    BookieRequest,
)
from counterpoise.bookkeeper.errors import BookieError


class AnswerListener(Protocol):
    """Callbacks for a bookie's responses to requests, on the event loop."""

    def answered(self, bookie: str, answer: BookieAnswer) -> None:
        """Called with the bookie's response, which may be an error."""

    def unanswered(self, bookie: str, request: BookieRequest, error: BookieError) -> None:
        """Called when the bookie will not respond; it may have carried out the request."""


@dataclass(slots=True, eq=False)
class _InFlight:
    """A request that waits for its response."""

    request: BookieRequest
    listener: AnswerListener
    sent_s: float
    following: _InFlight | None = None
    """An equal request that was sent later."""


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
        self._in_flight: dict[tuple[int, int, int], _InFlight] = {}
        """The first of equal requests by what its response will name; the oldest first."""
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
        """Whether requests can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    def send(self, request: BookieRequest, listener: AnswerListener) -> None:
        """Send a request; the listener is notified later, never before this returns."""
        if not self.usable:
            error = BookieError(self._bookie, self.failure or "the connection is closed")
            self._loop.call_soon(listener.unanswered, self._bookie, request, error)
            return
        if not self._unsent:
            self._turn_s = self._loop.time()
            self._loop.call_soon(self._flush)
        self._unsent.append(request.frame)
        sent = _InFlight(request, listener, self._turn_s)
        before = self._in_flight.setdefault(request[:3], sent)
        if before is not sent:
            while before.following is not None:
                before = before.following
            before.following = sent
        if self._watch is None:
            self._watch = self._loop.call_at(self._turn_s + self._timeout_s, self._look)

    def close(self, why: str) -> None:
        """End the connection; requests in flight fail with ``why``."""
        self.failure = self.failure or why
        if self._transport is not None:
            self._transport.abort()
        self._fail_all()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The bookie is connected."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Parse bytes from the bookie, and pass each complete response to its listener."""
        try:
            for answer in self._decoder.receive(data):
                self._settle(answer)
        except BadFrame as error:
            self.close(f"it sent {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        """The bookie is disconnected: fail all requests in flight."""
        self.failure = self.failure or (f"the connection was lost: {exc}" if exc else "it hung up")
        self._fail_all()

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self.usable and self._transport is not None:
            self._transport.writelines(unsent)

    def _settle(self, answer: BookieAnswer) -> None:
        key = (answer.operation, answer.ledger, answer.entry)
        answered = self._in_flight.get(key)
        if answered is None:
            raise BadFrame(f"an answer about {answer.ledger}:{answer.entry}, which nothing asked")
        self.has_answered = True
        if answered.following is None:
            del self._in_flight[key]
        else:
            self._in_flight[key] = answered.following
        answered.listener.answered(self._bookie, answer)

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
        error = BookieError(self._bookie, self.failure)
        for first in in_flight.values():
            each: _InFlight | None = first
            while each is not None:
                each.listener.unanswered(self._bookie, each.request, error)
                each = each.following
