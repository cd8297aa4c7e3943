"""Decodes commands to events: one small reader for each command that is not passed on as it is.

A reader takes the parsed command and the bytes after it in the frame (only SEND has any).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from counterpoise.wire import events
from counterpoise.wire.proto import commands_pb2 as commands
from counterpoise.wire.proto import values_pb2 as raw
from counterpoise.wire.proto.base_pb2 import BaseCommand
from counterpoise.wire.values import MessageId, Schema, TransactionId
from counterpoise.wire.varint import signed

Type = BaseCommand.Type
Reader = Callable[[Any, bytes], events.Event]

PIECE: Final = 4096
"""A list of positions is read, and served, in events of at most this many positions."""


def message_id(data: raw.MessageIdData) -> MessageId:
    """The position of a message that a client names."""
    return MessageId(signed(data.ledger_id), signed(data.entry_id))


def pairs_of(values: Iterable[raw.KeyValue]) -> tuple[tuple[str, str], ...]:
    """Convert protobuf messages of key and value to pairs."""
    return tuple((pair.key, pair.value) for pair in values)


def schema_of(data: raw.Schema) -> Schema:
    """The schema that a client declares."""
    return Schema(data.name, data.schema_data, data.type, pairs_of(data.properties))


def optional(message: Any, field: str) -> Any:
    """The value of a protobuf message's field; None if it is not set."""
    return getattr(message, field) if message.HasField(field) else None


def _connect(command: commands.CommandConnect, _: bytes) -> events.Event:
    flags = command.feature_flags
    return events.Connect(
        command.client_version,
        command.protocol_version,
        flags.supports_partial_producer,
        flags.supports_topic_watchers,
        optional(command, "proxy_version"),
        _auth_method(command),
        command.auth_data,
        flags.supports_auth_refresh,
        optional(command, "original_principal"),
        optional(command, "original_auth_method"),
        optional(command, "original_auth_data"),
    )


def _auth_method(command: commands.CommandConnect) -> str:
    """The name of the authentication method; old clients send a number, 0 for
    ``AuthMethodNone``.
    """
    if command.HasField("auth_method_name"):
        return command.auth_method_name
    return raw.AuthMethod.Name(command.auth_method).removeprefix("AuthMethod").lower()


def _auth_response(command: commands.CommandAuthResponse, _: bytes) -> events.Event:
    return events.AuthResponse(command.response.auth_method_name, command.response.auth_data)


def _send(command: commands.CommandSend, entry: bytes) -> events.Event:
    # The number of messages is read from the entry later, after its checksum has been verified.
    send = events.Send(
        command.producer_id,
        command.sequence_id,
        command.highest_sequence_id,
        1,
        command.is_chunk,
        entry,
    )
    transaction = transaction_of(command)
    return send if transaction is None else events.TransactionSend(send, transaction)


def _ack(command: commands.CommandAck, _: bytes) -> events.Event:
    return _ack_of(command, command.message_id, is_last=True)


def _ack_of(
    command: commands.CommandAck, positions: Iterable[raw.MessageIdData], *, is_last: bool
) -> events.Event:
    # Hot: a client acknowledges every message. Empty ack sets are not copied, and the fields of
    # a position that an acknowledgement has no use for are not read.
    cumulative = command.ack_type == commands.CommandAck.Cumulative
    acked = [
        (each.ledger_id, each.entry_id, tuple(words) if (words := each.ack_set) else ())
        for each in positions
    ]
    if cumulative:
        # Only cumulative acknowledgements have entry -1, which Java's client sends for a message
        # within a ledger's first batch. Individual ones name entries that were delivered.
        acked = [(signed(ledger), signed(entry), words) for ledger, entry, words in acked]
    return events.Ack(
        command.consumer_id,
        cumulative,
        tuple(acked),
        optional(command, "validation_error"),
        tuple((pair.key, pair.value) for pair in command.properties),
        optional(command, "request_id") if is_last else None,
        transaction_of(command),
    )


def _acks(command: commands.CommandAck) -> Iterator[events.Event]:
    for positions, is_last in _pieces(command.message_id):
        yield _ack_of(command, positions, is_last=is_last)


