"""Message deduplication: what a producer sends again is stored once (``MessageDeduplication``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from itertools import islice
from typing import Any, Final

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.producer import Producer
from counterpoise.storage.port import CursorState, Log
from counterpoise.wire.entry import BadEntry, metadata_of
from counterpoise.wire.errors import ServerError
from counterpoise.wire.events import Send

CURSOR: Final = "pulsar.dedup"
"""The cursor that keeps the sequence ids, as in Pulsar; no subscription may have its name."""
SAVED_EVERY: Final = 1000
"""Entries between two saves (``brokerDeduplicationEntriesInterval``): what a recovery reads."""
PRODUCERS_MAX: Final = 10_000
"""Producers that are remembered (``brokerDeduplicationMaxNumberOfProducers``)."""
_READ_BYTES: Final = 1 << 20


class Sent(Enum):
    """What an entry is, by its sequence id."""

    NEW = auto()
    STORED = auto()
    UNDER_WAY = auto()
    """It was sent before, and whether it will be stored is not known yet."""


class Deduplication:
    """The highest sequence ids of a topic's producers: those given to the log, and those stored."""

    def __init__(self, stored: Mapping[str, int]) -> None:
        self.stored = dict(stored)
        self._given = dict(stored)
        self._unsaved = 0

    @classmethod
    async def recover(cls, log: Log[Any]) -> Deduplication:
        """What the log's cursor remembers, and what was stored after it was saved."""
        saved = log.cursors.get(CURSOR)
        ids = {} if saved is None else saved.properties.items()
        found = cls({name: int(number) for name, number in dict(ids).items()})
        index = log.begin if saved is None else log.index(saved.mark_delete) + 1
        while index < log.end:
            chunk = log.cached(index) or await log.read(index, _READ_BYTES)
            for entry in chunk.entries[index - chunk.first :]:
                index += 1
                try:
                    metadata = metadata_of(entry)
                except BadEntry:
                    continue
                highest = max(metadata.sequence_id, metadata.highest_sequence_id)
                found.commit(metadata.producer_name, highest)
        found._given.update(found.stored)
        return found

    def admit(self, producer: Producer, sends: Sequence[Send]) -> Sequence[Send]:
        """The entries that are new; the others have their answers when this returns."""
        new: list[Send] = []
        for send in sends:
            found = self._take(producer.name, send)
            if found is Sent.NEW:
                new.append(send)
            elif found is Sent.STORED:
                ids = send.sequence_id, send.highest_sequence_id
                producer.sink.receipt(producer.producer_id, *ids, -1, -1)
            else:
                why = "Cannot determine whether the message is a duplicate at this time"
                refusal = BrokerError(ServerError.PersistenceError, why)
                producer.sink.send_error(producer.producer_id, send.sequence_id, refusal)
        return new

    def _take(self, producer: str, send: Send) -> Sent:
        last = self._given.get(producer, -1)
        if send.sequence_id > last or (send.is_chunk and send.sequence_id == last):
            self._given[producer] = max(send.sequence_id, send.highest_sequence_id)
            return Sent.NEW
        return Sent.STORED if send.sequence_id <= self.stored.get(producer, -1) else Sent.UNDER_WAY

    def commit(self, producer: str, highest: int) -> None:
        """An entry is stored; its producer is the last to be forgotten."""
        self.stored[producer] = max(self.stored.pop(producer, -1), highest)

    def refuse(self, producer: str) -> None:
        """Entries were given to the log and are not stored: they may come again."""
        self._given[producer] = self.stored.get(producer, -1)

    def is_due(self, entries: int) -> bool:
        """Count entries that are stored; whether it is time to save."""
        self._unsaved += entries
        return self._unsaved >= SAVED_EVERY

    def save(self, log: Log[Any]) -> None:
        """Save each producer's highest sequence id.

        Beyond the limit the producers are forgotten that have stored nothing for the longest time.
        """
        self._unsaved = 0
        excess = max(len(self.stored) - PRODUCERS_MAX, 0)
        for name in [*islice(self.stored, excess)]:
            if self._given.get(name) == self.stored.pop(name):
                del self._given[name]
        properties = {name: str(number) for name, number in self.stored.items()}
        log.save_cursor(CursorState(CURSOR, log.position(log.end - 1), (), properties))
