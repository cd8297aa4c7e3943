"""Decodes commands to events, with one small reader for each command.

A reader takes the parsed command and the bytes after it in the frame (only SEND has any).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from counterpoise.wire import events
from counterpoise.wire.decode_transactions import TRANSACTION_READERS, transaction_of
from counterpoise.wire.proto import commands_pb2 as commands
from counterpoise.wire.proto import values_pb2 as raw
from counterpoise.wire.proto.base_pb2 import BaseCommand
from counterpoise.wire.values import (
    AccessMode,
    InitialPosition,
    KeyShared,
    MessageId,
    Schema,
    SubscriptionType,
    TopicsMode,
)
from counterpoise.wire.varint import signed

Type = BaseCommand.Type
Reader = Callable[[Any, bytes], events.Event]

PIECE: Final = 4096
"""How many positions of a list make one event: a longer list is read, and served, in pieces."""


def message_id(data: raw.MessageIdData) -> MessageId:
    """Convert a protobuf message id."""
    return MessageId(
        signed(data.ledger_id),
        signed(data.entry_id),
        data.partition,
        data.batch_index,
        tuple(data.ack_set),
        data.batch_size,
        message_id(data.first_chunk_message_id)
        if data.HasField("first_chunk_message_id")
        else None,
    )


def _pairs(values: Iterable[raw.KeyValue]) -> tuple[tuple[str, str], ...]:
    return tuple((pair.key, pair.value) for pair in values)


def _schema(data: raw.Schema) -> Schema:
    return Schema(data.name, data.schema_data, data.type, _pairs(data.properties))


def _optional(message: Any, field: str) -> Any:
    return getattr(message, field) if message.HasField(field) else None


def _connect(command: commands.CommandConnect, _: bytes) -> events.Event:
    flags = command.feature_flags
    return events.Connect(
        command.client_version,
        command.protocol_version,
        flags.supports_partial_producer,
        flags.supports_topic_watchers,
        _optional(command, "proxy_version"),
        _auth_method(command),
        command.auth_data,
        flags.supports_auth_refresh,
        _optional(command, "original_principal"),
        _optional(command, "original_auth_method"),
        _optional(command, "original_auth_data"),
    )


def _auth_method(command: commands.CommandConnect) -> str:
    """The method's name, or that of the number that old clients send; ``AuthMethodNone`` is the
    first.
    """
    if command.HasField("auth_method_name"):
        return command.auth_method_name
    return raw.AuthMethod.Name(command.auth_method).removeprefix("AuthMethod").lower()


def _auth_response(command: commands.CommandAuthResponse, _: bytes) -> events.Event:
    return events.AuthResponse(command.response.auth_method_name, command.response.auth_data)


def _partitioned_metadata(
    command: commands.CommandPartitionedTopicMetadata, _: bytes
) -> events.Event:
    return events.PartitionedMetadata(
        command.request_id, command.topic, command.metadata_auto_creation_enabled
    )


def _lookup(command: commands.CommandLookupTopic, _: bytes) -> events.Event:
    listener = _optional(command, "advertised_listener_name")
    return events.Lookup(command.request_id, command.topic, command.authoritative, listener)


def _get_topics(command: commands.CommandGetTopicsOfNamespace, _: bytes) -> events.Event:
    return events.GetTopics(
        command.request_id,
        command.namespace,
        TopicsMode(command.mode),
        _optional(command, "topics_pattern"),
        _optional(command, "topics_hash"),
    )


def _watch_topics(command: commands.CommandWatchTopicList, _: bytes) -> events.Event:
    return events.WatchTopics(
        command.request_id,
        command.watcher_id,
        command.namespace,
        command.topics_pattern,
        _optional(command, "topics_hash"),
    )


def _open_producer(command: commands.CommandProducer, _: bytes) -> events.Event:
    return events.OpenProducer(
        command.request_id,
        command.producer_id,
        command.topic,
        command.producer_name or None,
        command.user_provided_producer_name,
        command.epoch,
        AccessMode(command.producer_access_mode),
        _optional(command, "topic_epoch"),
        command.encrypted,
        _pairs(command.metadata),
        _schema(command.schema) if command.HasField("schema") else None,
        command.txn_enabled,
        command.initial_subscription_name or None,
    )


def _send(command: commands.CommandSend, entry: bytes) -> events.Event:
    # How many messages it holds is counted once its checksum is known to hold.
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


def _key_shared(meta: raw.KeySharedMeta) -> KeyShared:
    return KeyShared(
        meta.key_shared_mode == raw.STICKY,
        tuple((item.start, item.end) for item in meta.hash_ranges),
        meta.allow_out_of_order_delivery,
    )


def _subscribe(command: commands.CommandSubscribe, _: bytes) -> events.Event:
    has = command.HasField
    return events.Subscribe(
        request_id=command.request_id,
        consumer_id=command.consumer_id,
        topic=command.topic,
        subscription=command.subscription,
        type=SubscriptionType(command.sub_type),
        consumer_name=command.consumer_name or None,
        priority_level=command.priority_level,
        durable=command.durable,
        start=message_id(command.start_message_id) if has("start_message_id") else None,
        start_rollback_s=command.start_message_rollback_duration_sec,
        initial_position=InitialPosition(command.initial_position),
        read_compacted=command.read_compacted,
        replicate_state=command.replicate_subscription_state,
        create_topic=command.force_topic_creation,
        key_shared=_key_shared(command.key_shared_meta) if has("key_shared_meta") else None,
        metadata=_pairs(command.metadata),
        properties=_pairs(command.subscription_properties),
        schema=_schema(command.schema) if has("schema") else None,
        epoch=_optional(command, "consumer_epoch"),
    )


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
        # Up to entry -1: what Java's client sends for a message in the middle of a ledger's first
        # batch. An acknowledgement of single messages names those that were delivered.
        acked = [(signed(ledger), signed(entry), words) for ledger, entry, words in acked]
    return events.Ack(
        command.consumer_id,
        cumulative,
        tuple(acked),
        _optional(command, "validation_error"),
        tuple((pair.key, pair.value) for pair in command.properties),
        _optional(command, "request_id") if is_last else None,
        transaction_of(command),
    )


def _acks(command: commands.CommandAck) -> Iterator[events.Event]:
    for positions, is_last in _pieces(command.message_id):
        yield _ack_of(command, positions, is_last=is_last)


def _redeliver(command: commands.CommandRedeliverUnacknowledgedMessages, _: bytes) -> events.Event:
    return _redeliver_of(command, command.message_ids)


def _redeliver_of(
    command: commands.CommandRedeliverUnacknowledgedMessages,
    positions: Iterable[raw.MessageIdData],
) -> events.Event:
    return events.Redeliver(
        command.consumer_id,
        tuple(message_id(item) for item in positions),
        _optional(command, "consumer_epoch"),
    )


def _redeliveries(
    command: commands.CommandRedeliverUnacknowledgedMessages,
) -> Iterator[events.Event]:
    for positions, _ in _pieces(command.message_ids):
        yield _redeliver_of(command, positions)


def _pieces(
    positions: Sequence[raw.MessageIdData],
) -> Iterator[tuple[Sequence[raw.MessageIdData], bool]]:
    """Stretches of a list, and whether each is the last."""
    for begin in range(0, len(positions), PIECE):
        yield positions[begin : begin + PIECE], begin + PIECE >= len(positions)


def _seek(command: commands.CommandSeek, _: bytes) -> events.Event:
    return events.Seek(
        command.request_id,
        command.consumer_id,
        message_id(command.message_id) if command.HasField("message_id") else None,
        _optional(command, "message_publish_time"),
    )


def _get_schema(command: commands.CommandGetSchema, _: bytes) -> events.Event:
    # Clients that want the latest send no version, or an empty one.
    return events.GetSchema(command.request_id, command.topic, command.schema_version or None)


_READERS_BY_FIELD: Final[dict[str, Reader]] = {
    "connect": _connect,
    "auth_response": _auth_response,
    "ping": lambda _c, _p: events.Ping(),
    "pong": lambda _c, _p: events.Pong(),
    "partition_metadata": _partitioned_metadata,
    "lookup_topic": _lookup,
    "get_topics_of_namespace": _get_topics,
    "watch_topic_list": _watch_topics,
    "watch_topic_list_close": lambda c, _: events.CloseWatch(c.request_id, c.watcher_id),
    "producer": _open_producer,
    "send": _send,
    "close_producer": lambda c, _: events.CloseProducer(c.request_id, c.producer_id),
    "subscribe": _subscribe,
    "flow": lambda c, _: events.Flow(c.consumer_id, c.message_permits),
    "ack": _ack,
    "redeliver_unacknowledged_messages": _redeliver,
    "seek": _seek,
    "get_last_message_id": lambda c, _: events.GetLastMessageId(c.request_id, c.consumer_id),
    "consumer_stats": lambda c, _: events.ConsumerStats(c.request_id, c.consumer_id),
    "unsubscribe": lambda c, _: events.Unsubscribe(c.request_id, c.consumer_id, c.force),
    "close_consumer": lambda c, _: events.CloseConsumer(c.request_id, c.consumer_id),
    "get_schema": _get_schema,
    "get_or_create_schema": lambda c, _: events.GetOrCreateSchema(
        c.request_id, c.topic, _schema(c.schema)
    ),
    **TRANSACTION_READERS,
}
#: By command type, which is its field's number: the field that carries it, and its reader.
READERS: Final[dict[int, tuple[str, Reader]]] = {
    BaseCommand.DESCRIPTOR.fields_by_name[field].number: (field, reader)
    for field, reader in _READERS_BY_FIELD.items()
}

#: The commands whose lists of positions may be long: their field, and how they are read in pieces.
IN_PIECES: dict[int, tuple[str, Callable[[Any], Iterator[events.Event]]]] = {
    Type.ACK: ("message_id", _acks),
    Type.REDELIVER_UNACKNOWLEDGED_MESSAGES: ("message_ids", _redeliveries),
}
