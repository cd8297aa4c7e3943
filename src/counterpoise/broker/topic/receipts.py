"""Receipts for stored entries, to the producers that published them."""

from counterpoise.broker.topic.deduplication import Deduplication
from counterpoise.broker.topic.meter import Meter
from counterpoise.broker.topic.producer import Producer
from counterpoise.storage.port import EntryGroup

Published = tuple[Producer, int, int]
"""The producer of an entry, its sequence id and its highest sequence id."""


def send_receipts(
    group: EntryGroup[Published], meter_in: Meter, known: Deduplication | None
) -> None:
    """Count a committed group, and send each producer a receipt for each run of its entries.

    ``known``: the sequence ids of the topic's producers, if it deduplicates.
    """
    contexts = group.contexts
    begin, count = 0, len(contexts)
    while begin < count:
        producer = contexts[begin][0]
        end = begin + 1
        while end < count and contexts[end][0] is producer:
            end += 1
        messages = sum(group.messages[begin:end])
        size = sum(map(len, group.entries[begin:end]))
        producer.meter.count(messages, size)
        meter_in.count(messages, size)
        if known is not None:
            known.commit_run(producer.name, contexts[begin:end], group.entries[begin:end])
        if producer.closed:
            producer.sink.settled(producer, end - begin)
        else:
            producer.sink.receipts(
                producer.producer_id,
                group.ledger_id,
                group.first_entry + begin,
                contexts[begin:end],
            )
        begin = end
