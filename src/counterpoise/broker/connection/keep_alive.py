"""Keep-alive: a PING each interval; a client that answers none is disconnected."""

import asyncio
from collections.abc import Callable
from typing import Final

from counterpoise.names.callbacks import Notify

UNREAD_PINGS: Final = 6
"""How many PINGs per interval are sent to a client whose connection is not being read."""


class KeepAlive:
    """Sends PINGs; disconnects a client that does not respond or never completes its handshake.

    A connection whose reading is paused cannot receive PONGs, so it is not disconnected. Since its
    client's PINGs are not read either, PONGs are sent unasked several times an interval: the C++
    client gives up a connection on which no PONG came between two of its checks. Those PONGs also
    show sooner that a client is gone, because without reading only a failing write does.
    """

    __slots__ = ("_answer", "_end", "_handle", "_interval_s", "_loop", "_ping", "_status", "silent")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        interval_s: float,
        status: Callable[[], tuple[bool, bool]],
        ping: Notify,
        answer: Notify,
        end: Callable[[str], None],
    ) -> None:
        """``status`` returns whether the handshake is done and whether the client is being read.
        ``ping`` sends a PING, every ``interval_s`` seconds; ``answer`` is called for PINGs that
        cannot be read; ``end`` disconnects the client, with the reason.
        """
        self._loop = loop
        self._interval_s = interval_s
        self._status = status
        self._ping = ping
        self._answer = answer
        self._end = end
        self.silent = False
        """Whether nothing was received since the last PING; the connection clears it."""
        self._handle = loop.call_later(interval_s, self._tick)

    def _tick(self) -> None:
        connected, reading = self._status()
        if not connected:
            self._end(f"no CONNECT within {self._interval_s:g} s")
        elif self.silent and reading:
            self._end(f"silent for {self._interval_s:g} s after a ping")
        else:
            self.silent = True
            self._ping()
            if not reading:
                self._answer()
            wait_s = self._interval_s if reading else self._interval_s / UNREAD_PINGS
            self._handle = self._loop.call_later(wait_s, self._tick)

    def stop(self) -> None:
        """Send no more PINGs, since the connection is closed."""
        self._handle.cancel()
