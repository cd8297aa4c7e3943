"""The subscriptions of a topic: list, create, delete, skip messages, reset the cursor."""

import contextlib
from collections.abc import Iterator, Sequence
from http import HTTPStatus

from aiohttp import web

from counterpoise.admin import access, errors, route
from counterpoise.admin.many import ask_each
from counterpoise.admin.redirect import require_topic_owner
from counterpoise.admin.request import answer, body_of, broker_of, flag, number_of
from counterpoise.admin.rest.topics import (
    TOPIC,
    partition_count,
    path_of,
    require_loaded,
    topic_in_namespace,
)
from counterpoise.admin.shapes import FLAG, INT64, Json, Shape, map_of, object_of, text, whole
from counterpoise.broker.face import (
    BrokerError,
    InitialPosition,
    PersistentTopic,
    Subscription,
    batch_from,
)
from counterpoise.names.position import Position
from counterpoise.names.topic import TopicName

SUBSCRIPTION = f"{TOPIC}/subscription/{{subscription}}"
_ID = {
    "ledgerId": whole(INT64),
    "entryId": whole(INT64),
    "partitionIndex": whole(),
    "batchIndex": whole(),
    **dict.fromkeys(("excluded", "isExcluded"), FLAG),
    "properties": map_of(text()),
}
MESSAGE_ID = Shape(object_of(_ID, required=("ledgerId", "entryId")))
START = Shape({**object_of(_ID), "type": ["object", "string", "null"]})
"""Where a new subscription starts: a message id (``ResetCursorData``) or a word."""


routes = route.Routes()


@routes.get(f"{TOPIC}/subscriptions", access.topic("GET_SUBSCRIPTIONS"))
async def names(request: web.Request) -> web.Response:
    """The names of subscriptions of a topic, or of all partitions; those of readers, too."""
    topic = await topic_in_namespace(request)
    partitions = await partitions_of(request, topic)
    if partitions:
        answers = await ask_each(
            request, "GET", [f"{path_of(each)}/subscriptions" for each in partitions]
        )
        return answer(sorted({name for each in answers for name in each}))
    loaded = await require_loaded(request, topic)
    return answer(sorted(loaded.subscriptions))


@routes.put(SUBSCRIPTION, access.topic("SUBSCRIBE"), START)
async def create(request: web.Request) -> None:
    """Create a subscription; the body may hold the message id where it starts (default: the end).

    A topic that does not exist is created, as for a consumer, if policies allow automatic creation.
    """
    topic, name = await topic_in_namespace(request), request.match_info["subscription"]
    start, broker = body_of(request), broker_of(request)
    if not topic.is_persistent:
        raise errors.bad_request(
            "Create subscription on non-persistent topic can only be done through client"
        )
    with _refusing_missing_topic():
        await broker.catalog.partitions(topic)
    if await on_partitions(request, topic, body=start, unless_all=HTTPStatus.CONFLICT):
        return
    await require_topic_owner(request, topic)
    with _refusing_missing_topic():
        loaded = await broker.topics.get(topic, create=True)
    try:
        loaded.rules.admit_name(name)
    except BrokerError as error:
        raise errors.bad_request(str(error)) from None
    if name in loaded.subscriptions:
        raise errors.conflict("Subscription already exists for topic")
    properties = start.get("properties") if isinstance(start, dict) else None
    await require_stored(loaded).create_subscription(name, _start_of(start), properties)


@contextlib.contextmanager
def _refusing_missing_topic() -> Iterator[None]:
    """Answer 412 for a topic that does not exist and may not be created automatically."""
    try:
        yield
    except BrokerError as error:
        if error.code.name != "TopicNotFound":
            raise
        raise errors.precondition_failed(
            "Topic does not exist and cannot be auto-created"
        ) from None


@routes.delete(SUBSCRIPTION, access.topic("UNSUBSCRIBE"), query=route.FORCE)
async def delete(request: web.Request) -> None:
    """Remove a subscription; 412 while consumers are attached, unless ``force=true``."""
    topic = await topic_in_namespace(request)
    if await on_partitions(request, topic):
        return
    found = await require_subscription(request, topic)
    if found.consumers and not flag(request, "force"):
        raise errors.precondition_failed("Subscription has active connected consumers")
    await found.unsubscribe(None, force=True)


@routes.post(f"{SUBSCRIPTION}/skip/{{count}}", access.topic("SKIP"))
async def skip(request: web.Request) -> None:
    """Acknowledge the next ``count`` entries of the backlog."""
    topic = await topic_in_namespace(request)
    count = number_of(request, "count")
    await refuse_partitioned(request, topic, "Skip messages on a partitioned topic is not allowed")
    (await require_subscription(request, topic)).skip(count)


@routes.post(f"{SUBSCRIPTION}/skip_all", access.topic("SKIP"))
async def skip_all(request: web.Request) -> None:
    """Acknowledge all messages of the subscription's backlog."""
    topic = await topic_in_namespace(request)
    if await on_partitions(request, topic):
        return
    (await require_subscription(request, topic)).skip(None)