def _redeliver(command: commands.CommandRedeliverUnacknowledgedMessages, _: bytes) -> events.Event:
    return _redeliver_of(command, command.message_ids)


def _redeliver_of(
    command: commands.CommandRedeliverUnacknowledgedMessages, positions: Iterable[raw.MessageIdData]
) -> events.Event:
    return events.Redeliver(
        command.consumer_id,
        tuple(message_id(item) for item in positions),
        optional(command, "consumer_epoch"),
    )


def _redeliveries(
    command: commands.CommandRedeliverUnacknowledgedMessages,
) -> Iterator[events.Event]:
    for positions, _ in _pieces(command.message_ids):
        yield _redeliver_of(command, positions)


def _pieces(
    positions: Sequence[raw.MessageIdData],
) -> Iterator[tuple[Sequence[raw.MessageIdData], bool]]:
    """Cut a list into pieces of `PIECE` positions; yields each, and whether it is the last."""
    for begin in range(0, len(positions), PIECE):
        yield positions[begin : begin + PIECE], begin + PIECE >= len(positions)


def transaction_in(command: Any) -> TransactionId:
    """The id of the transaction that a command is about."""
    return TransactionId(command.txnid_most_bits, command.txnid_least_bits)


def transaction_of(command: commands.CommandSend | commands.CommandAck) -> TransactionId | None:
    """The transaction to which a SEND or ACK belongs; None if it belongs to none."""
    if not (command.HasField("txnid_most_bits") and command.HasField("txnid_least_bits")):
        return None
    return transaction_in(command)


def _end_on(
    command: commands.CommandEndTxnOnPartition | commands.CommandEndTxnOnSubscription,
    topic: str,
    subscription: str | None = None,
) -> events.Event:
    return events.EndOnParticipant(
        command.request_id,
        transaction_in(command),
        command.txn_action == raw.COMMIT,
        _low_watermark(command),
        topic,
        subscription,
    )


def _low_watermark(
    command: commands.CommandEndTxnOnPartition | commands.CommandEndTxnOnSubscription,
) -> int:
    """The number up to which all transactions of a coordinator have ended; -1 if none is known to.

    A coordinator sends -1 as 2^64 - 1.
    """
    if not command.HasField("txnid_least_bits_of_low_watermark"):
        return -1
    return signed(command.txnid_least_bits_of_low_watermark)


_AS_THEY_ARE: Final = (
    "ping",
    "pong",
    "partition_metadata",
    "lookup_topic",
    "get_topics_of_namespace",
    "watch_topic_list",
    "watch_topic_list_close",
    "producer",
    "close_producer",
    "subscribe",
    "seek",
    "get_last_message_id",
    "consumer_stats",
    "unsubscribe",
    "close_consumer",
    "get_schema",
    "get_or_create_schema",
    "tc_client_connect_request",
    "new_txn",
    "add_partition_to_txn",
    "add_subscription_to_txn",
    "end_txn",
)
"""Commands that are their own events, since handlers can read their fields as they are."""

_READERS_BY_FIELD: Final[dict[str, Reader]] = {
    **dict.fromkeys(_AS_THEY_ARE, lambda command, _: command),
    "connect": _connect,
    "auth_response": _auth_response,
    "send": _send,
    "flow": lambda c, _: events.Flow(c.consumer_id, c.message_permits),
    "ack": _ack,
    "redeliver_unacknowledged_messages": _redeliver,
    "end_txn_on_partition": lambda c, _: _end_on(c, c.topic),
    "end_txn_on_subscription": lambda c, _: _end_on(
        c, c.subscription.topic, c.subscription.subscription
    ),
}
READERS: Final[dict[int, tuple[str, Reader]]] = {
    BaseCommand.DESCRIPTOR.fields_by_name[field].number: (field, reader)
    for field, reader in _READERS_BY_FIELD.items()
}
"""By command type, which is its field's number: the field that carries it, and its reader."""

IN_PIECES: dict[int, tuple[str, Callable[[Any], Iterator[events.Event]]]] = {
    Type.ACK: ("message_id", _acks),
    Type.REDELIVER_UNACKNOWLEDGED_MESSAGES: ("message_ids", _redeliveries),
}
"""The commands whose lists of positions may be long: the field, and how it is read in pieces."""
