"""Encodes the few commands that a broker sends to another broker as its client.

Each function returns one whole frame. The responses are `BaseCommand`s (`frames_in`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

from counterpoise.wire.constants import PROTOCOL_VERSION
from counterpoise.wire.encode import frame, raw_schema
from counterpoise.wire.proto import commands_pb2 as commands
from counterpoise.wire.proto import values_pb2 as raw
from counterpoise.wire.proto.base_pb2 import BaseCommand
from counterpoise.wire.values import Schema

_SIZES = struct.Struct(">II")
_TOTAL_SIZE = 4
_EARLIEST = (1 << 64) - 1
"""-1 in 64 bits: both halves of the position before the first message."""


def connect(client_version: str, auth_method: str = "none", auth_data: bytes = b"") -> bytes:
    """CONNECT: begin the connection and identify the client."""
    return frame(
        commands.CommandConnect(
            client_version=client_version,
            protocol_version=PROTOCOL_VERSION,
            auth_method_name=auth_method,
            auth_data=auth_data,
            feature_flags=raw.FeatureFlags(supports_auth_refresh=True),
        )
    )


def auth_response(client_version: str, auth_method: str, auth_data: bytes) -> bytes:
    """AUTH_RESPONSE: send new credentials."""
    return frame(
        commands.CommandAuthResponse(
            client_version=client_version,
            response=raw.AuthData(auth_method_name=auth_method, auth_data=auth_data),
            protocol_version=PROTOCOL_VERSION,
        )
    )


def look_up(topic: str, request_id: int, *, authoritative: bool) -> bytes:
    """LOOKUP: ask which broker serves a topic."""
    return frame(
        commands.CommandLookupTopic(topic=topic, request_id=request_id, authoritative=authoritative)
    )


def open_producer(
    topic: str,
    producer_id: int,
    request_id: int,
    schema: Schema | None = None,
    properties: Mapping[str, str] | None = None,
) -> bytes:
    """PRODUCER: open a producer on a topic, with a schema if one is given."""
    return frame(
        commands.CommandProducer(
            topic=topic,
            producer_id=producer_id,
            request_id=request_id,
            metadata=[
                raw.KeyValue(key=key, value=value) for key, value in (properties or {}).items()
            ],
            schema=None if schema is None else raw_schema(schema),
        )
    )


def send(producer_id: int, sequence_id: int, entry: bytes) -> bytes:
    """SEND: publish one entry."""
    return frame(commands.CommandSend(producer_id=producer_id, sequence_id=sequence_id), entry)


def read_from_start(topic: str, consumer_id: int, request_id: int, subscription: str) -> bytes:
    """SUBSCRIBE as a reader does: from a topic's first message on, not durable."""
    return frame(
        commands.CommandSubscribe(
            topic=topic,
            subscription=subscription,
            sub_type=commands.CommandSubscribe.Exclusive,
            consumer_id=consumer_id,
            request_id=request_id,
            durable=False,
            read_compacted=topic.startswith("persistent://"),
            initial_position=commands.CommandSubscribe.Earliest,
            start_message_id=raw.MessageIdData(ledger_id=_EARLIEST, entry_id=_EARLIEST),
        )
    )


def subscribe_durably(topic: str, consumer_id: int, request_id: int, subscription: str) -> bytes:
    """SUBSCRIBE: a durable Shared subscription that begins at a topic's first message."""
    return frame(
        commands.CommandSubscribe(
            topic=topic,
            subscription=subscription,
            sub_type=commands.CommandSubscribe.Shared,
            consumer_id=consumer_id,
            request_id=request_id,
            durable=True,
            initial_position=commands.CommandSubscribe.Earliest,
        )
    )


def close_consumer(consumer_id: int, request_id: int) -> bytes:
    """CLOSE_CONSUMER; the subscription stays."""
    return frame(commands.CommandCloseConsumer(consumer_id=consumer_id, request_id=request_id))


def permit(consumer_id: int, messages: int) -> bytes:
    """FLOW: permit the broker to send this many messages."""
    return frame(commands.CommandFlow(consumer_id=consumer_id, message_permits=messages))


def last_message_id(consumer_id: int, request_id: int) -> bytes:
    """GET_LAST_MESSAGE_ID: ask for the id of the topic's last message."""
    return frame(commands.CommandGetLastMessageId(consumer_id=consumer_id, request_id=request_id))


def frames_in(buffer: bytearray) -> Iterator[tuple[BaseCommand, bytes]]:
    """Remove the complete frames from ``buffer``; yields each command with its entry."""
    while len(buffer) >= _SIZES.size:
        total, size = _SIZES.unpack_from(buffer)
        if len(buffer) < _TOTAL_SIZE + total:
            return
        body_end = _SIZES.size + size
        command = BaseCommand.FromString(bytes(buffer[_SIZES.size : body_end]))
        entry = bytes(buffer[body_end : _TOTAL_SIZE + total])
        del buffer[: _TOTAL_SIZE + total]
        yield command, entry


def cut_frames(data: bytes) -> Iterator[tuple[BaseCommand, bytes]]:
    """The complete frames in ``data``: yields each one's command and all of its bytes."""
    begin = 0
    while begin < len(data):
        total, size = _SIZES.unpack_from(data, begin)
        body, end = begin + _SIZES.size, begin + _TOTAL_SIZE + total
        yield BaseCommand.FromString(data[body : body + size]), data[begin:end]
        begin = end
