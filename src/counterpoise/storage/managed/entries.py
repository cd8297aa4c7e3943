"""Entries as brokers send them, of payloads that Pulsar's brokers may have stored."""

from __future__ import annotations

from counterpoise.bookkeeper.broker_metadata import entry_begin
from counterpoise.wire.entry import BadEntry, messages_in


def as_sent(payload: bytes) -> bytes:
    """The entry as its producer sent it."""
    begin = entry_begin(payload)
    return payload[begin:] if begin <= len(payload) else payload


def count_messages(entry: bytes) -> int:
    """How many messages an entry holds; 1 where its metadata cannot be read."""
    try:
        return messages_in(entry)
    except BadEntry:
        return 1
