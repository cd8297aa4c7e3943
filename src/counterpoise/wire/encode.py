"""Encodes commands as whole frames: any command by `frame`, and frequent ones by their own
functions.

SEND_RECEIPT and MESSAGE are encoded by `encode_runs`.
"""

import struct
from typing import Any

from google.protobuf.message import Message

from counterpoise.wire.errors import ServerError
from counterpoise.wire.proto import commands_pb2 as commands
from counterpoise.wire.proto import values_pb2 as raw
from counterpoise.wire.proto.base_pb2 import BaseCommand
from counterpoise.wire.values import MessageId, Schema, TransactionId

_SIZES = struct.Struct(">II")
_FIELDS = {each.message_type: each for each in BaseCommand.DESCRIPTOR.fields}
_UNASKED = (1 << 64) - 1
"""The request id of a CLOSE_* the client never asked for: -1 in 64 bits."""


def frame(command: Message, entry: bytes = b"") -> bytes:
    """Encode one command, given as a message of `commands.proto`, and the entry that follows it."""
    field = _FIELDS[command.DESCRIPTOR]
    # The protocol numbers a command's field as its type.
    whole = BaseCommand(type=field.number, **{field.name: command})  # type: ignore[arg-type]
    return frame_of(whole, entry)


def frame_of(command: BaseCommand, entry: bytes = b"") -> bytes:
    """Encode a complete ``BaseCommand`` as a frame, and the entry that follows it."""
    body = command.SerializeToString()
    return _SIZES.pack(len(body) + len(entry) + 4, len(body)) + body + entry


def _position(message_id: MessageId) -> raw.MessageIdData:
    return raw.MessageIdData(
        ledger_id=message_id.ledger_id & _UNASKED,
        entry_id=message_id.entry_id & _UNASKED,
        partition=message_id.partition if message_id.partition >= 0 else None,
        batch_index=message_id.batch_index if message_id.batch_index >= 0 else None,
    )


def raw_schema(schema: Schema) -> raw.Schema:
    """Convert a schema to its protobuf message."""
    return raw.Schema(
        name=schema.name,
        schema_data=schema.data,
        type=schema.type,  # type: ignore[arg-type]
        properties=[{"key": key, "value": value} for key, value in schema.properties],
    )


PING = frame(commands.CommandPing())
PONG = frame(commands.CommandPong())


def success(request_id: int) -> bytes:
    """SUCCESS: answer a request that returns nothing."""
    return frame(commands.CommandSuccess(request_id=request_id))


def error(request_id: int, code: ServerError, message: str) -> bytes:
    """ERROR: refuse a request."""
    return frame(commands.CommandError(request_id=request_id, error=code.name, message=message))


def refuse(request: Any, code: ServerError, message: str) -> bytes:
    """Encode the error response to a request, a message of `commands.proto` with a request id."""
    number = request.request_id
    match request:
        case commands.CommandPartitionedTopicMetadata():
            partitions = commands.CommandPartitionedTopicMetadataResponse
            return frame(
                partitions(
                    request_id=number, response=partitions.Failed, error=code.name, message=message
                )
            )
        case commands.CommandLookupTopic():
            lookup = commands.CommandLookupTopicResponse
            return frame(
                lookup(request_id=number, response=lookup.Failed, error=code.name, message=message)
            )
        case commands.CommandConsumerStats():
            response: type[Message] = commands.CommandConsumerStatsResponse
        case commands.CommandGetSchema():
            response = commands.CommandGetSchemaResponse
        case commands.CommandGetOrCreateSchema():
            response = commands.CommandGetOrCreateSchemaResponse
        case _:
            return error(number, code, message)
    return frame(response(request_id=number, error_code=code.name, error_message=message))


def producer_success(
    request_id: int,
    name: str,
    *,
    last_sequence_id: int = -1,
    schema_version: bytes | None = None,
    topic_epoch: int | None = None,
    ready: bool = True,
) -> bytes:
    """Answer PRODUCER. With ``ready`` False the client waits for a second success (PIP-68)."""
    return frame(
        commands.CommandProducerSuccess(
            request_id=request_id,
            producer_name=name,
            last_sequence_id=last_sequence_id,
            schema_version=schema_version or b"",
            topic_epoch=topic_epoch,
            producer_ready=ready,
        )
    )


def send_error(producer_id: int, sequence_id: int, code: ServerError, message: str) -> bytes:
    """SEND_ERROR: refuse one SEND."""
    return frame(
        commands.CommandSendError(
            producer_id=producer_id, sequence_id=sequence_id, error=code.name, message=message
        )
    )


def close_producer(
    producer_id: int, service_url: str | None = None, service_url_tls: str | None = None
) -> bytes:
    """CLOSE_PRODUCER from the broker; with a URL the client reconnects there without a lookup."""
    return frame(
        commands.CommandCloseProducer(
            producer_id=producer_id,
            request_id=_UNASKED,
            assigned_broker_service_url=service_url,
            assigned_broker_service_url_tls=service_url_tls,
        )
    )


def close_consumer(
    consumer_id: int, service_url: str | None = None, service_url_tls: str | None = None
) -> bytes:
    """CLOSE_CONSUMER from the broker; with a URL the client reconnects there without a lookup."""
    return frame(
        commands.CommandCloseConsumer(
            consumer_id=consumer_id,
            request_id=_UNASKED,
            assigned_broker_service_url=service_url,
            assigned_broker_service_url_tls=service_url_tls,
        )
    )


def ack_response(
    consumer_id: int,
    request_id: int,
    code: ServerError | None = None,
    message: str = "",
    transaction: TransactionId | None = None,
) -> bytes:
    """ACK_RESPONSE: answer an ACK that has a request id; with ``code``, refuse it."""
    response = commands.CommandAckResponse(consumer_id=consumer_id, request_id=request_id)
    if transaction is not None:
        response.txnid_most_bits, response.txnid_least_bits = transaction
    if code is not None:
        response.error = code.value  # type: ignore[assignment]
        response.message = message
    return frame(response)


def last_message_id(request_id: int, last: MessageId, mark_delete: MessageId | None) -> bytes:
    """Answer GET_LAST_MESSAGE_ID; the last message of an empty topic is -1:-1."""
    return frame(
        commands.CommandGetLastMessageIdResponse(
            request_id=request_id,
            last_message_id=_position(last),
            consumer_mark_delete_position=None if mark_delete is None else _position(mark_delete),
        )
    )
