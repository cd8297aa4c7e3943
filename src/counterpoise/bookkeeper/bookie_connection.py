"""One connection with a bookie: READ requests and their answers, by asyncio."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import cast

from counterpoise.bookkeeper.errors import BookieError
from counterpoise.bookkeeper.read_frames import (
    AnswerDecoder,
    BadFrame,
    ReadAnswer,
    read_request,
)


class BookieConnection(asyncio.Protocol):
    """Sends requests and finds whom each answer is for; any number at once.

    The protocol has no numbers of requests: an answer names ledger and entry. Equal requests are
    answered in turn, also those whose caller has given up.
    """

    def __init__(self, bookie: str, frame_max: int) -> None:
        self._bookie = bookie
        self._decoder = AnswerDecoder(frame_max)
        self._waiting: dict[tuple[int, int], deque[asyncio.Future[ReadAnswer]]] = {}
        self._transport: asyncio.Transport | None = None
        self._failure = ""

    @property
    def usable(self) -> bool:
        """Whether requests can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    async def read(self, ledger: int, entry: int) -> ReadAnswer:
        """The bookie's answer; raises `BookieError` when the connection ends before it."""
        if self._transport is None or self._transport.is_closing():
            raise BookieError(self._bookie, self._failure or "the connection is closed")
        future: asyncio.Future[ReadAnswer] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault((ledger, entry), deque()).append(future)
        self._transport.write(read_request(ledger, entry))
        return await future

    def close(self, why: str) -> None:
        """End the connection; what waits fails with ``why``."""
        self._failure = self._failure or why
        if self._transport is not None:
            self._transport.abort()
        self._fail_all()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        try:
            for answer in self._decoder.receive(data):
                self._settle(answer)
        except BadFrame as error:
            self.close(f"it sent {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._failure = self._failure or (
            f"the connection was lost: {exc}" if exc else "it hung up"
        )
        self._fail_all()

    def _settle(self, answer: ReadAnswer) -> None:
        key = (answer.ledger, answer.entry)
        futures = self._waiting.get(key)
        if not futures:
            raise BadFrame(f"an answer about {answer.ledger}:{answer.entry}, which nothing asked")
        future = futures.popleft()
        if not futures:
            del self._waiting[key]
        if not future.done():
            future.set_result(answer)

    def _fail_all(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for futures in waiting.values():
            for future in futures:
                if not future.done():
                    future.set_exception(BookieError(self._bookie, self._failure))
