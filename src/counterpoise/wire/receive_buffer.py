"""Bytes that wait for the rest of their frame."""

LENGTH_SIZE = 4
"""Bytes at the beginning of a frame that say how long it is."""


class ReceiveBuffer:
    """Completes the frame that a socket's read has cut; only that frame's bytes are copied.

    While it is incomplete, chunks are only collected: a five-megabyte message that arrives in a
    hundred pieces is joined once, not a hundred times.
    """

    __slots__ = ("_chunks", "_wanted", "held")

    def __init__(self) -> None:
        self._chunks: list[bytes | memoryview] = []
        #: How many bytes wait here.
        self.held = 0
        self._wanted = 0

    def take(self, data: bytes) -> tuple[bytes, int]:
        """Add ``data``: the frame that was begun, if this completes it, and where the next begins.

        Where not even the length was known, all of ``data`` is returned behind it.
        """
        if not self._chunks:
            return b"", 0
        missing, size = self._wanted - self.held, len(data)
        if missing > size:
            self._chunks.append(data)
            self.held += size
            return b"", size
        taken = missing if self._wanted > LENGTH_SIZE else size
        self._chunks.append(memoryview(data)[:taken])
        joined = b"".join(self._chunks)
        self._chunks.clear()
        self.held = self._wanted = 0
        return joined, taken

    def keep(self, rest: bytes, wanted: int) -> None:
        """Hold the beginning of a frame until ``wanted`` bytes of it are there."""
        self._chunks.append(rest)
        self.held = len(rest)
        self._wanted = wanted
