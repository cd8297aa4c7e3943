"""Queries that read stored entries: publish times, backlogs, batches."""

import time
from typing import Any, Final, NamedTuple

from counterpoise.broker.topic.acks import AckState
from counterpoise.broker.topic.ports import SubscribeRequest
from counterpoise.storage.grouplog import Log
from counterpoise.storage.log_parts import entry_at
from counterpoise.storage.port import Position
from counterpoise.wire.entry import BadEntry, metadata_of
from counterpoise.wire.proto.metadata_pb2 import MessageMetadata
from counterpoise.wire.values import InitialPosition

SURVEYED_MAX: Final = 10_000
"""The most entries that one count of a backlog reads (``subscriptionBacklogScanMaxEntries``)."""
_SURVEYED_BYTES: Final = 1024 * 1024


class BacklogSurvey(NamedTuple):
    """The size of a subscription's backlog, as far as it was read."""

    entries: int
    messages: int
    first: int
    last: int
    """Indexes of its first and its last entry; below the log's begin if the backlog is empty."""
    complete: bool
    """Whether the whole backlog was read; False if it is longer than `SURVEYED_MAX`."""


async def survey(log: Log[Any], acks: AckState, most: int = SURVEYED_MAX) -> BacklogSurvey:
    """Count a subscription's unacknowledged entries, ``most`` at the most, and their messages."""
    entries = messages = 0
    first = last = log.begin - 1
    index = max(acks.mark + 1, log.begin)
    while index < log.end and entries < most:
        index = max(index, log.begin)
        chunk = log.cached(index) or await log.read(index, _SURVEYED_BYTES)
        for held in chunk.messages[index - chunk.first :]:
            if not acks.is_acked(index):
                if entries == most:
                    return BacklogSurvey(entries, messages, first, last, complete=False)
                first, last = index if not entries else first, index
                entries += 1
                messages += held
            index += 1
    return BacklogSurvey(entries, messages, first, last, complete=index >= log.end)


async def earliest_in_backlog(log: Log[Any], acks: AckState) -> int | None:
    """The publish time of a backlog's oldest entry in milliseconds; None if it is empty."""
    index = acks.unacked(1)
    if not log.begin <= index < log.end:
        return None
    found = await stored_metadata(log, index)
    return None if found is None else int(found.publish_time)


async def stored_metadata(log: Log[Any], index: int) -> MessageMetadata | None:
    """The metadata of the entry at ``index``; None if the entry is lost or deleted.

    An entry that no client can read has no metadata and counts as published at time 0.
    """
    entry = await entry_at(log, index)
    try:
        return metadata_of(entry) if entry else None
    except BadEntry:
        return MessageMetadata()


async def first_published_at(log: Log[Any], publish_time_ms: int) -> int:
    """Index of the first entry published at or after this time, by binary search.

    Relies on publish times that never decrease, as Pulsar's ``PersistentMessageFinder`` does.
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
            # Entries from the middle to the one found are lost: the middle may be the result.
            high = middle
    # Entries may have been deleted while others were read: a cursor before the log's begin hangs.
    return max(low, log.begin)


async def last_batch_index(log: Log[Any], index: int) -> int:
    """The index of the last message in an entry's batch; -1 if it is no batch or does not exist."""
    if index < log.begin:
        return -1
    metadata = await stored_metadata(log, index)
    if metadata is None:
        return -1
    return metadata.num_messages_in_batch - 1 if metadata.HasField("num_messages_in_batch") else -1


async def start_index(log: Log[Any], request: SubscribeRequest) -> int:
    """The log index at which a new subscription starts, by the client's request."""
    if request.rollback_seconds > 0:
        since = int((time.time() - request.rollback_seconds) * 1000)
        return await first_published_at(log, since)
    if request.start_message_id is not None and not request.durable:
        # At the message itself, not after it: the client drops what it has seen, which may be
        # a part of a batch only.
        return index_of(log, request.start_message_id)
    if request.initial_position is InitialPosition.Earliest:
        return log.begin
    if request.durable and log.cursors_lost:
        # The subscription's cursor may be among the lost ones: deliver messages again rather than
        # never.
        return log.begin
    return log.end


def index_of(log: Log[Any], position: Position) -> int:
    """The index of a position in the log; the log's begin or end if it is outside."""
    return log.begin if position.ledger_id < 0 else min(log.index(position), log.end)
