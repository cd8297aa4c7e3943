"""Questions about stored entries that need a look at their metadata."""

from __future__ import annotations

from typing import Any

from counterpoise.storage.port import Log
from counterpoise.wire.entry import BadEntry, metadata_of
from counterpoise.wire.proto.metadata_pb2 import MessageMetadata


async def stored_metadata(log: Log[Any], index: int) -> MessageMetadata | None:
    """The metadata of the entry at ``index``; None when the entry is lost.

    What no client can read has none of its own: it counts as published at the beginning of time.
    """
    chunk = log.cached(index) or await log.read(index, 1)
    entry = chunk.entries[index - chunk.first]
    try:
        return metadata_of(entry) if entry else None
    except BadEntry:
        return MessageMetadata()


async def first_published_at(log: Log[Any], publish_time_ms: int) -> int:
    """Index of the first entry published at or after this time, by binary search.

    As Pulsar's ``PersistentMessageFinder`` it relies on publish times that do not fall.
    """
    low, high = log.begin, log.end
    while low < high:
        middle = found = (low + high) // 2
        metadata = await stored_metadata(log, found)
        while metadata is None and found + 1 < high:
            found += 1
            metadata = await stored_metadata(log, found)
        if metadata is not None and metadata.publish_time < publish_time_ms:
            low = found + 1
        else:
            # What is lost between the middle and the entry found lies before it, or is the end.
            high = middle
    return low


async def last_batch_index(log: Log[Any]) -> int:
    """Index of the last message inside the last entry; -1 if that is no batch, or there is none."""
    if log.end == log.begin:
        return -1
    metadata = await stored_metadata(log, log.end - 1)
    if metadata is None:
        return -1
    return metadata.num_messages_in_batch - 1 if metadata.HasField("num_messages_in_batch") else -1
