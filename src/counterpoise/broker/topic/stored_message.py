"""A stored entry as shown to a person: its metadata and payload."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from counterpoise.storage.grouplog import Log
from counterpoise.storage.log_parts import entry_at
from counterpoise.storage.port import NO_POSITION, Position
from counterpoise.wire.bit_words import words_of
from counterpoise.wire.entry import BadEntry, metadata_of, split
from counterpoise.wire.proto.metadata_pb2 import CompressionType, MessageMetadata

__all__ = ["MessageMetadata", "StoredMessage", "batch_from", "last_message_id", "stored_message"]

BATCH_MAX = 100_000
"""Larger batches are delivered whole after a reset: metadata may state any size."""


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One entry of a topic's log: a message, or a batch of several."""

    position: Position
    metadata: MessageMetadata
    payload: bytes
    """As it was published: compressed, if it was."""

    @property
    def compression(self) -> str:
        """The name of the payload's compression; ``NONE`` if it has none."""
        return CompressionType.Name(self.metadata.compression)


def last_message_id(log: Log[Any]) -> Position:
    """The position of a log's last entry; (-1, -1) if it is empty."""
    return log.position(log.end - 1) if log.begin < log.end else NO_POSITION


async def stored_message(log: Log[Any], index: int) -> StoredMessage | None:
    """The entry at an index; None if it is deleted, lost or no message."""
    if not log.begin <= index < log.end:
        return None
    entry = await entry_at(log, index)
    if not entry:
        return None
    try:
        return StoredMessage(log.position(index), metadata_of(entry), bytes(split(entry)[1]))
    except BadEntry:
        return None


async def batch_from(log: Log[Any], position: Position, first: int) -> Sequence[int]:
    """The messages of the batch at ``position`` from its ``first``-th on, as bits in 64-bit words.

    Empty if there are none, or the batch is larger than `BATCH_MAX`.
    """
    index = log.find(position)
    found = None if index is None else await stored_message(log, index)
    size = 0 if found is None else found.metadata.num_messages_in_batch
    return words_of((1 << size) - (1 << first)) if first < size <= BATCH_MAX else ()
