"""Decides which entries of a topic may be delivered, by its transactions: a fold of its log."""

from collections import Counter
from enum import IntEnum
from itertools import islice
from typing import Final, NamedTuple, Protocol

from counterpoise.wire.entry import BadEntry, build, metadata_of, split
from counterpoise.wire.proto.metadata_pb2 import MessageMetadata
from counterpoise.wire.values import TransactionId

PRODUCER: Final = "pulsar.txn.marker"
"""The producer name in the markers of commits and aborts, as in Pulsar."""
ENDED_MAX: Final = 10_000
"""How many ended transactions are remembered, besides those below their coordinator's watermark."""
_MOST_TAG: Final = b"\xb8\x01"
"""The tag of field 23 (``txnid_most_bits``) of the metadata; other bytes are rarely equal to it."""


class Marker(IntEnum):
    """The kinds of marker entry that end a transaction in a topic (``MarkerType``)."""

    COMMIT = 21
    ABORT = 22


class EntryOfTransaction(NamedTuple):
    """A message of a transaction, or the ``marker`` that ends it in this topic."""

    transaction: TransactionId
    marker: Marker | None


class HiddenEntries(Protocol):
    """Collects the entries that are never delivered, by index in the log."""

    def ack_range(self, first: int, last: int) -> bool:
        """Add the entries ``first`` to ``last``; returns whether any was new."""


def entry_of_transaction(entry: bytes) -> EntryOfTransaction | None:
    """The transaction to which an entry belongs, and its marker; None if it belongs to none."""
    if _MOST_TAG not in entry:
        return None
    try:
        metadata = metadata_of(entry)
    except BadEntry:
        return None
    if not (metadata.HasField("txnid_most_bits") and metadata.HasField("txnid_least_bits")):
        return None
    transaction = TransactionId(metadata.txnid_most_bits, metadata.txnid_least_bits)
    kind = metadata.marker_type
    return EntryOfTransaction(transaction, Marker(kind) if kind in set(Marker) else None)


def in_transaction(entry: bytes, transaction: TransactionId) -> bytes:
    """The entry with its transaction's id in the metadata, so that the log has it when it is read
    again.

    Apache's Go client names the transaction only in the SEND command. An entry that has an id
    already, or has no readable metadata, is returned unchanged.
    """
    if entry_of_transaction(entry) is not None:
        return entry
    try:
        metadata, (_, payload) = metadata_of(entry), split(entry)
    except BadEntry:
        return entry
    metadata.txnid_most_bits = transaction.coordinator
    metadata.txnid_least_bits = transaction.number
    return build(metadata, payload.tobytes())


def marker_entry(marker: Marker, transaction: TransactionId, number: int, now_ms: int) -> bytes:
    """A marker's entry as Pulsar writes it; ``number`` is its sequence id."""
    return build(
        MessageMetadata(
            producer_name=PRODUCER,
            sequence_id=number,
            publish_time=now_ms,
            marker_type=marker.value,
            txnid_most_bits=transaction.coordinator,
            txnid_least_bits=transaction.number,
        ),
        b"",
    )


class TransactionBuffer:
    """The transactions with messages in one topic, and which entries may be delivered because of
    them.

    Nothing at or after the first message of an open transaction is delivered (Pulsar's
    ``maxReadPosition``). ``hidden`` collects what is never delivered: markers, aborted messages.
    """

    def __init__(self, hidden: HiddenEntries) -> None:
        self._hidden = hidden
        self._open: dict[TransactionId, list[tuple[int, int]]] = {}
        """By open transaction, in the order of first messages: ranges of indexes."""
        self._ended: dict[TransactionId, Marker] = {}
        """The transactions whose marker is stored, each with its marker."""
        self._ending: set[TransactionId] = set()
        """The transactions whose marker is being written."""
        self.watermarks: dict[int, int] = {}
        """By coordinator id, the number up to which all of its transactions have ended."""
        self.ended_by: Counter[Marker] = Counter()
        """How many transactions the log has ended here, by marker."""

    def stored(self, index: int, entry: EntryOfTransaction) -> list[tuple[int, int]]:
        """Add the next entry of the log; returns the ranges of entries that it hides for good."""
        transaction, marker = entry
        if marker is not None:
            messages = self._open.pop(transaction, [])
            self._remember(transaction, marker)
            hidden = [(index, index)]
            if marker is Marker.ABORT:
                hidden += messages
        elif self.has_marker(transaction):
            # The message waited for a publish limit while its transaction was ended.
            hidden = [(index, index)]
        else:
            stretches = self._open.setdefault(transaction, [])
            if stretches and stretches[-1][1] == index - 1:
                stretches[-1] = stretches[-1][0], index
            else:
                stretches.append((index, index))
            return []
        for first, last in hidden:
            self._hidden.ack_range(first, last)
        return hidden

    def ending(self, transaction: TransactionId) -> None:
        """Accept no more messages of a transaction, since its marker is about to be written."""
        self._ending.add(transaction)

    def ended(self, transaction: TransactionId) -> None:
        """Note that the write of a transaction's marker is over, whether it is stored or not."""
        self._ending.discard(transaction)

    def has_marker(self, transaction: TransactionId) -> bool:
        """Whether a transaction's marker is stored; False if that is not remembered any more."""
        return transaction in self._ended

    def is_aborted(self, transaction: TransactionId) -> bool:
        """Whether a marker that aborts a transaction is stored; False if no longer remembered."""
        return self._ended.get(transaction) is Marker.ABORT

    def _remember(self, transaction: TransactionId, marker: Marker) -> None:
        if transaction not in self._ended:
            self.ended_by[marker] += 1
        self._ended[transaction] = marker
        for oldest in list(islice(self._ended, max(len(self._ended) - ENDED_MAX, 0))):
            del self._ended[oldest]

    def is_over(self, transaction: TransactionId) -> bool:
        """Whether the transaction accepts no more messages here."""
        mark = self.watermarks.get(transaction.coordinator, -1)
        over = transaction in self._ended or transaction in self._ending
        return over or transaction.number <= mark

    @property
    def open(self) -> list[TransactionId]:
        """The transactions with messages in the topic and no marker."""
        return list(self._open)

    def begins_at(self, transaction: TransactionId) -> int | None:
        """The index of an open transaction's first message; None if it has none here."""
        messages = self._open.get(transaction)
        return None if messages is None else messages[0][0]

    def raise_watermark(self, coordinator: int, number: int) -> list[TransactionId]:
        """Note that all of a coordinator's transactions up to ``number`` have ended; returns those
        that are open here.
        """
        mark = self.watermarks.get(coordinator, -1)
        self.watermarks[coordinator] = max(mark, number)
        return [each for each in self._open if each[0] == coordinator and each[1] <= number]

    def stable_end(self, end: int) -> int:
        """The index of the first entry that may not be delivered yet; ``end`` if all may be."""
        first = next(iter(self._open.values()), None)
        return end if first is None else first[0][0]
