"""The entries of a Shared subscription whose delivery is delayed (PIP-26)."""

from heapq import heapify, heappop, heappush


class DelayedEntries:
    """Entries that were read but are delivered only when they are due, by log index."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []
        """When each is due (milliseconds since 1970), and its index."""
        self._indexes: set[int] = set()

    def __len__(self) -> int:
        return len(self._heap)

    def __contains__(self, index: int) -> bool:
        return index in self._indexes

    @property
    def due_ms(self) -> int | None:
        """When the first entry is due, in milliseconds since 1970; None if there is none."""
        return self._heap[0][0] if self._heap else None

    def add(self, due_ms: int, index: int) -> bool:
        """Add an entry; returns whether it is the first one that is due."""
        heappush(self._heap, (due_ms, index))
        self._indexes.add(index)
        return self._heap[0] == (due_ms, index)

    def pop(self) -> int:
        """Remove the entry that is due first; returns its index."""
        _, index = heappop(self._heap)
        self._indexes.discard(index)
        return index

    def forget_through(self, index: int) -> None:
        """Remove all entries up to ``index``, since they are acknowledged."""
        if gone := {each for each in self._indexes if each <= index}:
            self._indexes -= gone
            self._heap = [each for each in self._heap if each[1] > index]
            heapify(self._heap)
