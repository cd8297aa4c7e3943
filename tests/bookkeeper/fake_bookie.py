"""A bookie in the test's own loop: serves and takes entries, and misbehaves on request."""

import asyncio
import enum
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

LAST = -1
OK, NO_LEDGER, NO_ENTRY, UNAUTHORISED, FENCED = 0, 1, 2, 102, 104
ADD, READ = 1, 2
FENCES, RECOVERS = 1, 2
START_TLS = bytes.fromhex("0a06 0803 1009 1801 d206 00")
"""Version 3, operation 9, number 1; an empty member 106."""
TLS_STARTS, TLS_REFUSED = bytes.fromhex("1000 d206 00"), bytes.fromhex("109403")
"""What follows in the answer: its status, 0 or 404."""


class Misbehaviour(enum.Enum):
    WRONG_DIGEST = enum.auto()
    WRONG_ID = enum.auto()
    SILENCE = enum.auto()
    HALF_A_FRAME = enum.auto()
    HUGE_LENGTH = enum.auto()
    NEGATIVE_LENGTH = enum.auto()
    UNASKED = enum.auto()
    OTHER_VERSION = enum.auto()
    IO_ERROR = enum.auto()
    HANGS_UP = enum.auto()


class TlsHang(enum.Enum):
    """Where a bookie stops answering on the way to TLS."""

    BEFORE_ITS_ANSWER = enum.auto()
    IN_THE_HANDSHAKE = enum.auto()


class BookieDisk:
    """What a bookie keeps: stored entries by ledger and entry, and which ledgers are fenced."""

    def __init__(self) -> None:
        self.stored: dict[tuple[int, int], bytes] = {}
        self.fenced: set[int] = set()
        self.keys: dict[int, bytes] = {}

    def apply(self, request: "ParsedRequest") -> int:
        """Add, or fence; gives the code of the answer, which for a read is not the last word."""
        ledger = request.ledger
        if request.key and self.keys.setdefault(ledger, request.key) != request.key:
            return UNAUTHORISED
        if request.opcode == ADD:
            if ledger in self.fenced and not request.flags & RECOVERS:
                return FENCED
            self.stored[ledger, request.entry] = request.stored
        elif request.flags & FENCES:
            self.fenced.add(ledger)
        return OK

    def read(self, ledger: int, entry: int) -> tuple[int, bytes]:
        """Code and stored entry of the answer to a read."""
        known = [each for each in self.stored if each[0] == ledger]
        at = max(known, default=None) if entry == LAST else (ledger, entry)
        stored = self.stored.get(at, b"") if at is not None else b""
        return OK if stored else NO_ENTRY if known else NO_LEDGER, stored

    def answer(self, body: bytes) -> bytes:
        """The frame of a bookie that behaves."""
        request = parsed(body)
        code, stored = self.apply(request), b""
        if request.opcode == READ and code == OK:
            code, stored = self.read(request.ledger, request.entry)
        head = (2, request.opcode, 0, code, request.ledger, request.entry)
        return struct.pack(">iBBHiqq", 24 + len(stored), *head) + stored


