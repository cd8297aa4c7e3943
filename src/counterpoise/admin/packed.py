"""Compressed text in memory, for answers of many megabytes.

The metrics of 15,000 subscriptions are 90 MB of repetitive text, which compress to a few.
"""

import zlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from aiohttp import web
from aiohttp.hdrs import CONTENT_TYPE

if TYPE_CHECKING:
    from zlib import _Compress

PIECE: Final = 64 * 1024
"""How many characters are compressed at a time, or bytes unpacked: half a millisecond of work,
after which other tasks run."""
_WINDOW: Final = -14
_MEMORY: Final = 6
"""zlib's ``memLevel``: a compressor then takes some 50 kB, and each series with much text has
one."""


class Packed:
    """A compressed text that grows by `write` and can be read in pieces at any time."""

    __slots__ = ("_pack", "_packed", "_parts", "_recent", "_recent_size", "size")

    def __init__(self) -> None:
        self._recent: list[str] = []
        self._recent_size = 0
        self._pack: _Compress | None = None
        self._packed: list[bytes] = []
        self._parts: list[Packed] = []
        self.size = 0
        """Bytes of the text, of which the end is counted by `joined` only."""

    @staticmethod
    def joined(parts: "Iterable[Packed]") -> "Packed":
        """A text that consists of these texts; afterwards nothing may be written to them."""
        whole = Packed()
        whole._parts = list(parts)
        for each in whole._parts:
            each._end()
        whole.size = sum(each.size for each in whole._parts)
        return whole

    def write(self, text: str) -> None:
        """Append text."""
        self._recent.append(text)
        self._recent_size += len(text)
        if self._recent_size >= PIECE:
            if self._pack is None:
                self._pack = zlib.compressobj(1, zlib.DEFLATED, _WINDOW, _MEMORY)
            self._packed.append(self._pack.compress(self._taken()))

    def _taken(self) -> bytes:
        text = "".join(self._recent).encode()
        self._recent, self._recent_size = [], 0
        self.size += len(text)
        return text

    def _end(self) -> None:
        if self._pack is None:
            self._packed.append(self._taken())
        else:
            self._packed.append(self._pack.compress(self._taken()) + self._pack.flush())

    @property
    def held(self) -> int:
        """Bytes of memory that the compressed text takes."""
        return sum(map(len, self._packed)) + sum(each.held for each in self._parts)

    def pieces(self) -> Iterator[bytes]:
        """The text from its beginning, in pieces; can be read several times."""
        for each in self._parts:
            yield from each.pieces()
        if self._pack is None:
            yield from self._packed
            return
        unpack = zlib.decompressobj(_WINDOW)
        for packed in self._packed:
            rest = packed
            while rest:
                yield unpack.decompress(rest, PIECE)
                rest = unpack.unconsumed_tail
        yield unpack.flush()


class PackedAnswer(web.StreamResponse):
    """An HTTP answer with compressed text, which `HttpClientLimits` unpacks as the client reads."""

    def __init__(self, text: Packed, content_type: str) -> None:
        super().__init__(headers={CONTENT_TYPE: content_type})
        self.text = text


def answer_with(
    text: Packed, content_type: str = "application/json; charset=utf-8"
) -> web.StreamResponse:
    """An HTTP answer with this text, of whatever size."""
    if text.size > PIECE:
        return PackedAnswer(text, content_type)
    return web.Response(body=b"".join(text.pieces()), headers={CONTENT_TYPE: content_type})
