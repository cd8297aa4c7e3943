"""The fast path of answers: SEND_RECEIPT and MESSAGE, written without protobuf.

Both come in runs (one ledger, one producer or consumer), so each is made from a few table
lookups and one ``join``.
"""

import struct
from collections.abc import Iterable, Sequence

from counterpoise.wire.varint import varint

_SIZES = struct.Struct(">II")

#: SEND_RECEIPT up to the producer id, by the size of the command's body.
_RECEIPT_HEAD = [
    _SIZES.pack(size + 8, size + 4) + bytes((0x08, 7, 0x3A, size, 0x08)) for size in range(128)
]
#: A message id's tag and size, then the ledger id's tag, by that size.
_ID_HEAD = [bytes((0x1A, size, 0x08)) for size in range(128)]
#: MESSAGE up to the size of the command's body.
_MESSAGE_HEAD = bytes((0x08, 9, 0x4A))


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


#: Ledger id, entry id, redelivery count, the entry, and the words of its ack set (or none).
Delivery = tuple[int, int, int, bytes, Sequence[int]]


def messages(
    consumer_id: int, partition: int, epoch: int | None, deliveries: Iterable[Delivery]
) -> tuple[list[bytes], int]:
    """Write MESSAGE frames of one consumer: for each its beginning, then the entry as it is.

    Returns these pieces, to be written in order, and their size in bytes. ``partition`` -1 and
    ``epoch`` None are left out.
    """
    pieces: list[bytes] = []
    size = 0
    consumer = b"\x08" + varint(consumer_id) + b"\x12"
    in_partition = b"\x18" + varint(partition) if partition >= 0 else b""
    in_epoch = b"\x28" + varint(epoch) if epoch is not None else b""
    ledger_id, ledger = None, b""
    pack, head = _SIZES.pack, _MESSAGE_HEAD
    for delivery in deliveries:
        if delivery[0] != ledger_id:
            ledger_id = delivery[0]
            ledger = b"\x08" + varint(ledger_id) + b"\x10"
        _, entry_id, redeliveries, entry, ack_set = delivery
        position = ledger + varint(entry_id) + in_partition
        body = consumer + varint(len(position)) + position
        if redeliveries or ack_set or in_epoch:
            if redeliveries:
                body += b"\x18" + varint(redeliveries)
            for word in ack_set:
                body += b"\x20" + varint(word)
            body += in_epoch
        body = head + varint(len(body)) + body
        command_size = len(body)
        entry_size = len(entry)
        pieces += (pack(command_size + 4 + entry_size, command_size) + body, entry)
        size += command_size + 8 + entry_size
    return pieces, size
