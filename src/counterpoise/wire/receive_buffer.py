"""Bytes that wait for the rest of their frame."""


class ReceiveBuffer:
    """Joins what a socket delivers into contiguous bytes, each byte copied at most once more.

    While a frame of known size is incomplete, chunks are only collected: a five-megabyte message
    that arrives in a hundred pieces is joined once, not a hundred times.
    """

    __slots__ = ("_chunks", "_held", "_wanted")

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._held = 0
        self._wanted = 0

    @property
    def held(self) -> int:
        """How many bytes wait here."""
        return self._held

    def take(self, data: bytes) -> bytes:
        """Add ``data``; return everything held, or nothing while a frame is known incomplete."""
        if not self._chunks:
            return data
        self._chunks.append(data)
        self._held += len(data)
        if self._held < self._wanted:
            return b""
        joined = b"".join(self._chunks)
        self._chunks.clear()
        self._held = self._wanted = 0
        return joined

    def keep(self, rest: bytes, wanted: int) -> None:
        """Hold the beginning of a frame until ``wanted`` bytes of it are there."""
        self._chunks.append(rest)
        self._held = len(rest)
        self._wanted = wanted
