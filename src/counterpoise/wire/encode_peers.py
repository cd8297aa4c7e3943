"""Encodes responses to producers and consumers, and about schemas (see `encode`)."""

from dataclasses import dataclass

from counterpoise.wire.encode import _UNASKED, _position, frame, raw_schema
from counterpoise.wire.errors import ServerError
from counterpoise.wire.proto import commands_pb2 as commands
from counterpoise.wire.values import MessageId, Schema, TransactionId


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


def active_consumer(consumer_id: int, *, is_active: bool) -> bytes:
    """ACTIVE_CONSUMER_CHANGE: notify a Failover consumer whether it is the active one."""
    return frame(commands.CommandActiveConsumerChange(consumer_id=consumer_id, is_active=is_active))


def reached_end(consumer_id: int) -> bytes:
    """REACHED_END_OF_TOPIC: notify a consumer that its terminated topic has no more messages."""
    return frame(commands.CommandReachedEndOfTopic(consumer_id=consumer_id))


@dataclass(frozen=True, slots=True)
class ConsumerFigures:
    """The content of an answer to CONSUMER_STATS: rates per second, throughput in bytes/s."""

    msg_rate_out: float
    msg_throughput_out: float
    msg_rate_redeliver: float
    consumer_name: str
    available_permits: int
    unacked_messages: int
    blocked_consumer_on_unacked_msgs: bool
    address: str
    connected_since: str
    type: str
    msg_rate_expired: float
    msg_backlog: int
    message_ack_rate: float


def consumer_stats(request_id: int, figures: ConsumerFigures) -> bytes:
    """Answer CONSUMER_STATS with a consumer's figures."""
    response = commands.CommandConsumerStatsResponse(request_id=request_id)
    for field in ConsumerFigures.__slots__:
        setattr(response, field, getattr(figures, field))
    return frame(response)


def consumer_stats_failed(request_id: int, code: ServerError, message: str) -> bytes:
    """Refuse CONSUMER_STATS."""
    return frame(
        commands.CommandConsumerStatsResponse(
            request_id=request_id, error_code=code.name, error_message=message
        )
    )


def schema(request_id: int, found: Schema, version: bytes) -> bytes:
    """Answer GET_SCHEMA with a schema and its version."""
    return frame(
        commands.CommandGetSchemaResponse(
            request_id=request_id, schema=raw_schema(found), schema_version=version
        )
    )


def schema_failed(request_id: int, code: ServerError, message: str) -> bytes:
    """Refuse GET_SCHEMA."""
    return frame(
        commands.CommandGetSchemaResponse(
            request_id=request_id, error_code=code.name, error_message=message
        )
    )


def schema_created(request_id: int, version: bytes) -> bytes:
    """Answer GET_OR_CREATE_SCHEMA with the schema's version."""
    return frame(
        commands.CommandGetOrCreateSchemaResponse(request_id=request_id, schema_version=version)
    )


def schema_not_created(request_id: int, code: ServerError, message: str) -> bytes:
    """Refuse GET_OR_CREATE_SCHEMA."""
    return frame(
        commands.CommandGetOrCreateSchemaResponse(
            request_id=request_id, error_code=code.name, error_message=message
        )
    )