@routes.post(f"{SUBSCRIPTION}/resetcursor/{{timestamp}}", access.topic("RESET_CURSOR"))
async def reset_to_time(request: web.Request) -> None:
    """Reset the subscription to the first message published at or after a time (milliseconds)."""
    topic = await topic_in_namespace(request)
    at = number_of(request, "timestamp")
    if await on_partitions(request, topic):
        return
    await (await require_subscription(request, topic)).seek_to_time(at)


@routes.post(f"{SUBSCRIPTION}/resetcursor", access.topic("RESET_CURSOR"), MESSAGE_ID)
async def reset_to_position(request: web.Request) -> None:
    """Reset the subscription to a message id, or to the message after it with ``excluded``, as
    Java's client calls it, or ``isExcluded``.
    """
    topic, requested = await topic_in_namespace(request), body_of(request)
    await refuse_partitioned(
        request, topic, "Reset-cursor at position is not allowed for partitioned-topic"
    )
    found = await require_subscription(request, topic)
    await found.seek_to(*await position_in(found, requested))


async def position_in(
    subscription: Subscription, requested: Json
) -> tuple[Position, Sequence[int]]:
    """The position that a message id in a body names, or the next one with ``excluded``.

    For a message within a batch it is the batch's position, with the batch's remaining messages as
    a bit set of 64-bit words.
    """
    at = Position(int(requested["ledgerId"]), int(requested["entryId"]))
    excluded = bool(requested.get("excluded") or requested.get("isExcluded"))
    number = requested.get("batchIndex")
    first = -1 if number is None or number < 0 else number + excluded
    if first > 0 and (left := await batch_from(subscription.log, at, first)):
        return at, left
    return Position(at.ledger_id, at.entry_id + excluded), ()


async def require_subscription(request: web.Request, topic: TopicName) -> Subscription:
    """The subscription in the path; 404 if it does not exist, 307 if another broker owns the
    topic.
    """
    name = request.match_info["subscription"]
    found = (await require_loaded(request, topic)).subscriptions.get(name)
    if found is None:
        raise errors.not_found(f"Subscription {name} not found for topic {topic}")
    return found


async def storing_topic(request: web.Request, what: str) -> TopicName:
    """The topic in the path, as `topic_in_namespace`; refused if it stores no messages.

    The refusal is 405, or 404 if the topic does not exist.
    """
    topic = await topic_in_namespace(request)
    if not topic.is_persistent:
        await require_loaded(request, topic)
        raise errors.not_allowed(f"{what} on a non-persistent topic is not allowed")
    return topic


async def stored(request: web.Request, topic: TopicName) -> PersistentTopic:
    """The opened topic; 404 if it does not exist, 307 if another broker owns it."""
    return require_stored(await require_loaded(request, topic))


def require_stored(topic: object) -> PersistentTopic:
    """The topic if it stores its messages; 405 otherwise."""
    if not isinstance(topic, PersistentTopic):
        raise errors.not_allowed("a non-persistent topic keeps no subscriptions")
    return topic


def _start_of(requested: Json) -> InitialPosition | Position:
    """Where a new subscription starts: the beginning, the end or a message id."""
    if requested is None or requested == "latest":
        return InitialPosition.Latest
    if requested == "earliest":
        return InitialPosition.Earliest
    if not isinstance(requested, dict) or requested.get("ledgerId") is None:
        raise errors.bad_request("the body must be a message id")
    entry = requested.get("entryId")
    # Ids beyond both ends, as clients write the earliest and the latest, are taken as the ends.
    return Position(int(requested["ledgerId"]), -1 if entry is None else int(entry))


async def partitions_of(request: web.Request, topic: TopicName) -> list[TopicName]:
    """The partitions of a topic; none if it is not partitioned."""
    count = await partition_count(request, topic)
    return [topic.partition(index) for index in range(count or 0)]


async def refuse_partitioned(request: web.Request, topic: TopicName, why: str) -> None:
    """Raise 405, with ``why`` as its reason, if the topic is partitioned."""
    if await partitions_of(request, topic):
        raise errors.not_allowed(why)


async def on_partitions(
    request: web.Request,
    topic: TopicName,
    tail: str = "",
    body: Json = None,
    unless_all: HTTPStatus | None = None,
) -> bool:
    """Repeat the request on every partition; returns whether the topic is partitioned.

    ``tail``: the path behind the topic; by default the subscription and what follows it.
    ``unless_all``: see `ask_each`.
    """
    partitions = await partitions_of(request, topic)
    tail = tail or f"subscription/{request.rel_url.raw_path_qs.partition('/subscription/')[2]}"
    paths = [f"{path_of(each)}/{tail}" for each in partitions]
    await ask_each(request, request.method, paths, body=body, unless_all=unless_all)
    return bool(partitions)
