"""The fast path of responses: encodes SEND_RECEIPT and MESSAGE without protobuf.

A broker sends many of them in a row for one ledger, and one producer or consumer, so each is made
from a few table lookups and one ``join``.
"""

import struct
from collections.abc import Iterable, Sequence

from counterpoise.wire.varint import CONTINUED, LOW_BITS, LOW_MASK, LOW_SIZE, SHORT, varint

_SIZES = struct.Struct(">II")
_TWICE = 1 << 2 * LOW_BITS
"""Smaller numbers are encoded by two lookups in the tables of `varint`, which the loops do inline.
"""

_RECEIPT_HEAD = [
    _SIZES.pack(size + 8, size + 4) + bytes((0x08, 7, 0x3A, size, 0x08)) for size in range(128)
]
"""By size of the command: the bytes of a SEND_RECEIPT up to its producer id."""
_ID_HEAD = [bytes((0x1A, size, 0x08)) for size in range(128)]
"""By size of the message id: its tag and size, and the ledger id's tag."""
_MESSAGE_HEAD = bytes((0x08, 9, 0x4A))
"""By size of the command: the bytes of a MESSAGE up to that size."""


def send_receipts(
    producer_id: int, ledger_id: int, entry_id: int, published: Iterable[tuple[object, int, int]]
) -> bytes:
    """SEND_RECEIPTs for entries of one producer that were stored one after the other, from
    ``entry_id`` on. Ledger and entry -1: a duplicate, which is not stored again.

    ``published`` has for each entry anything (ignored), its sequence id, and its highest sequence
    id, which is omitted from the frame if it is 0 (no batch).
    """
    producer = varint(producer_id)
    ledger = varint(ledger_id)
    before = len(producer) + 4
    id_before = len(ledger) + 2
    frames: list[bytes] = []
    for _, sequence_id, highest_sequence_id in published:
        if 0 <= sequence_id < _TWICE:
            sequence = (
                SHORT[sequence_id]
                if sequence_id < LOW_SIZE
                else CONTINUED[sequence_id & LOW_MASK] + SHORT[sequence_id >> LOW_BITS]
            )
        else:
            sequence = varint(sequence_id)
        if 0 <= entry_id < _TWICE:
            entry = (
                SHORT[entry_id]
                if entry_id < LOW_SIZE
                else CONTINUED[entry_id & LOW_MASK] + SHORT[entry_id >> LOW_BITS]
            )
        else:
            entry = varint(entry_id)
        if highest_sequence_id <= 0:
            highest = b""
        elif LOW_SIZE <= highest_sequence_id < _TWICE:
            high = SHORT[highest_sequence_id >> LOW_BITS]
            highest = b"\x20" + CONTINUED[highest_sequence_id & LOW_MASK] + high
        else:
            highest = b"\x20" + varint(highest_sequence_id)
        size = id_before + len(entry)
        frames.append(
            b"".join(
                (
                    _RECEIPT_HEAD[before + len(sequence) + size + len(highest)],
                    producer,
                    b"\x10",
                    sequence,
                    _ID_HEAD[size],
                    ledger,
                    b"\x10",
                    entry,
                    highest,
                )
            )
        )
        entry_id += 1
    return b"".join(frames)


Delivery = tuple[int, int, int, bytes, Sequence[int]]
"""One message on its way out: ledger id, entry id, redelivery count, the entry's bytes, and the
batch indexes that are still to be acknowledged as 64-bit words (empty: all of them)."""


def messages(
    consumer_id: int, partition: int, epoch: int | None, deliveries: Iterable[Delivery]
) -> tuple[list[bytes], int]:
    """Encode MESSAGE frames for one consumer: for each delivery the command, then the entry
    unchanged.

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
