"""A bookie in the test's own loop: serves and takes entries, and misbehaves on request."""

from __future__ import annotations

import asyncio
import enum
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_LAST = -1
_OK, _NO_LEDGER, _NO_ENTRY, _UNAUTHORISED, _FENCED = 0, 1, 2, 102, 104
_ADD, _READ = 1, 2
_FENCES, _RECOVERS = 1, 2


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


class FakeBookie:
    """Stored entries by ledger and entry. Every request that came is in `requests`."""

    def __init__(self) -> None:
        self.stored: dict[tuple[int, int], bytes] = {}
        self.misbehaves: dict[tuple[int, int], Misbehaviour] = {}
        self.always: Misbehaviour | None = None
        self.requests: list[tuple[int, int]] = []
        self.adds: list[tuple[int, int]] = []
        self.flags: set[int] = set()
        self.fenced: set[int] = set()
        self.keys: dict[int, bytes] = {}
        self.port = 0

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[FakeBookie]:
        open_streams: set[asyncio.StreamWriter] = set()
        conversations: set[asyncio.Task[None] | None] = set()

        async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            open_streams.add(writer)
            conversations.add(asyncio.current_task())
            try:
                await self._converse(reader, writer)
            except (asyncio.IncompleteReadError, ConnectionError):
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
            opcode, flags, ledger, entry, key, stored = _parsed(body)
            self.flags.add(flags)
            (self.requests if opcode == _READ else self.adds).append((ledger, entry))
            how = self.misbehaves.get((ledger, entry), self.always)
            if how is Misbehaviour.SILENCE:
                continue
            if how is Misbehaviour.HANGS_UP:
                return
            code = self._apply(flags, ledger, key, stored)
            if opcode == _READ and code == _OK:
                writer.write(self._answer(ledger, entry, how))
            else:
                code = 101 if how is Misbehaviour.IO_ERROR else code
                writer.write(_frame(opcode, code, ledger, entry))
            await writer.drain()
            if how is Misbehaviour.HALF_A_FRAME:
                return

    def _apply(self, flags: int, ledger: int, key: bytes, stored: bytes) -> int:
        if key and self.keys.setdefault(ledger, key) != key:
            return _UNAUTHORISED
        if stored:
            if ledger in self.fenced and not flags & _RECOVERS:
                return _FENCED
            self.stored[ledger, struct.unpack_from(">q", stored, 8)[0]] = stored
        elif flags & _FENCES:
            self.fenced.add(ledger)
        return _OK

    def _answer(self, ledger: int, entry: int, how: Misbehaviour | None) -> bytes:
        known = [each for each in self.stored if each[0] == ledger]
        at = max(known, default=None) if entry == _LAST else (ledger, entry)
        stored = self.stored.get(at, b"") if at is not None else b""
        code = _OK if stored else _NO_ENTRY if known else _NO_LEDGER
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


def _parsed(body: bytes) -> tuple[int, int, int, int, bytes, bytes]:
    """Opcode, flags, ledger, entry, master key and stored entry of a request."""
    version, opcode, flags = struct.unpack_from(">BBH", body)
    assert version == 2
    if opcode == _ADD:
        key, stored = body[4:24], body[24:]
        return opcode, flags, *struct.unpack_from(">qq", stored), key, stored
    assert opcode == _READ
    key = body[20:]
    assert len(key) == (20 if flags & _FENCES else 0)
    return opcode, flags, *struct.unpack_from(">qq", body, 4), key, b""


def _frame(opcode: int, code: int, ledger: int, entry: int) -> bytes:
    return struct.pack(">iBBHiqq", 24, 2, opcode, 0, code, ledger, entry)
