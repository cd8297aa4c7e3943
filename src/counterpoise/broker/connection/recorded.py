"""Connections whose traffic is recorded: a subclass, so that others have no overhead."""

import asyncio
import struct
from collections.abc import Iterable
from typing import Final, Protocol, cast

from google.protobuf.message import DecodeError

from counterpoise.broker.connection.connection import Connection
from counterpoise.broker.connection.ports import ConnectionConfig, Services
from counterpoise.broker.connection.shared_parts import SharedByConnections
from counterpoise.wire.encode import frame_of
from counterpoise.wire.frames import cut_frames
from counterpoise.wire.proto.base_pb2 import BaseCommand

_LENGTH: Final = struct.Struct(">I")
_SIZES: Final = struct.Struct(">II")
_FRAME_MAX: Final = 128 * 1024 * 1024
_SECRETS: Final = ("auth_data", "original_auth_data")
_AUTHENTICATION: Final = (BaseCommand.AUTH_CHALLENGE, BaseCommand.AUTH_RESPONSE)


class TrafficRecorder(Protocol):
    """Records what passes between clients and brokers."""

    def opened(self) -> int:
        """Record that a client connected; returns the number of its connection in the recording."""

    def received(self, connection: int, frame: bytes) -> None:
        """Record a frame that was received from the client."""

    def sent(self, connection: int, command: bytes) -> None:
        """Record a frame that was sent to the client: its command, without the payload."""

    def closed(self, connection: int) -> None:
        """Record that the connection has ended."""


class RecordedConnection(Connection):
    """A client connection that passes each received frame, without credentials, to a recorder."""

    def __init__(
        self,
        services: Services,
        config: ConnectionConfig,
        shared: SharedByConnections,
        listener: str = "",
        *,
        recorder: TrafficRecorder,
    ) -> None:
        super().__init__(services, config, shared, listener)
        self._recorder = recorder

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to record the client that has connected, and serve it."""
        self._number = self._recorder.opened()
        self._partial: bytearray | None = bytearray()
        super().connection_made(
            RecordedTransport(cast("asyncio.Transport", transport), self._recorder, self._number)
        )

    def data_received(self, data: bytes) -> None:
        """Serve the frames that these bytes complete, up to one turn's budget; without bytes, go
        on with earlier ones.
        """
        if data and self._partial is not None:
            self._partial += data
            self._record_whole(self._partial)
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the recording, and detach the producers and consumers."""
        self._recorder.closed(self._number)
        super().connection_lost(exc)

    def _record_whole(self, partial: bytearray) -> None:
        at = 0
        while len(partial) - at >= _SIZES.size:
            total, size = _SIZES.unpack_from(partial, at)
            if not size + _LENGTH.size <= total <= _FRAME_MAX:
                # This frame is invalid and ends the connection: nothing after it is a command.
                self._partial = None
                return
            end = at + _LENGTH.size + total
            if len(partial) < end:
                break
            frame = without_secrets(bytes(partial[at:end]))
            if frame:
                self._recorder.received(self._number, frame)
            at = end
        del partial[:at]


class RecordedTransport(asyncio.Transport):
    """A transport that passes the commands written to it to a recorder."""

    def __init__(
        self, transport: asyncio.Transport, recorder: TrafficRecorder, number: int
    ) -> None:
        super().__init__()
        self._transport = transport
        self._recorder = recorder
        self._number = number
        # All methods that do not write are the transport's.
        self.abort = transport.abort  # type: ignore[method-assign]
        self.close = transport.close  # type: ignore[method-assign]
        self.is_closing = transport.is_closing  # type: ignore[method-assign]
        self.get_extra_info = transport.get_extra_info  # type: ignore[method-assign]
        self.pause_reading = transport.pause_reading  # type: ignore[method-assign]
        self.resume_reading = transport.resume_reading  # type: ignore[method-assign]
        self.get_write_buffer_size = transport.get_write_buffer_size  # type: ignore[method-assign]
        self.set_write_buffer_limits = (  # type: ignore[method-assign]
            transport.set_write_buffer_limits
        )

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send whole frames to the client, and record them."""
        for command, _ in cut_frames(bytes(data)):
            if command.type not in _AUTHENTICATION:
                self._recorder.sent(self._number, command.SerializeToString())
        self._transport.write(data)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Send whole frames to the client, and record them."""
        self.write(b"".join(list_of_data))


def without_secrets(frame: bytes) -> bytes:
    """Return a frame without the client's credentials; b"" if it is there only to carry them."""
    try:
        [(command, _)] = cut_frames(frame)
    except DecodeError:
        return b""
    if command.type in _AUTHENTICATION:
        return b""
    if command.type != BaseCommand.CONNECT:
        return frame
    for name in _SECRETS:
        command.connect.ClearField(name)
    return frame_of(command)
