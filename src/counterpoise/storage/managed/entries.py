"""Entries as producers sent them, from payloads that Pulsar's brokers may have stored."""

from counterpoise.bookkeeper.broker_metadata import entry_begin
from counterpoise.wire.entry import BadEntry, messages_in


def as_sent(payload: bytes) -> bytes:
    """An entry without the broker metadata in front of it, as its producer sent it."""
    begin = entry_begin(payload)
    return payload[begin:] if begin <= len(payload) else payload


def count_messages(entry: bytes) -> int:
    """The number of messages in an entry; 1 if its metadata is unreadable."""
    try:
        return messages_in(entry)
    except BadEntry:
        return 1
