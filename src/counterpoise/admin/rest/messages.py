"""The stored messages of a topic: peek, examine, read, expire, truncate."""

import json
import time
import zlib
from base64 import b64encode
from collections.abc import Iterable
from http import HTTPStatus

from aiohttp import web

from counterpoise.admin import access, route
from counterpoise.admin.errors import RestError, conflict, not_found, precondition_failed
from counterpoise.admin.parameters import whole_number
from counterpoise.admin.request import answer, body_of, number_of
from counterpoise.admin.rest.subscriptions import (
    MESSAGE_ID,
    SUBSCRIPTION,
    on_partitions,
    position_in,
    refuse_partitioned,
    require_subscription,
    stored,
    storing_topic,
)
from counterpoise.admin.rest.topics import TOPIC, message_id_json, topic_in_namespace
from counterpoise.admin.shapes import text
from counterpoise.admin.subscription_json import timestamp
from counterpoise.broker import face
from counterpoise.names.topic import TopicName

_EXAMINE = {"initialPosition": text("earliest", "latest"), "messagePosition": text()}

UNPACKED_MAX = 64 * 1024 * 1024
"""The most bytes to which a message is decompressed, whatever size its metadata states."""


routes = route.Routes()


@routes.get(f"{SUBSCRIPTION}/position/{{messagePosition}}", access.topic("PEEK_MESSAGES"))
async def peek(request: web.Request) -> web.Response:
    """One entry of a subscription's backlog, counted from 1; nothing is acknowledged.

    A subscription that does not exist is created at the oldest message, as in Pulsar.
    """
    number, name = number_of(request, "messagePosition"), request.match_info["subscription"]
    topic = await storing_topic(request, "Peek messages")
    await refuse_partitioned(request, topic, "Peek messages on a partitioned topic is not allowed")
    loaded = await stored(request, topic)
    if number < 1:
        raise precondition_failed(f"messagePosition={number}: the first message is 1")
    found = loaded.subscriptions.get(name)
    if found is None:
        found = await loaded.create_subscription(name, face.InitialPosition.Earliest)
    at = found.backlog_entry(number)
    return _message_answer(loaded, await face.stored_message(found.log, at))


@routes.get(f"{TOPIC}/examinemessage", access.topic("PEEK_MESSAGES"), _EXAMINE)
async def examine(request: web.Request) -> web.Response:
    """One entry of a topic, counted from its oldest or its newest."""
    topic = await _stored_topic(
        request,
        "Examine messages",
        "Examine messages on a partitioned topic is not allowed, please try examine message on "
        "specific topic partition",
    )
    number = whole_number(request.query.get("messagePosition") or "1")
    if number < 1:
        raise precondition_failed(f"messagePosition={number}: the first message is 1")
    oldest = request.query.get("initialPosition", "latest") == "earliest"
    log = topic.log
    if log.begin == log.end:
        raise precondition_failed("Could not examine messages due to the total message is zero")
    at = log.begin + number - 1 if oldest else log.end - number
    return _message_answer(topic, await face.stored_message(log, at))


@routes.get(f"{TOPIC}/ledger/{{ledgerId}}/entry/{{entryId}}", access.topic("PEEK_MESSAGES"))
async def by_id(request: web.Request) -> web.Response:
    """The entry with this ledger id and entry id."""
    topic = await _stored_topic(
        request, "GetMessageById", "GetMessageById is not allowed on partitioned-topic"
    )
    at = number_of(request, "ledgerId"), number_of(request, "entryId")
    found = await face.stored_message(topic.log, topic.log.index(at))
    if found is None or found.position != at:
        raise not_found("Message id not found")
    return _message_answer(topic, found)


@routes.get(f"{TOPIC}/messageid/{{timestamp}}", access.topic("PEEK_MESSAGES"))
async def id_at(request: web.Request) -> web.Response:
    """The id of the first message published at or after a time (milliseconds)."""
    what = "Get message ID by timestamp"
    topic = await _stored_topic(
        request,
        what,
        f"{what} on a partitioned topic is not allowed, please try do it on specific topic "
        "partition",
    )
    index = await face.first_published_at(topic.log, number_of(request, "timestamp"))
    return answer(message_id_json(topic.name, topic.log.position(index)))


@routes.post(
    f"{SUBSCRIPTION}/expireMessages/{{expireTimeInSeconds}}", access.topic("EXPIRE_MESSAGES")
)
async def expire(request: web.Request) -> None:
    """Acknowledge the messages of a subscription that are older than ``expireTimeInSeconds``."""
    topic = await storing_topic(request, "Expire messages")
    age_s = number_of(request, "expireTimeInSeconds")
    if not await on_partitions(request, topic):
        await _expire([await require_subscription(request, topic)], topic, age_s)


@routes.post(f"{SUBSCRIPTION}/expireMessages", access.topic("EXPIRE_MESSAGES"), MESSAGE_ID)
async def expire_to_position(request: web.Request) -> None:
    """Acknowledge the messages of a subscription up to a message id."""
    topic, requested = await storing_topic(request, "Expire messages"), body_of(request)
    if requested.get("partitionIndex", -1) != topic.partition_index:
        raise precondition_failed(
            "Invalid parameter for expire message by position, partition index of passed in "
            "message position doesn't match partition index for the topic"
        )
    await refuse_partitioned(
        request, topic, "Expire message at position is not supported for partitioned-topic"
    )
    found = await require_subscription(request, topic)
    position, _ = await position_in(found, requested)
    if position > face.last_message_id(found.log):
        raise conflict(
            f"Expire message by position not issued on topic {topic} for subscription "
            f"{found.name} due to ongoing message expiration not finished or subscription almost "
            "catch up."
        )
    found.expire_through(position)


