"""The fast path of answers: SEND_RECEIPT and MESSAGE, written without protobuf.

Both come in runs (one ledger, one producer or consumer), so each is made from a few table
lookups and one ``join``.
"""

import struct
from collections.abc import Sequence

from counterpoise.wire.varint import varint

_SIZES = struct.Struct(">II")

#: SEND_RECEIPT up to the producer id, by the size of the command's body.
_RECEIPT_HEAD = [
    _SIZES.pack(size + 8, size + 4) + bytes((0x08, 7, 0x3A, size, 0x08)) for size in range(128)
]
#: A message id's tag and size, then the ledger id's tag, by that size.
_ID_HEAD = [bytes((0x1A, size, 0x08)) for size in range(128)]


def send_receipt(
    producer_id: int,
    sequence_id: int,
    highest_sequence_id: int,
    ledger_id: int,
    entry_id: int,
) -> bytes:
    """Confirm one SEND; the highest sequence id is left out for anything but a batch."""
    producer, sequence, ledger, entry = (
        varint(producer_id),
        varint(sequence_id),
        varint(ledger_id),
        varint(entry_id),
    )
    id_size = len(ledger) + len(entry) + 2
    highest = b"\x20" + varint(highest_sequence_id) if highest_sequence_id > 0 else b""
    return b"".join(
        (
            _RECEIPT_HEAD[len(producer) + len(sequence) + id_size + len(highest) + 4],
            producer,
            b"\x10",
            sequence,
            _ID_HEAD[id_size],
            ledger,
            b"\x10",
            entry,
            highest,
        )
    )


def message(
    consumer_id: int,
    ledger_id: int,
    entry_id: int,
    partition: int,
    redelivery_count: int,
    ack_set: Sequence[int],
    entry_size: int,
) -> bytes:
    """Write what precedes an entry of ``entry_size`` bytes in its MESSAGE frame."""
    position = b"\x08" + varint(ledger_id) + b"\x10" + varint(entry_id)
    if partition >= 0:
        position += b"\x18" + varint(partition)
    body = b"\x08" + varint(consumer_id) + b"\x12" + varint(len(position)) + position
    if redelivery_count > 0:
        body += b"\x18" + varint(redelivery_count)
    for word in ack_set:
        body += b"\x20" + varint(word)
    size = varint(len(body))
    command_size = len(size) + len(body) + 3
    return b"".join(
        (
            _SIZES.pack(command_size + 4 + entry_size, command_size),
            b"\x08\x09\x4a",
            size,
            body,
        )
    )
