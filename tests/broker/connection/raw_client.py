"""A client that says exactly what a test wants it to say, byte by byte."""

import socket
import struct
from types import TracebackType
from typing import Self

from counterpoise.wire.proto.base_pb2 import BaseCommand
from tests.waiting import WITHIN_S
from tests.wire import frames
from tests.wire.frames import Type


class RawClient:
    """One connection; `receive` waits for the next frame, whatever it is."""

    def __init__(self, service_url: str, timeout_s: float = WITHIN_S) -> None:
        host, port = service_url.removeprefix("pulsar://").split(":")
        self.socket = socket.create_connection((host, int(port)), timeout_s)
        self._buffer = b""
        self._request_id = 100

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def command(self, field: str, **values: object) -> None:
        self.send(frames.frame(frames.command(field, **values)))

    def ping(self) -> None:
        """Return once the broker has come to a ping, and so to all that was sent before it."""
        self.command("ping")
        self.receive(Type.PONG)

    def _read(self, size: int) -> bytes:
        while len(self._buffer) < size:
            data = self.socket.recv(1 << 16)
            if not data:
                raise ConnectionError("closed by the broker")
            self._buffer += data
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken

    def receive(self, kind: int | None = None) -> BaseCommand:
        """Return the next command; it must be of this kind if one is given."""
        return self.receive_with_entry(kind)[0]

    def receive_with_entry(self, kind: int | None = None) -> tuple[BaseCommand, bytes]:
        command, entry = self._next()
        # A client that waits may have been silent for so long that the broker pings it.
        while kind not in (None, Type.PING) and command.type == Type.PING:
            self.command("pong")
            command, entry = self._next()
        if kind is not None:
            assert command.type == kind, f"{command} instead of {Type.Name(kind)}"
        return command, entry

    def _next(self) -> tuple[BaseCommand, bytes]:
        (total,) = struct.unpack(">I", self._read(4))
        return frames.parse(struct.pack(">I", total) + self._read(total))

    def closed(self, otherwise: int | None = None) -> bool:
        """Wait for the end of the connection; False if a frame (of this kind) comes instead."""
        try:
            self.receive(otherwise)
        except ConnectionError:
            return True
        return False

    def connect(self, protocol_version: int = 21) -> BaseCommand:
        self.command("connect", client_version="raw", protocol_version=protocol_version)
        return self.receive(Type.CONNECTED)

    def produce(self, topic: str, producer_id: int = 0, **more: object) -> BaseCommand:
        self._request_id += 1
        self.command(
            "producer", topic=topic, producer_id=producer_id, request_id=self._request_id, **more
        )
        return self.receive(Type.PRODUCER_SUCCESS)

    def subscribe(
        self, topic: str, consumer_id: int = 0, name: str = "s", **more: object
    ) -> BaseCommand:
        self._request_id += 1
        fields = {"sub_type": 1, **more}
        self.command(
            "subscribe",
            topic=topic,
            subscription=name,
            consumer_id=consumer_id,
            request_id=self._request_id,
            **fields,
        )
        return self.receive(Type.SUCCESS)

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
