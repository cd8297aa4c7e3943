"""Buffers bytes until their frame is complete."""

LENGTH_SIZE = 4
"""Bytes at the beginning of a frame that say how long it is."""


class ReceiveBuffer:
    """Collects the bytes of a frame that arrives in several reads of a socket.

    The pieces are joined once, when the frame is complete: not a hundred times for a five-megabyte
    message that arrives in a hundred pieces.
    """

    __slots__ = ("_chunks", "_wanted", "buffered")

    def __init__(self) -> None:
        self._chunks: list[bytes | memoryview] = []
        self.buffered = 0
        """How many bytes of an incomplete frame are stored here."""
        self._wanted = 0

    def take(self, data: bytes) -> tuple[bytes, int]:
        """Add ``data``; return the frame if it is complete now, and the offset in ``data`` at which
        the next begins.

        If not even the frame's length was known, all of ``data`` is returned with it.
        """
        if not self._chunks:
            return b"", 0
        missing, size = self._wanted - self.buffered, len(data)
        if missing > size:
            self._chunks.append(data)
            self.buffered += size
            return b"", size
        taken = missing if self._wanted > LENGTH_SIZE else size
        self._chunks.append(memoryview(data)[:taken])
        joined = b"".join(self._chunks)
        self._chunks.clear()
        self.buffered = self._wanted = 0
        return joined, taken

    def keep(self, rest: bytes, needed: int) -> None:
        """Store the beginning of a frame that needs ``needed`` bytes in all."""
        self._chunks.append(rest)
        self.buffered = len(rest)
        self._wanted = needed
