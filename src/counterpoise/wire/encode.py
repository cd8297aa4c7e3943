"""Answers to bytes: every command a broker sends, except the hot two of `encode_runs`.

Each function returns one whole frame.
"""

import struct
from collections.abc import Iterable

from counterpoise.wire.errors import ServerError
from counterpoise.wire.proto import commands_pb2 as commands
from counterpoise.wire.proto import values_pb2 as raw
from counterpoise.wire.proto.base_pb2 import BaseCommand
from counterpoise.wire.values import MessageId, Schema

_SIZES = struct.Struct(">II")
_Type = BaseCommand.Type
_LookupType = commands.CommandLookupTopicResponse.LookupType
#: The request id of a CLOSE_* the client never asked for: -1 in 64 bits.
_UNASKED = (1 << 64) - 1


def frame(command: BaseCommand) -> bytes:
    """Wrap a command; nothing follows it in the frame."""
    body = command.SerializeToString()
    return _SIZES.pack(len(body) + 4, len(body)) + body


def _position(message_id: MessageId) -> raw.MessageIdData:
    data = raw.MessageIdData(
        ledger_id=message_id.ledger_id & _UNASKED,
        entry_id=message_id.entry_id & _UNASKED,
        ack_set=message_id.ack_set,
    )
    if message_id.partition >= 0:
        data.partition = message_id.partition
    if message_id.batch_index >= 0:
        data.batch_index = message_id.batch_index
    if message_id.batch_size > 0:
        data.batch_size = message_id.batch_size
    return data


def raw_schema(schema: Schema) -> raw.Schema:
    """A schema as commands carry it."""
    data = raw.Schema(
        name=schema.name,
        schema_data=schema.data,
        type=schema.type,  # type: ignore[arg-type]
    )
    for key, value in schema.properties:
        data.properties.add(key=key, value=value)
    return data


def connected(
    server_version: str, protocol_version: int, max_message_size: int, *, topic_watchers: bool
) -> bytes:
    """Accept a connection; the flags are those a 4.0.7 broker sets."""
    return frame(
        BaseCommand(
            type=_Type.CONNECTED,
            connected=commands.CommandConnected(
                server_version=server_version,
                protocol_version=protocol_version,
                max_message_size=max_message_size,
                feature_flags=raw.FeatureFlags(
                    supports_topic_watchers=topic_watchers,
                    supports_get_partitioned_metadata_without_auto_creation=True,
                    supports_repl_dedup_by_lid_and_eid=True,
                ),
            ),
        )
    )


def auth_challenge(
    server_version: str, protocol_version: int, auth_method: str, challenge: bytes
) -> bytes:
    """Ask for newer credentials."""
    return frame(
        BaseCommand(
            type=_Type.AUTH_CHALLENGE,
            auth_challenge=commands.CommandAuthChallenge(
                server_version=server_version,
                protocol_version=protocol_version,
                challenge=raw.AuthData(auth_method_name=auth_method, auth_data=challenge),
            ),
        )
    )


PING = frame(BaseCommand(type=_Type.PING, ping=commands.CommandPing()))
PONG = frame(BaseCommand(type=_Type.PONG, pong=commands.CommandPong()))


def success(request_id: int) -> bytes:
    """Answer a request that returns nothing."""
    return frame(
        BaseCommand(type=_Type.SUCCESS, success=commands.CommandSuccess(request_id=request_id))
    )


def error(request_id: int, code: ServerError, message: str) -> bytes:
    """Refuse a request."""
    return frame(
        BaseCommand(
            type=_Type.ERROR,
            error=commands.CommandError(
                request_id=request_id,
                error=code.value,  # type: ignore[arg-type]
                message=message,
            ),
        )
    )


def partitions(request_id: int, count: int) -> bytes:
    """Answer PARTITIONED_METADATA; 0 is a topic without partitions."""
    return frame(
        BaseCommand(
            type=_Type.PARTITIONED_METADATA_RESPONSE,
            partition_metadata_response=commands.CommandPartitionedTopicMetadataResponse(
                partitions=count,
                request_id=request_id,
                response=commands.CommandPartitionedTopicMetadataResponse.Success,
            ),
        )
    )


