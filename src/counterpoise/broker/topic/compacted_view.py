"""A compacted topic: the last value of each key, at its own position.

Pulsar writes it to a ledger of its own. Here it is a view of the topic's own ledgers, which are
kept from the oldest current value on; the entries between are skipped (docs/DIFFERENCES.md).
"""

from bisect import bisect_left
from collections.abc import Mapping
from typing import Final

from counterpoise.wire.batch import batched_messages, compacted_batch, is_batch
from counterpoise.wire.entry import BadEntry, metadata_of, split
from counterpoise.wire.proto.metadata_pb2 import MessageMetadata

Survivors = Mapping[int, frozenset[int] | None]
"""By index, the entries that are kept, each with the positions of the messages that are kept of its
batch; None: the whole entry."""


class CompactedView:
    """The entries that compaction keeps for ``readCompacted`` consumers.

    It covers the log up to index ``horizon``; entries after it are not compacted yet.
    """

    __slots__ = ("_indexes", "_survivors", "horizon")

    def __init__(self) -> None:
        self.horizon = -1
        """Index of the last entry that was compacted; -1 before the first compaction."""
        self._survivors: Survivors = {}
        self._indexes: list[int] = []

    def replace(self, horizon: int, survivors: Survivors) -> None:
        """Store the result of a compaction of all entries up to ``horizon``."""
        self.horizon = horizon
        self._survivors = survivors
        self._indexes = sorted(survivors)

    @property
    def entries(self) -> int:
        """The number of entries in the view."""
        return len(self._indexes)

    @property
    def first(self) -> int:
        """Index of the view's oldest entry; if it is empty, of the entry after the horizon."""
        return self._indexes[0] if self._indexes else self.horizon + 1

    @property
    def last(self) -> int | None:
        """Index of the view's newest entry; None if it is empty."""
        return self._indexes[-1] if self._indexes else None

    def following(self, index: int) -> int:
        """Index of the view's first entry at or after ``index``; without one, ``horizon`` + 1."""
        at = bisect_left(self._indexes, index)
        return self._indexes[at] if at < len(self._indexes) else self.horizon + 1

    def places(self, index: int) -> frozenset[int] | None:
        """Which messages of the batch at ``index`` are in the view, by position in the batch.

        None if the whole entry is in it, or nothing of it.
        """
        return self._survivors.get(index)

    def shown(self, index: int, entry: bytes) -> bytes:
        """``entry``, which is at ``index``, without the messages that compaction removed."""
        places = self._survivors.get(index)
        return entry if places is None else compacted_batch(entry, places)


NOT_COMPACTED: Final = CompactedView()
"""What a topic without a compaction has instead of a view: every entry is delivered."""


class LatestValues:
    """Computes a compaction: the last value of each key among the entries added, oldest first.

    A message without a payload removes its key. One without a key is dropped, unless
    ``keeps_keyless`` (``topicCompactionRetainNullKey``). An entry that no client could read is
    dropped as well; a batch in a compression that brokers do not know is kept unchanged.
    """

    def __init__(self, *, keeps_keyless: bool) -> None:
        self._keeps_keyless = keeps_keyless
        self._of_key: dict[str, tuple[int, int]] = {}
        self._kept: list[tuple[int, int]] = []
        self.messages = 0
        """How many messages the added entries had."""

    def add(self, index: int, entry: bytes) -> None:
        """Add the next entry; b"" if it is lost."""
        try:
            metadata = metadata_of(entry) if entry else None
        except BadEntry:
            return
        if metadata is None or metadata.HasField("marker_type"):
            return
        payload = split(entry)[1]
        if is_batch(metadata) and not metadata.encryption_keys:
            self._add_batch(index, metadata, payload)
            return
        self.messages += 1
        size = metadata.uncompressed_size if metadata.compression else len(payload)
        key = metadata.partition_key if metadata.HasField("partition_key") else None
        self._note((index, -1), key, has_value=bool(size) and not metadata.null_value)

    def _add_batch(self, index: int, metadata: MessageMetadata, payload: memoryview) -> None:
        self.messages += metadata.num_messages_in_batch
        try:
            messages = batched_messages(metadata, payload)
        except BadEntry:
            self._kept.append((index, -1))
            return
        for place, (single, value) in enumerate(messages):
            if not single.compacted_out:
                key = single.partition_key if single.HasField("partition_key") else None
                has_value = bool(value) and not single.null_value
                self._note((index, place), key, has_value=has_value)

    def _note(self, at: tuple[int, int], key: str | None, *, has_value: bool) -> None:
        if key is None:
            if self._keeps_keyless:
                self._kept.append(at)
        elif has_value:
            self._of_key[key] = at
        else:
            self._of_key.pop(key, None)

    @property
    def survivors(self) -> Survivors:
        """The entries to keep, and which messages of batches."""
        whole: dict[int, frozenset[int] | None] = {}
        places: dict[int, set[int]] = {}
        for index, place in (*self._kept, *self._of_key.values()):
            if place < 0:
                whole[index] = None
            else:
                places.setdefault(index, set()).add(place)
        return whole | {index: frozenset(found) for index, found in places.items()}

    @property
    def left(self) -> int:
        """The number of messages to keep."""
        return len(self._kept) + len(self._of_key)