@routes.post(
    f"{TOPIC}/all_subscription/expireMessages/{{expireTimeInSeconds}}",
    access.topic("EXPIRE_MESSAGES"),
)
async def expire_for_all(request: web.Request) -> None:
    """Acknowledge, for every subscription, the messages that are older than
    ``expireTimeInSeconds``.
    """
    topic = await storing_topic(request, "Expire messages for all subscriptions")
    age_s = number_of(request, "expireTimeInSeconds")
    tail = f"all_subscription/expireMessages/{age_s}"
    if not await on_partitions(request, topic, tail):
        found = (await stored(request, topic)).subscriptions
        await _expire(
            [each for each in found.values() if each.name != face.COMPACTION], topic, age_s
        )


@routes.delete(f"{TOPIC}/truncate", access.TENANT_ADMIN_AFTER_LOOKUP)
async def truncate(request: web.Request) -> None:
    """Acknowledge all messages for every subscription, and delete them, whatever retains them."""
    topic = await topic_in_namespace(request)
    if not topic.is_persistent:
        raise precondition_failed("unsupport truncate")
    if not await on_partitions(request, topic, "truncate"):
        await (await stored(request, topic)).truncate()


async def _stored_topic(
    request: web.Request, what: str, if_partitioned: str
) -> face.PersistentTopic:
    topic = await storing_topic(request, what)
    await refuse_partitioned(request, topic, if_partitioned)
    return await stored(request, topic)


async def _expire(found: Iterable[face.Subscription], topic: TopicName, age_s: int) -> None:
    before = int(time.time() * 1000) - age_s * 1000
    refused = [each.name for each in found if not await each.expire(before)]
    if refused:
        raise conflict(
            f"Expire message by timestamp not issued on topic {topic} for subscription "
            f"{refused[0]} due to ongoing message expiration not finished or subscription "
            "almost catch  up. If it's performed on a partitioned topic operation might succeeded "
            "on other partitions, please check stats of individual partition."
        )


def _message_answer(topic: face.PersistentTopic, found: face.StoredMessage | None) -> web.Response:
    """The HTTP answer with an entry: its payload is the body, its metadata are headers, as Pulsar's
    client reads them.

    Headers hold ASCII only, so other characters are escaped as in JSON.
    """
    if found is None:
        raise not_found("Message not found")
    metadata = found.metadata
    payload = _plain(found)
    headers = {
        "X-Pulsar-Message-ID": str(found.position),
        "X-Pulsar-publish-time": timestamp(metadata.publish_time / 1000),
        "X-Pulsar-sequence-id": str(metadata.sequence_id),
        "X-Pulsar-producer-name": json.dumps(_text(metadata.producer_name))[1:-1],
        "X-Pulsar-PROPERTY": json.dumps(
            {_text(each.key): _text(each.value) for each in metadata.properties}
        ),
    }
    if (transactions := topic.transactions) is not None:
        # By these headers Java's client leaves out markers, and messages of transactions that are
        # not committed.
        is_open = topic.log.index(found.position) >= transactions.stable_end
        headers["X-Pulsar-txn-uncommitted"] = str(is_open).lower()
        if metadata.HasField("marker_type"):
            headers["X-Pulsar-marker-type"] = str(metadata.marker_type)
        if metadata.HasField("txnid_most_bits"):
            id_ = face.TransactionId(metadata.txnid_most_bits, metadata.txnid_least_bits)
            headers["X-Pulsar-txn-aborted"] = str(transactions.buffer.is_aborted(id_)).lower()
    if metadata.HasField("num_messages_in_batch"):
        headers["X-Pulsar-num-batch-message"] = str(metadata.num_messages_in_batch)
        headers["X-Pulsar-batch-size"] = str(len(payload))
    if metadata.event_time:
        headers["X-Pulsar-event-time"] = timestamp(metadata.event_time / 1000)
    if metadata.null_value:
        headers["X-Pulsar-null-value"] = "true"
    if metadata.HasField("partition_key"):
        headers["X-Pulsar-partition-key"] = json.dumps(_text(metadata.partition_key))[1:-1]
        encoded = str(metadata.partition_key_b64_encoded).lower()
        headers["X-Pulsar-partition-key-b64-encoded"] = encoded
    made = web.Response(body=payload, headers=headers, content_type="application/octet-stream")
    if metadata.encryption_keys:
        made.headers["X-Pulsar-Is-Encrypted"] = "true"
        made.headers["X-Pulsar-compression"] = found.compression
        made.headers["X-Pulsar-uncompressed-size"] = str(metadata.uncompressed_size)
        made.headers["X-Pulsar-encryption-algo"] = _text(metadata.encryption_algo)
        for key in metadata.encryption_keys:
            encoded = b64encode(key.SerializeToString()).decode()
            made.headers.add("X-Pulsar-Base64-encryption-keys", encoded)
        encoded = b64encode(metadata.encryption_param).decode()
        made.headers["X-Pulsar-Base64-encryption-param"] = encoded
    return made


def _text(value: str | bytes) -> str:
    """A text of the metadata; where it is not UTF-8, protobuf returns bytes."""
    return value if isinstance(value, str) else value.decode(errors="replace")


def _plain(found: face.StoredMessage) -> bytes:
    if found.compression == "NONE" or found.metadata.encryption_keys:
        return found.payload
    size = found.metadata.uncompressed_size
    try:
        if found.compression == "ZLIB":
            return zlib.decompressobj().decompress(found.payload, min(max(size, 1), UNPACKED_MAX))
    except zlib.error:
        raise conflict("the message cannot be decompressed") from None
    raise RestError(
        HTTPStatus.NOT_IMPLEMENTED,
        f"the message is compressed with {found.compression}, which this broker does not undo; "
        "consume it",
    )
