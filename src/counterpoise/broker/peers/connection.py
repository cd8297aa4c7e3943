"""A broker's connection to another broker: requests with responses, and received messages."""

import asyncio
import itertools
import ssl
from collections.abc import Callable
from typing import Any, Final, cast

from google.protobuf.message import DecodeError, Message

from counterpoise.security.client import ANONYMOUS, ClientSecurity
from counterpoise.wire import encode
from counterpoise.wire.constants import PROTOCOL_VERSION
from counterpoise.wire.frames import frames_in
from counterpoise.wire.proto import commands_pb2 as commands
from counterpoise.wire.proto import values_pb2 as raw
from counterpoise.wire.proto.base_pb2 import BaseCommand

_Type = BaseCommand.Type
TLS_SCHEME: Final = "pulsar+ssl://"
_CLIENT_VERSION: Final = "counterpoise-broker"
_ANSWERS: Final = {
    _Type.SUCCESS: "success",
    _Type.PRODUCER_SUCCESS: "producer_success",
    _Type.LOOKUP_RESPONSE: "lookup_topic_response",
    _Type.GET_LAST_MESSAGE_ID_RESPONSE: "get_last_message_id_response",
    _Type.END_TXN_ON_PARTITION_RESPONSE: "end_txn_on_partition_response",
    _Type.END_TXN_ON_SUBSCRIPTION_RESPONSE: "end_txn_on_subscription_response",
}
"""By type of a response: the name of the field of `BaseCommand` that contains it."""


_MAY_REFUSE: Final = frozenset(
    (_Type.END_TXN_ON_PARTITION_RESPONSE, _Type.END_TXN_ON_SUBSCRIPTION_RESPONSE)
)


class PeerError(Exception):
    """Another broker could not be reached, refused, or disconnected; the text names it and why."""


