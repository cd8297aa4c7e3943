"""Sends receipts, or errors, to the producers of entries that were or were not stored."""

from collections.abc import Sequence
from typing import Protocol

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.deduplication import Deduplication
from counterpoise.broker.topic.meter import Meter
from counterpoise.storage.port import EntryGroup


class Publisher(Protocol):
    """What published an entry: a client's producer, or the topic itself (`InternalPublisher`)."""

    name: str

    def stored(
        self,
        ledger_id: int,
        first_entry_id: int,
        published: Sequence[tuple[object, int, int]],
        messages: int,
        size: int,
    ) -> None:
        """Send receipts for entries that are stored at consecutive positions, and count them.

        ``published``: the second and third value of each are its sequence id and highest sequence
        id. ``messages`` and ``size`` (bytes) are those of all entries.
        """

    def refused(self, sequence_id: int, error: BrokerError) -> None:
        """Send the error of an entry that is not stored."""

    def unanswered(self) -> None:
        """Note that an entry gets no response, because the log failed."""

    def disconnect(self) -> None:
        """Make the client reconnect, so that it sends the refused entries again, in order."""


class InternalPublisher:
    """Publishes entries that a topic writes itself, for which no client waits."""

    def __init__(self, name: str) -> None:
        self.name = name

    def stored(
        self,
        ledger_id: int,
        first_entry_id: int,
        published: Sequence[tuple[object, int, int]],
        messages: int,
        size: int,
    ) -> None:
        """Do nothing; a subclass notes that its entries are stored."""

    def refused(self, sequence_id: int, error: BrokerError) -> None:
        """Do nothing; a subclass notes that an entry is not stored."""

    def unanswered(self) -> None:
        """Do nothing."""

    def disconnect(self) -> None:
        """Do nothing."""


Published = tuple[Publisher, int, int]
"""The publisher of an entry, its sequence id and its highest sequence id."""


def send_receipts(
    group: EntryGroup[Published], meter_in: Meter, known: Deduplication | None
) -> None:
    """Send receipts for a stored group: one message for each run of entries of the same publisher.

    ``meter_in`` counts the entries. ``known``: the topic's sequence ids, if it deduplicates.
    """
    contexts = group.contexts
    begin, count = 0, len(contexts)
    while begin < count:
        publisher = contexts[begin][0]
        end = begin + 1
        while end < count and contexts[end][0] is publisher:
            end += 1
        run = contexts[begin:end]
        messages = sum(group.messages[begin:end])
        size = sum(map(len, group.entries[begin:end]))
        meter_in.count(messages, size)
        if known is not None:
            known.commit_run(publisher.name, run, group.entries[begin:end])
        publisher.stored(group.ledger_id, group.first_entry + begin, run, messages, size)
        begin = end


def refuse_all(error: BrokerError, published: Sequence[Published]) -> None:
    """Send errors for entries that are not stored, and close their producers, as Pulsar does.

    Entries that a producer sent later must not be stored before these.
    """
    for publisher, sequence_id, _ in published:
        publisher.refused(sequence_id, error)
    for publisher in dict.fromkeys(each[0] for each in published):
        publisher.disconnect()
