"""A connection's outgoing frames: collected during one turn of the loop, written at its end."""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from counterpoise.broker.base.traffic import Traffic
from counterpoise.broker.connection.pause import PauseReason, ReadingPause
from counterpoise.names.callbacks import Notify

MIB: Final = 1024 * 1024
HIGH_WATER: Final = MIB
"""With more than this many bytes waiting, topics stop delivering to the connection."""
LOW_WATER: Final = MIB // 4
"""Below this many waiting bytes, topics deliver to the connection again."""
UNREAD_MAX: Final = 4 * MIB
"""With more than this many bytes waiting, the client's requests are not read either."""
GIVE_UP_AT: Final = 32 * MIB
"""With more than this many bytes waiting, the client is disconnected."""
_JOIN_AVERAGE_MAX: Final = 8 * 1024
"""Above this average size of a frame, copying the frames together costs more than it saves."""


class FrameWriter(Protocol):
    """Where request handlers write a connection's outgoing frames."""

    @property
    def writable(self) -> bool:
        """False while the client reads too slowly, so that topics should send no messages."""
        ...

    async def room(self) -> None:
        """Wait until the client has read most of what it was sent, or has disconnected."""

    def write(self, frame: bytes) -> None:
        """Write a frame at the end of this turn of the event loop."""

    def write_burst(self, frames: list[bytes], size: int) -> None:
        """Write frames of ``size`` bytes in all at the end of this turn of the event loop."""


class KeptFrames:
    """Stands for a frozen connection's transport: buffers frames until they may be sent."""

    def __init__(self, transport: asyncio.WriteTransport) -> None:
        self.transport = transport
        self.kept: list[bytes] = []
        self.is_closing = transport.is_closing
        self.writelines = self.kept.extend
        self.write = self.kept.append

    def get_write_buffer_size(self) -> int:
        """How many bytes are not written yet."""
        return sum(map(len, self.kept)) + self.transport.get_write_buffer_size()


class Outbox:
    """Collects the frames for a client during one turn of the event loop, and writes them at once.

    A receipt or a message is ten to some hundred bytes. One write per turn instead of one per frame
    makes tens of thousands of them per second possible.
    """

    __slots__ = (
        "_frames",
        "_give_up",
        "_loop",
        "_on_writable",
        "_pause",
        "_paused",
        "_room",
        "_size",
        "_traffic",
        "_transport",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport,
        traffic: Traffic,
        pause: ReadingPause,
        *,
        on_writable: Notify,
        give_up: Callable[[str], None],
    ) -> None:
        """``give_up`` is called with the reason to disconnect a client that does not read."""
        self._loop = loop
        self._transport: asyncio.WriteTransport | KeptFrames = transport
        self._traffic = traffic
        self._pause = pause
        self._on_writable = on_writable
        self._give_up = give_up
        self._frames: list[bytes] = []
        self._size = 0
        self._paused = False
        self._room = asyncio.Event()
        self._room.set()
        transport.set_write_buffer_limits(high=HIGH_WATER, low=LOW_WATER)

    @property
    def writable(self) -> bool:
        """False while the client reads too slowly, so that topics should send no messages."""
        return not self._paused and self._size < HIGH_WATER

    @property
    def waiting(self) -> int:
        """Bytes that have not been passed to the socket yet."""
        return self._size + self._transport.get_write_buffer_size()

    async def room(self) -> None:
        """Wait until the client has read most of what it was sent, or has disconnected."""
        await self._room.wait()

    def write(self, frame: bytes) -> None:
        """Write a frame at the end of this turn of the event loop."""
        frames = self._frames
        if not frames:
            self._loop.call_soon(self.flush)
        frames.append(frame)
        self._size += len(frame)

    def write_burst(self, frames: list[bytes], size: int) -> None:
        """Write frames of ``size`` bytes in all at the end of this turn of the event loop."""
        waiting = self._frames
        if not waiting:
            self._loop.call_soon(self.flush)
        waiting += frames
        self._size += size

    def flush(self) -> None:
        """Write all collected frames to the transport now."""
        frames, self._frames = self._frames, []
        size, self._size = self._size, 0
        if not frames or self._transport.is_closing():
            return
        was_full = size >= HIGH_WATER
        self._traffic.bytes_out += size
        if size > len(frames) * _JOIN_AVERAGE_MAX:
            self._transport.writelines(frames)
        else:
            self._transport.write(b"".join(frames))
        waiting = self._transport.get_write_buffer_size()
        if waiting > UNREAD_MAX:
            self._pause.hold(PauseReason.UNREAD_ANSWERS)
            if waiting > GIVE_UP_AT:
                self._give_up(f"{waiting} bytes wait for it to read them")
                return
        if was_full and self.writable:
            self._on_writable()

    def keep(self) -> None:
        """Write nothing, and buffer every frame, until `send_kept` (for a frozen broker)."""
        if not isinstance(self._transport, KeptFrames):
            self._transport = KeptFrames(self._transport)

    def send_kept(self) -> None:
        """Send what was buffered, and write normally again."""
        keeper = self._transport
        if isinstance(keeper, KeptFrames):
            self._transport = keeper.transport
            self._transport.writelines(keeper.kept)
            if not self._paused:
                # The socket has taken most of it at once: no `resume` follows.
                self._pause.release(PauseReason.UNREAD_ANSWERS)

    def pause(self) -> None:
        """Stop being `writable`, since the socket's buffer is full."""
        self._paused = True
        self._room.clear()

    def resume(self) -> None:
        """Be `writable` and read from the client again, since the socket's buffer has drained."""
        self._paused = False
        self._room.set()
        self._pause.release(PauseReason.UNREAD_ANSWERS)
        self._on_writable()

    def close(self) -> None:
        """Stop being `writable` for good, so that topics send nothing to a client that is gone."""
        self._paused = True
        self._room.set()