class PeerConnection(asyncio.Protocol):
    """The client side of a connection from this broker to another one."""

    def __init__(
        self,
        url: str,
        on_message: Callable[[BaseCommand, bytes], None],
        on_closed: Callable[[str], None],
        security: ClientSecurity = ANONYMOUS,
    ) -> None:
        """``on_closed`` is called with the reason if the peer disconnects, or closes the producer
        or the consumer.
        """
        self.url: Final = url
        self._on_message = on_message
        self._on_closed = on_closed
        self._security = security
        self._buffer = bytearray()
        self._request_ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[BaseCommand]] = {}
        self._unconfirmed: dict[int, asyncio.Future[BaseCommand]] = {}
        self._connected: asyncio.Future[BaseCommand] | None = None
        self._transport: asyncio.Transport | None = None

    @staticmethod
    async def open(
        url: str,
        on_message: Callable[[BaseCommand, bytes], None],
        on_closed: Callable[[str], None],
        timeout_s: float,
        security: ClientSecurity = ANONYMOUS,
    ) -> "PeerConnection":
        """Connect to ``pulsar://host:port`` or ``pulsar+ssl://host:port``; raises `PeerError`."""
        tls = url.startswith(TLS_SCHEME)
        host, _, port = url.partition("://")[2].rpartition(":")
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_s):
                _, made = await loop.create_connection(
                    lambda: PeerConnection(url, on_message, on_closed, security),
                    host,
                    int(port),
                    ssl=security.context() if tls else None,
                )
                try:
                    await made.hello()
                except BaseException:
                    made.close()
                    raise
        except (OSError, TimeoutError, ValueError, ssl.SSLError) as error:
            raise PeerError(f"{url} cannot be reached: {error or 'no answer in time'}") from error
        return made

    async def hello(self) -> None:
        """Send CONNECT and wait until it is accepted; raises `PeerError`."""
        self._connected = asyncio.get_running_loop().create_future()
        method, data = self._security.shown()
        connect = commands.CommandConnect(
            client_version=_CLIENT_VERSION,
            protocol_version=PROTOCOL_VERSION,
            auth_method_name=method,
            auth_data=data,
            feature_flags=raw.FeatureFlags(supports_auth_refresh=True),
        )
        self._write(encode.frame(connect))
        await self._connected

    async def request(self, command: Any) -> BaseCommand:
        """Send a command with a new request id; returns the response, raises `PeerError`."""
        number = command.request_id = next(self._request_ids)
        answer: asyncio.Future[BaseCommand] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            self._write(encode.frame(command))
            return await answer
        finally:
            self._waiting.pop(number, None)

    async def send(self, producer_id: int, sequence_id: int, entry: bytes) -> None:
        """Publish an entry; returns when it is stored, raises `PeerError`."""
        receipt = asyncio.get_running_loop().create_future()
        self._unconfirmed[sequence_id] = receipt
        send = commands.CommandSend(producer_id=producer_id, sequence_id=sequence_id)
        try:
            self._write(encode.frame(send, entry))
            await receipt
        finally:
            self._unconfirmed.pop(sequence_id, None)

    def notify(self, command: Message) -> None:
        """Send a command that has no response; does nothing once disconnected."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(encode.frame(command))

    def close(self) -> None:
        """Close without a call of ``on_closed``."""
        self._on_closed = lambda _: None
        if self._transport is not None:
            self._transport.abort()

    def _write(self, frame: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            raise PeerError(f"{self.url} has closed the connection")
        self._transport.write(frame)

    def _renewed(self) -> commands.CommandAuthResponse:
        """Return an AUTH_RESPONSE with the present credentials, since earlier ones have expired."""
        method, data = self._security.shown()
        return commands.CommandAuthResponse(
            client_version=_CLIENT_VERSION,
            response=raw.AuthData(auth_method_name=method, auth_data=data),
            protocol_version=PROTOCOL_VERSION,
        )

    # Callbacks of asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport of the open connection."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Handle the frames that these bytes complete."""
        self._buffer += data
        try:
            for command, entry in frames_in(self._buffer):
                self._receive(command, entry)
        except DecodeError as error:
            self._lose(f"{self.url} sent what is no command: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail all requests, since the other broker disconnected."""
        self._lose(f"{self.url} has closed the connection{f': {exc}' if exc else ''}")

    def _lose(self, why: str) -> None:
        for future in (self._connected, *self._waiting.values(), *self._unconfirmed.values()):
            if future is not None and not future.done():
                future.set_exception(PeerError(why))
                future.exception()  # Else asyncio logs it if no request awaits the future.
        on_closed, self._on_closed = self._on_closed, lambda _: None
        if self._transport is not None:
            self._transport.abort()
        on_closed(why)

    def _receive(self, command: BaseCommand, entry: bytes) -> None:
        kind = command.type
        if kind == _Type.MESSAGE:
            self._on_message(command, entry)
        elif kind == _Type.SEND_RECEIPT:
            self._resolve(self._unconfirmed.get(command.send_receipt.sequence_id), command)
        elif kind == _Type.SEND_ERROR:
            refused = command.send_error
            self._refuse(self._unconfirmed.get(refused.sequence_id), refused.message)
        elif kind in _ANSWERS:
            answer = getattr(command, _ANSWERS[kind])
            waiting = self._waiting.get(answer.request_id)
            if kind in _MAY_REFUSE and answer.HasField("error"):
                self._refuse(waiting, answer.message)
            else:
                self._resolve(waiting, command)
        elif kind == _Type.ERROR:
            # An ERROR that answers no request refuses the connection itself.
            waiting = self._waiting.get(command.error.request_id, self._connected)
            self._refuse(waiting, command.error.message)
        elif kind == _Type.PING:
            self.notify(commands.CommandPong())
        elif kind == _Type.AUTH_CHALLENGE:
            self.notify(self._renewed())
        elif kind == _Type.CONNECTED:
            self._resolve(self._connected, command)
        elif kind in (_Type.CLOSE_PRODUCER, _Type.CLOSE_CONSUMER):
            self._lose(f"{self.url} serves the topic no more")

    @staticmethod
    def _resolve(waiting: asyncio.Future[BaseCommand] | None, answer: BaseCommand) -> None:
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def _refuse(self, waiting: asyncio.Future[BaseCommand] | None, why: str) -> None:
        if waiting is not None and not waiting.done():
            waiting.set_exception(PeerError(f"{self.url}: {why}"))