def partitions_failed(request_id: int, code: ServerError, message: str) -> bytes:
    """Refuse PARTITIONED_METADATA."""
    return frame(
        BaseCommand(
            type=_Type.PARTITIONED_METADATA_RESPONSE,
            partition_metadata_response=commands.CommandPartitionedTopicMetadataResponse(
                request_id=request_id,
                response=commands.CommandPartitionedTopicMetadataResponse.Failed,
                error=code.value,  # type: ignore[arg-type]
                message=message,
            ),
        )
    )


def lookup_connect(
    request_id: int, service_url: str | None, service_url_tls: str | None = None
) -> bytes:
    """Answer LOOKUP: connect there. Always authoritative."""
    return _lookup(request_id, _LookupType.Connect, service_url, service_url_tls, True)


def lookup_redirect(
    request_id: int,
    service_url: str | None,
    service_url_tls: str | None = None,
    *,
    authoritative: bool,
) -> bytes:
    """Answer LOOKUP: ask there."""
    return _lookup(request_id, _LookupType.Redirect, service_url, service_url_tls, authoritative)


def _lookup(
    request_id: int,
    kind: commands.CommandLookupTopicResponse.LookupType,
    service_url: str | None,
    service_url_tls: str | None,
    authoritative: bool,
) -> bytes:
    response = commands.CommandLookupTopicResponse(
        response=kind, request_id=request_id, authoritative=authoritative
    )
    if service_url is not None:
        response.broker_service_url = service_url
    if service_url_tls is not None:
        response.broker_service_url_tls = service_url_tls
    return frame(BaseCommand(type=_Type.LOOKUP_RESPONSE, lookup_topic_response=response))


def lookup_failed(request_id: int, code: ServerError, message: str) -> bytes:
    """Refuse LOOKUP."""
    return frame(
        BaseCommand(
            type=_Type.LOOKUP_RESPONSE,
            lookup_topic_response=commands.CommandLookupTopicResponse(
                response=_LookupType.Failed,
                request_id=request_id,
                error=code.value,  # type: ignore[arg-type]
                message=message,
            ),
        )
    )


def topics(
    request_id: int, names: Iterable[str], topics_hash: str, *, filtered: bool, changed: bool
) -> bytes:
    """Answer GET_TOPICS_OF_NAMESPACE; ``filtered``: the pattern was applied here."""
    return frame(
        BaseCommand(
            type=_Type.GET_TOPICS_OF_NAMESPACE_RESPONSE,
            get_topics_of_namespace_response=commands.CommandGetTopicsOfNamespaceResponse(
                request_id=request_id,
                topics=list(names),
                filtered=filtered,
                topics_hash=topics_hash,
                changed=changed,
            ),
        )
    )


def watch_started(
    request_id: int, watcher_id: int, names: Iterable[str], topics_hash: str
) -> bytes:
    """Answer WATCH_TOPIC_LIST with the topics of this moment."""
    return frame(
        BaseCommand(
            type=_Type.WATCH_TOPIC_LIST_SUCCESS,
            watch_topic_list_success=commands.CommandWatchTopicListSuccess(
                request_id=request_id,
                watcher_id=watcher_id,
                topic=list(names),
                topics_hash=topics_hash,
            ),
        )
    )


def watch_update(
    watcher_id: int, new: Iterable[str], deleted: Iterable[str], topics_hash: str
) -> bytes:
    """A topic list watcher's update: the topics that were created and deleted."""
    return frame(
        BaseCommand(
            type=_Type.WATCH_TOPIC_UPDATE,
            watch_topic_update=commands.CommandWatchTopicUpdate(
                watcher_id=watcher_id,
                new_topics=list(new),
                deleted_topics=list(deleted),
                topics_hash=topics_hash,
            ),
        )
    )
