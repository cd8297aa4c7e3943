"""What a connection is about to write: gathered during one turn of the loop, written at its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from counterpoise.broker.connection.ports import Traffic

#: With more than this many bytes waiting, topics stop delivering to the connection.
HIGH_WATER = 1024 * 1024
#: Below this many they start again.
LOW_WATER = 256 * 1024
#: Above this average size of a frame, copying the frames together costs more than it saves.
_JOIN_AVERAGE_MAX = 8 * 1024


class Outbox:
    """Frames on their way out, in order.

    A receipt or a message is some ten bytes to some hundred: one write a turn of the loop, not one
    a frame, is what makes tens of thousands of them a second possible.
    """

    __slots__ = ("_frames", "_loop", "_on_writable", "_paused", "_size", "_traffic", "_transport")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport,
        traffic: Traffic,
        on_writable: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._transport = transport
        self._traffic = traffic
        self._on_writable = on_writable
        self._frames: list[bytes] = []
        self._size = 0
        self._paused = False
        transport.set_write_buffer_limits(high=HIGH_WATER, low=LOW_WATER)

    @property
    def writable(self) -> bool:
        """False while the client does not read fast enough."""
        return not self._paused and self._size < HIGH_WATER

    def write(self, frame: bytes) -> None:
        """Write a frame at the end of this turn."""
        frames = self._frames
        if not frames:
            self._loop.call_soon(self.flush)
        frames.append(frame)

    def write_burst(self, frames: list[bytes], size: int) -> None:
        """Write frames of ``size`` bytes in all at the end of this turn."""
        waiting = self._frames
        if not waiting:
            self._loop.call_soon(self.flush)
        waiting += frames
        self._size += size

    def flush(self) -> None:
        """Write everything now."""
        frames = self._frames
        if not frames or self._transport.is_closing():
            frames.clear()
            return
        self._frames = []
        was_writable = self.writable
        size, self._size = self._size, 0
        if size > len(frames) * _JOIN_AVERAGE_MAX:
            self._traffic.bytes_out += size
            self._transport.writelines(frames)
        else:
            joined = b"".join(frames)
            self._traffic.bytes_out += len(joined)
            self._transport.write(joined)
        if not was_writable and self.writable:
            self._on_writable()

    def pause(self) -> None:
        """The socket takes no more for now."""
        self._paused = True

    def resume(self) -> None:
        """The socket takes more."""
        self._paused = False
        self._on_writable()
