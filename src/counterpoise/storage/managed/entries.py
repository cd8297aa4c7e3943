"""Entries as brokers send them, of payloads that Pulsar's brokers may have stored."""

from __future__ import annotations

from typing import Final

from counterpoise.wire.entry import BadEntry, messages_in

BROKER_METADATA: Final = b"\x0e\x02"
"""How a payload begins that has a broker's metadata before what the producer sent."""
_HEAD: Final = len(BROKER_METADATA) + 4


def as_sent(payload: bytes) -> bytes:
    """The entry as its producer sent it."""
    if not payload.startswith(BROKER_METADATA):
        return payload
    begin = _HEAD + int.from_bytes(payload[len(BROKER_METADATA) : _HEAD], "big")
    return payload[begin:] if begin <= len(payload) else payload


def count_messages(entry: bytes) -> int:
    """How many messages an entry holds; 1 where its metadata cannot be read."""
    try:
        return messages_in(entry)
    except BadEntry:
        return 1
