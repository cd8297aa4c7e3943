"""A stored entry as shown to a person: its metadata and payload."""

from dataclasses import dataclass
from typing import Any

from counterpoise.storage.grouplog import Log
from counterpoise.storage.log_parts import entry_at
from counterpoise.storage.port import NO_POSITION, Position
from counterpoise.wire.entry import BadEntry, metadata_of, split
from counterpoise.wire.proto.metadata_pb2 import CompressionType, MessageMetadata

__all__ = ["MessageMetadata", "StoredMessage", "last_message_id", "stored_message"]


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
