"""Encodes every command that a broker sends, except the two frequent ones of `encode_runs`.

Each function returns one whole frame.
"""

import struct
from collections.abc import Iterable

from google.protobuf.message import Message

from counterpoise.wire.errors import ServerError
from counterpoise.wire.proto import commands_pb2 as commands
from counterpoise.wire.proto import values_pb2 as raw
from counterpoise.wire.proto.base_pb2 import BaseCommand
from counterpoise.wire.values import MessageId, Schema

_SIZES = struct.Struct(">II")
_FIELDS = {each.message_type: each for each in BaseCommand.DESCRIPTOR.fields}
_LookupType = commands.CommandLookupTopicResponse.LookupType
#: The request id of a CLOSE_* the client never asked for: -1 in 64 bits.
_UNASKED = (1 << 64) - 1


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


def connected(
    server_version: str, protocol_version: int, max_message_size: int, *, topic_watchers: bool
) -> bytes:
    """CONNECTED: accept a connection, with the feature flags of a 4.0.7 broker."""
    return frame(
        commands.CommandConnected(
            server_version=server_version,
            protocol_version=protocol_version,
            max_message_size=max_message_size,
            feature_flags=raw.FeatureFlags(
                supports_topic_watchers=topic_watchers,
                supports_get_partitioned_metadata_without_auto_creation=True,
                supports_repl_dedup_by_lid_and_eid=True,
            ),
        )
    )


def auth_challenge(
    server_version: str, protocol_version: int, auth_method: str, challenge: bytes
) -> bytes:
    """AUTH_CHALLENGE: ask the client to authenticate again."""
    return frame(
        commands.CommandAuthChallenge(
            server_version=server_version,
            protocol_version=protocol_version,
            challenge=raw.AuthData(auth_method_name=auth_method, auth_data=challenge),
        )
    )


PING = frame(commands.CommandPing())
PONG = frame(commands.CommandPong())


def success(request_id: int) -> bytes:
    """SUCCESS: answer a request that returns nothing."""
    return frame(commands.CommandSuccess(request_id=request_id))


def error(request_id: int, code: ServerError, message: str) -> bytes:
    """ERROR: refuse a request."""
    return frame(commands.CommandError(request_id=request_id, error=code.name, message=message))


def partitions(request_id: int, count: int) -> bytes:
    """Answer PARTITIONED_METADATA; 0 is a topic without partitions."""
    return frame(
        commands.CommandPartitionedTopicMetadataResponse(
            partitions=count,
            request_id=request_id,
            response=commands.CommandPartitionedTopicMetadataResponse.Success,
        )
    )


def partitions_failed(request_id: int, code: ServerError, message: str) -> bytes:
    """Refuse PARTITIONED_METADATA."""
    return frame(
        commands.CommandPartitionedTopicMetadataResponse(
            request_id=request_id,
            response=commands.CommandPartitionedTopicMetadataResponse.Failed,
            error=code.name,
            message=message,
        )
    )


def lookup_connect(
    request_id: int, service_url: str | None, service_url_tls: str | None = None
) -> bytes:
    """The answer to LOOKUP that the client should connect to this broker. Always authoritative."""
    return _lookup(request_id, _LookupType.Connect, service_url, service_url_tls, True)


def lookup_redirect(
    request_id: int,
    service_url: str | None,
    service_url_tls: str | None = None,
    *,
    authoritative: bool,
) -> bytes:
    """The answer to LOOKUP that the client should ask another broker."""
    return _lookup(request_id, _LookupType.Redirect, service_url, service_url_tls, authoritative)


def _lookup(
    request_id: int,
    kind: commands.CommandLookupTopicResponse.LookupType,
    service_url: str | None,
    service_url_tls: str | None,
    authoritative: bool,
) -> bytes:
    return frame(
        commands.CommandLookupTopicResponse(
            response=kind,
            request_id=request_id,
            authoritative=authoritative,
            broker_service_url=service_url,
            broker_service_url_tls=service_url_tls,
        )
    )


def lookup_failed(request_id: int, code: ServerError, message: str) -> bytes:
    """The answer to LOOKUP that refuses it."""
    return frame(
        commands.CommandLookupTopicResponse(
            response=_LookupType.Failed, request_id=request_id, error=code.name, message=message
        )
    )


def topics(
    request_id: int, names: Iterable[str], topics_hash: str, *, filtered: bool, changed: bool
) -> bytes:
    """Answer GET_TOPICS_OF_NAMESPACE with topic names and the hash over them.

    ``filtered``: the broker has applied the client's pattern. ``changed``: the hash differs from
    the client's.
    """
    return frame(
        commands.CommandGetTopicsOfNamespaceResponse(
            request_id=request_id,
            topics=list(names),
            filtered=filtered,
            topics_hash=topics_hash,
            changed=changed,
        )
    )


def watch_started(
    request_id: int, watcher_id: int, names: Iterable[str], topics_hash: str
) -> bytes:
    """Answer WATCH_TOPIC_LIST with the current topic names and the hash over them."""
    return frame(
        commands.CommandWatchTopicListSuccess(
            request_id=request_id,
            watcher_id=watcher_id,
            topic=list(names),
            topics_hash=topics_hash,
        )
    )


def watch_update(
    watcher_id: int, new: Iterable[str], deleted: Iterable[str], topics_hash: str
) -> bytes:
    """WATCH_TOPIC_UPDATE: the topics created and deleted since the last one, and the new hash."""
    return frame(
        commands.CommandWatchTopicUpdate(
            watcher_id=watcher_id,
            new_topics=list(new),
            deleted_topics=list(deleted),
            topics_hash=topics_hash,
        )
    )
