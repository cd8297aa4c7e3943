"""A bookie in the test's own loop: serves entries, misbehaves on request, and takes no flag."""

from __future__ import annotations

import asyncio
import enum
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_LAST = -1
_OK, _NO_LEDGER, _NO_ENTRY = 0, 1, 2


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
        self.flags: set[int] = set()
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
            version, opcode, flags, ledger, entry = struct.unpack(">BBHqq", body)
            assert (version, opcode, size) == (2, 2, 20), "only plain reads"
            self.flags.add(flags)
            self.requests.append((ledger, entry))
            how = self.misbehaves.get((ledger, entry), self.always)
            if how is Misbehaviour.SILENCE:
                continue
            if how is Misbehaviour.HANGS_UP:
                return
            writer.write(self._answer(ledger, entry, how))
            await writer.drain()
            if how is Misbehaviour.HALF_A_FRAME:
                return

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
