"""Connects to bookies by TLS: a START_TLS request in plain text, its response, the handshake.

The request is of version 3 of BookKeeper's protocol. A bookie then uses version 2 on the same
connection, since later requests do not parse as version 3.
"""

import asyncio
import ssl
import struct
from typing import Final, Protocol, cast

from google.protobuf.message import DecodeError

from counterpoise.bookkeeper.bookie_connection import BookieConnection
from counterpoise.bookkeeper.proto.start_tls_pb2 import (
    PacketHeader,
    StartTls,
    StartTlsRequest,
    StartTlsResponse,
)

_VERSION: Final = 3
_START_TLS: Final = 9
_OK: Final = 0
_LENGTH: Final = struct.Struct(">i")
_ANSWER_MAX: Final = 1024
"""The most bytes that a response may have; a bookie's has about 20."""


class BookieTls(Protocol):
    """The TLS settings of a client of bookies."""

    def context(self) -> ssl.SSLContext:
        """Make the TLS context of the next connection; raises `ConfigError` and `OSError`."""


class NoTls(OSError):
    """A bookie does not start TLS."""


class _StartTls(asyncio.Protocol):
    """Asks a bookie to start TLS, and waits for its answer."""

    def __init__(self) -> None:
        self.agreed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio when the bookie is connected: send the request."""
        header = PacketHeader(version=_VERSION, operation=_START_TLS, txnId=1)
        body = StartTlsRequest(header=header, startTLSRequest=StartTls()).SerializeToString()
        cast("asyncio.Transport", transport).write(_LENGTH.pack(len(body)) + body)

    def data_received(self, data: bytes) -> None:
        """Called by asyncio with received bytes: evaluate the response once it is complete."""
        self._held += data
        if len(self._held) < _LENGTH.size or self.agreed.done():
            return
        (size,) = _LENGTH.unpack_from(self._held)
        if not 0 < size <= _ANSWER_MAX:
            self.agreed.set_exception(NoTls("it answers START_TLS with something else"))
        elif len(self._held) >= _LENGTH.size + size:
            self._decide(self._held[_LENGTH.size :])

    def _decide(self, body: bytes) -> None:
        try:
            status = StartTlsResponse.FromString(body).status
        except DecodeError:
            self.agreed.set_exception(NoTls("it answers START_TLS with something else"))
            return
        if status == _OK:
            self.agreed.set_result(None)
        else:
            why = f"it refuses TLS ({status}): its tlsProviderFactoryClass may be unset"
            self.agreed.set_exception(NoTls(why))

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio when the bookie is disconnected."""
        if not self.agreed.done():
            self.agreed.set_exception(NoTls(f"it hung up on START_TLS: {exc or 'no reason given'}"))


async def connect_by_tls(
    host: str, port: int, connection: BookieConnection, tls: BookieTls
) -> None:
    """Connect to a bookie, start TLS, and give the connection its encrypted transport.

    Raises `OSError`, also for a certificate that is not trusted, and `ConfigError`.
    """
    loop, context = asyncio.get_running_loop(), tls.context()
    plain, starting = await loop.create_connection(_StartTls, host, port)
    try:
        await starting.agreed
        # The host's name is sent, and not checked, as Java's client does by default.
        secure = await loop.start_tls(plain, connection, context, server_hostname=host)
    except BaseException:
        plain.abort()
        raise
    if secure is None:
        raise NoTls("the connection was lost during the handshake")
    connection.connection_made(secure)
