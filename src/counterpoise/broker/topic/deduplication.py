"""Message deduplication: a message that is sent again is stored once (``MessageDeduplication``)."""

from collections.abc import Container, Mapping, Sequence
from enum import Enum, auto
from itertools import islice
from typing import Any, Final

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.options import TopicOptions
from counterpoise.broker.topic.producer import Producer
from counterpoise.storage.grouplog import Log
from counterpoise.storage.log_parts import parts_from
from counterpoise.storage.port import CursorState
from counterpoise.wire.entry import BadEntry, chunk_of, metadata_of
from counterpoise.wire.errors import ServerError
from counterpoise.wire.events import Send

CURSOR: Final = "pulsar.dedup"
"""The cursor that keeps the sequence ids, as in Pulsar; no subscription may have its name."""

_DEFAULTS: Final = TopicOptions()


class Sent(Enum):
    """Whether a producer's entry is new or was sent before, by its sequence id."""

    NEW = auto()
    STORED = auto()
    UNDER_WAY = auto()
    """It was sent before, and is neither stored nor refused yet."""


class Deduplication:
    """Detects entries that producers send again, by the sequence ids of entries sent and stored."""

    def __init__(self, stored: Mapping[str, int], options: TopicOptions = _DEFAULTS) -> None:
        self.stored = dict(stored)
        self._options = options
        self._left: dict[str, float] = {}
        """Since when each detached producer is known to be detached, by name."""
        self._saved_s = 0.0
        self._given = dict(stored)
        """The highest sequence id that each producer has submitted, stored or not."""
        self._unsaved = 0

    @classmethod
    async def recover(cls, log: Log[Any], options: TopicOptions = _DEFAULTS) -> "Deduplication":
        """Restore the state from the log's cursor and the entries stored since it was saved."""
        saved = log.cursors.get(CURSOR)
        ids = {} if saved is None else saved.properties.items()
        found = cls({name: int(number) for name, number in dict(ids).items()}, options)
        begin = log.begin if saved is None else log.index_after(saved.mark_delete)
        async for _, entries in parts_from(log, begin):
            for entry in entries:
                try:
                    metadata = metadata_of(entry)
                except BadEntry:
                    continue
                if _is_followed(entry):
                    continue
                highest = max(metadata.sequence_id, metadata.highest_sequence_id)
                found.commit(metadata.producer_name, highest)
        return found

    def admit(self, producer: Producer, sends: Sequence[Send]) -> Sequence[Send]:
        """The entries that are new; the producer gets a response for each of the others."""
        new: list[Send] = []
        for send in sends:
            found = self._take(producer.name, send)
            if found is Sent.NEW:
                new.append(send)
            elif found is Sent.STORED:
                ids = producer, send.sequence_id, send.highest_sequence_id
                producer.sink.receipts(producer.producer_id, -1, -1, (ids,))
            else:
                why = "Cannot determine whether the message is a duplicate at this time"
                refusal = BrokerError(ServerError.PersistenceError, why)
                producer.sink.send_error(producer.producer_id, send.sequence_id, refusal)
        return new

    def _take(self, producer: str, send: Send) -> Sent:
        if send.is_chunk and _is_followed(send.entry):
            return Sent.NEW
        if send.sequence_id > self._given.get(producer, -1):
            self._given[producer] = max(send.sequence_id, send.highest_sequence_id)
            return Sent.NEW
        return Sent.STORED if send.sequence_id <= self.stored.get(producer, -1) else Sent.UNDER_WAY

    def commit_run(
        self, producer: str, ids: Sequence[tuple[Any, int, int]], entries: Sequence[bytes]
    ) -> None:
        """Record that entries of a producer are stored, in the order of their sequence ids."""
        for (_, *last), entry in zip(reversed(ids), reversed(entries), strict=True):
            if not _is_followed(entry):
                self.commit(producer, max(last))
                return

    def commit(self, producer: str, highest: int) -> None:
        """Record that a producer's entry with this highest sequence id is stored."""
        self.stored[producer] = max(self.stored.pop(producer, -1), highest)
        # It may have been on its way when the ids were read.
        self._given[producer] = max(self._given.get(producer, -1), highest)

    def refuse(self, producer: str) -> None:
        """Forget the entries of a producer that were not stored: sent again, they are new."""
        self._given[producer] = self.stored.get(producer, -1)

    def is_due(self, entries: int) -> bool:
        """Count stored entries; returns whether it is time to save the sequence ids (`save`)."""
        self._unsaved += entries
        return self._unsaved >= self._options.dedup_entries

    def save_when_old(self, log: Log[Any], now_s: float, every_s: int) -> None:
        """Save the state if unsaved changes are older than ``every_s`` seconds (0: never)."""
        if self._unsaved and every_s and now_s - self._saved_s >= every_s:
            self._saved_s = now_s
            self.save(log)

    def forget_inactive(self, log: Log[Any], attached: Container[str], now_s: float) -> None:
        """Forget producers that have been detached for longer than the configured time."""
        most_s = self._options.dedup_inactive_minutes * 60
        seen = {name: self._left.get(name, now_s) for name in self.stored if name not in attached}
        gone = [name for name, since_s in seen.items() if now_s - since_s > most_s]
        for name in gone:
            self._forget(name)
            del seen[name]
        self._left = seen
        if gone:
            self.save(log)

    def _forget(self, name: str) -> None:
        if self._given.get(name) == self.stored.pop(name):
            del self._given[name]

    def save(self, log: Log[Any]) -> None:
        """Save each producer's highest stored sequence id in the log's cursor.

        Beyond the limit, the producers that have stored nothing for the longest time are forgotten.
        """
        self._unsaved = 0
        excess = max(len(self.stored) - self._options.dedup_producers, 0)
        for name in [*islice(self.stored, excess)]:
            self._forget(name)
        properties = {name: str(number) for name, number in self.stored.items()}
        log.save_cursor(CursorState(CURSOR, log.position(log.end - 1), (), properties))


def _is_followed(entry: bytes) -> bool:
    """Whether an entry is a chunk of a message, and not the last one.

    All chunks of a message have its sequence id. As in Pulsar, only the last one is checked for
    duplicates: without it consumers drop the others.
    """
    chunk = chunk_of(entry)
    return chunk is not None and not chunk.is_last