class FakeBookie(BookieDisk):
    """A bookie that listens. Every read that came is in `requests`, every add in `adds`."""

    def __init__(self) -> None:
        super().__init__()
        self.misbehaves: dict[tuple[int, int], Misbehaviour] = {}
        self.always: Misbehaviour | None = None
        self.requests: list[tuple[int, int]] = []
        self.adds: list[tuple[int, int]] = []
        self.flags: set[int] = set()
        self.port = 0
        self.tls: ssl.SSLContext | None = None
        """Of connections that ask for it; None: START_TLS is refused."""
        self.encrypted = 0
        self.handshakes = 0
        """Connections on which TLS was to start."""
        self.hangs: TlsHang | None = None
        self.left_hanging = asyncio.Event()
        """Set when a client hangs up on a bookie that hangs."""

    @asynccontextmanager
    async def serve(self) -> "AsyncIterator[FakeBookie]":
        open_streams: set[asyncio.StreamWriter] = set()
        conversations: set[asyncio.Task[None] | None] = set()

        async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            open_streams.add(writer)
            conversations.add(asyncio.current_task())
            try:
                await self._converse(reader, writer)
            except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
                pass
            finally:
                open_streams.discard(writer)
                writer.close()

        server = await asyncio.start_server(one, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for each in list(open_streams):
                each.transport.abort()
            await asyncio.gather(*(each for each in conversations if each is not None))
            await server.wait_closed()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            body = await reader.readexactly(size)
            if body == START_TLS and self.hangs:
                if self.hangs is TlsHang.IN_THE_HANDSHAKE:
                    writer.write(_tls_answer(TLS_STARTS))
                await reader.read()
                self.left_hanging.set()
                return
            if body == START_TLS:
                await self._converse_by_tls(writer)
                return
            request = parsed(body)
            opcode, ledger, entry = request.opcode, request.ledger, request.entry
            self.flags.add(request.flags)
            (self.requests if opcode == READ else self.adds).append((ledger, entry))
            how = self.misbehaves.get((ledger, entry), self.always)
            if how is Misbehaviour.SILENCE:
                continue
            if how is Misbehaviour.HANGS_UP:
                return
            code = self.apply(request)
            if opcode == READ and code == OK:
                writer.write(self._answer(ledger, entry, how))
            else:
                code = 101 if how is Misbehaviour.IO_ERROR else code
                writer.write(_frame(opcode, code, ledger, entry))
            await writer.drain()
            if how is Misbehaviour.HALF_A_FRAME:
                return

    async def _converse_by_tls(self, writer: asyncio.StreamWriter) -> None:
        self.handshakes += 1
        writer.write(_tls_answer(TLS_STARTS if self.tls else TLS_REFUSED))
        if self.tls is None:
            raise ConnectionResetError
        loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        secure = await loop.start_tls(writer.transport, protocol, self.tls, server_side=True)
        if secure is None:
            raise ConnectionResetError
        protocol.connection_made(secure)
        self.encrypted += 1
        encrypted = asyncio.StreamWriter(secure, protocol, reader, loop)
        try:
            await self._converse(reader, encrypted)
        finally:
            encrypted.close()

    def _answer(self, ledger: int, entry: int, how: Misbehaviour | None) -> bytes:
        code, stored = self.read(ledger, entry)
        if how is Misbehaviour.WRONG_DIGEST:
            stored = stored[:-1] + bytes([stored[-1] ^ 1])
        elif how is Misbehaviour.WRONG_ID:
            stored = self.stored[ledger, entry + 1]
        elif how is Misbehaviour.IO_ERROR:
            code, stored = 101, b""
        elif how is Misbehaviour.HUGE_LENGTH:
            return struct.pack(">i", 2**31 - 1) + b"x" * 64
        elif how is Misbehaviour.NEGATIVE_LENGTH:
            return struct.pack(">i", -5) + b"x" * 64
        version = 3 if how is Misbehaviour.OTHER_VERSION else 2
        if how is Misbehaviour.UNASKED:
            ledger += 1
        body = struct.pack(">BBHiqq", version, 2, 0, code, ledger, entry) + stored
        frame = struct.pack(">i", len(body)) + body
        return frame[: len(frame) // 2] if how is Misbehaviour.HALF_A_FRAME else frame


class ParsedRequest(NamedTuple):
    opcode: int
    flags: int
    ledger: int
    entry: int
    key: bytes
    stored: bytes


def parsed(body: bytes) -> ParsedRequest:
    """A request behind its length."""
    version, opcode, flags = struct.unpack_from(">BBH", body)
    assert version == 2
    if opcode == ADD:
        ledger, entry = struct.unpack_from(">qq", body, 24)
        return ParsedRequest(opcode, flags, ledger, entry, body[4:24], body[24:])
    assert opcode == READ
    key = body[20:]
    assert len(key) == (20 if flags & FENCES else 0)
    ledger, entry = struct.unpack_from(">qq", body, 4)
    return ParsedRequest(opcode, flags, ledger, entry, key, b"")


def _tls_answer(status: bytes) -> bytes:
    body = START_TLS[:8] + status
    return struct.pack(">i", len(body)) + body


def _frame(opcode: int, code: int, ledger: int, entry: int) -> bytes:
    return struct.pack(">iBBHiqq", 24, 2, opcode, 0, code, ledger, entry)
