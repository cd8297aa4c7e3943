"""Waits by PING and PONG until a client has read everything that was written before."""

import asyncio
from collections import deque

from counterpoise.names.callbacks import Notify


class RoundTrips:
    """The PINGs of one connection, and the futures that wait for their PONGs.

    Clients handle frames in order: when the PONG arrives, the client has read every frame before
    the PING, and all that it sent before the PONG has arrived here.
    """

    __slots__ = ("_heard", "_loop", "_sent", "_waiting", "_write")

    def __init__(self, loop: asyncio.AbstractEventLoop, write: Notify) -> None:
        """``write`` sends a PING."""
        self._loop = loop
        self._write = write
        self._sent = self._heard = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def ping(self) -> None:
        """Send a PING for which no caller waits."""
        self._sent += 1
        self._write()

    def begin(self) -> asyncio.Future[None]:
        """Send a PING; the future is done once its PONG arrives, or the client has disconnected."""
        self.ping()
        future = self._loop.create_future()
        self._waiting.append((self._sent, future))
        return future

    def pong(self) -> None:
        """Complete the future that waits for the PONG that has arrived, if any does."""
        # A PONG without a PING counts for nothing.
        self._heard = min(self._heard + 1, self._sent)
        self._release(self._heard)

    def end(self) -> None:
        """Complete all futures, since the client has disconnected."""
        self._release(self._sent)

    def _release(self, number: int) -> None:
        while self._waiting and self._waiting[0][0] <= number:
            _, future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)
