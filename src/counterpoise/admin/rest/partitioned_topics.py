"""Partitioned topics: create, add partitions, list, delete, and their partitions' statistics."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus

from aiohttp import web

from counterpoise.admin import access, errors, route
from counterpoise.admin.large_json import encoded
from counterpoise.admin.many import try_all, try_each
from counterpoise.admin.packed import Packed, answer_with
from counterpoise.admin.redirect import ask, ask_if_found, require_topic_owner
from counterpoise.admin.request import answer, body_of, broker_of, flag, namespace_of, topic_of
from counterpoise.admin.rest.namespaces import require_found, require_namespace
from counterpoise.admin.rest.topics import (
    EXCLUDED,
    IN_NAMESPACE,
    TOPIC,
    partition_count,
    path_of,
    refuse_pending_ack_log,
    require_exists,
    require_loaded,
    require_room,
    stats_json,
    subscription_path,
)
from counterpoise.admin.shapes import ANYTHING, FLAG, Json, Shape
from counterpoise.admin.shared_answers import PARTITIONS_SHARED
from counterpoise.admin.topic_json import internal_stats_json, sum_of_stats
from counterpoise.broker.face import PARTITIONS_MAX, BadVersion, BrokerError, NotFound, Topic
from counterpoise.names.topic import TopicName

PARTITIONS = Shape(ANYTHING)
"""The body: a number, or ``PartitionedTopicMetadata``; anything else gets Pulsar's 406."""
CREATED_AT_ONCE = 64
UNPROCESSABLE = HTTPStatus.UNPROCESSABLE_ENTITY


routes = route.Routes()


@routes.get(f"{IN_NAMESPACE}/partitioned", access.namespace("GET_TOPICS"))
async def names(request: web.Request) -> web.Response:
    """The partitioned topics of a namespace."""
    namespace = namespace_of(request)
    await require_namespace(request, namespace)
    policies = broker_of(request).policies
    found = await policies.partitioned_topics(namespace, request.match_info["domain"])
    return answer([str(each) for each in found])


@routes.get(f"{TOPIC}/partitions", access.LOOKUP, {"checkAllowAutoCreation": FLAG})
async def get(request: web.Request) -> web.Response:
    """How many partitions a topic has; 0 for an ordinary one.

    ``checkAllowAutoCreation=true`` is what a client's HTTP lookup sends: it may create the topic.
    """
    topic, broker = topic_of(request), broker_of(request)
    found = await broker.policies.partitioned_topic(topic).get()
    if found is not None:
        return answer(await _metadata(request, topic))
    create = flag(request, "checkAllowAutoCreation")
    if not create:
        await require_found(request, topic.namespace_name)
        await require_exists(request, topic)
    count = await broker.catalog.partitions(topic, auto_create=create)
    return answer({"partitions": count, "deleted": False})


@routes.put(f"{TOPIC}/partitions", access.TOPIC_POLICY, PARTITIONS, {"createLocalTopicOnly": FLAG})
async def create(request: web.Request) -> None:
    """Make a partitioned topic and its partitions."""
    topic, broker = _whole_topic_of(request), broker_of(request)
    refuse_pending_ack_log(topic)
    await require_namespace(request, topic.namespace_name)
    requested = body_of(request)
    metadata = _properties(requested.get("properties")) if isinstance(requested, dict) else None
    count = _partitions(requested.get("partitions") if isinstance(requested, dict) else requested)
    exists = topic.is_persistent and await broker.policies.topic_exists(topic)
    if exists or await broker.policies.partitioned_topic(topic).get() is not None:
        raise errors.conflict("This topic already exists")
    require_partitions(request, count)
    if topic.is_persistent:
        await require_room(request, topic, count)
    with errors.refused(BadVersion, errors.conflict("This topic already exists")):
        await broker.policies.create_partitioned_topic(topic, count, metadata)
    await _create_partitions(request, topic, count)


@routes.post(f"{TOPIC}/partitions", access.TOPIC_POLICY, PARTITIONS)
async def update(request: web.Request) -> None:
    """Give a partitioned topic more partitions."""
    topic, count = _whole_topic_of(request), _partitions(body_of(request))
    require_partitions(request, count)
    now = await partition_count(request, topic)
    if now is None:
        raise _not_partitioned(topic)
    if count < now:
        raise errors.RestError(
            UNPROCESSABLE,
            f"Desired partitions {count} can't be less than the current partitions {now}.",
        )
    with errors.refused(NotFound, _not_partitioned(topic)):
        node = broker_of(request).policies.partitioned_topic(topic)
        await node.change(lambda now: {**now, "partitions": count})
    await _create_partitions(request, topic, count)
    if topic.is_persistent:
        await _copy_subscriptions(request, topic, count)


@routes.delete(f"{TOPIC}/partitions", access.namespace("DELETE_TOPIC"), query=route.FORCE)
async def delete(request: web.Request) -> None:
    """Remove a partitioned topic with its partitions; 412 if one of them has clients or
    subscriptions, unless ``force=true``.
    """
    topic = _whole_topic_of(request)
    policies, count = broker_of(request).policies, await partition_count(request, topic)
    if count is None:
        if topic.is_persistent:
            exists = await policies.topic_exists(topic)
        else:
            await require_topic_owner(request, topic)
            exists = topic in broker_of(request).topics.loaded
        if exists:
            raise errors.conflict(
                f"{topic} is a non-partitioned topic. Instead of calling delete-partitioned-topic "
                "please call delete."
            )
        raise errors.not_found(f"Topic {topic} not found.")
    force = str(flag(request, "force")).lower()
    for index in range(count):
        path = f"{path_of(topic.partition(index))}?force={force}"
        try:
            await ask_if_found(request, "DELETE", path)
        except errors.RestError as error:
            if error.status != HTTPStatus.PRECONDITION_FAILED:
                raise
            busy = f"Topic has active producers/subscriptions: {error.reason}"
            raise errors.precondition_failed(busy) from None
    await broker_of(request).schemas.delete(topic)
    with errors.refused(NotFound, errors.not_found(f"Partitioned Topic not found: {topic}")):
        await policies.partitioned_topic(topic).delete()
    await policies.topic_policies(topic).delete(missing_ok=True)


@routes.get(
    f"{TOPIC}/partitioned-stats", access.topic("GET_STATS"), {"perPartition": FLAG, **EXCLUDED}
)
async def stats(request: web.Request) -> web.StreamResponse:
    """The statistics of a partitioned topic: the sum over its partitions and, unless
    ``perPartition=false``, those of each.
    """
    topic = _whole_topic_of(request)
    left_out = "&".join(f"{name}=true" for name in EXCLUDED if flag(request, name))
    each_of_them = flag(request, "perPartition", default=True)

    async def make() -> Packed:
        path = f"stats?{left_out}" if left_out else "stats"
        found = await _of_partitions(request, topic, path, partial(stats_json, request))
        return await encoded(
            {
                **await sum_of_stats(list(found.values())),
                "metadata": await _metadata(request, topic),
                "partitions": found if each_of_them else {},
            }
        )

    what = f"stats of {'each of ' if each_of_them else ''}the partitions of {topic} {left_out}"
    return answer_with(await request.app[PARTITIONS_SHARED].get(what, make))


@routes.get(f"{TOPIC}/partitioned-internalStats", access.topic("GET_STATS"))
async def internal_stats(request: web.Request) -> web.StreamResponse:
    """The ledgers and cursors of every partition."""
    topic = topic_of(request)

    async def make() -> Packed:
        found = await _of_partitions(request, topic, "internalStats", internal_stats_json)
        return await encoded({"metadata": await _metadata(request, topic), "partitions": found})

    what = f"internal stats of the partitions of {topic}"
    return answer_with(await request.app[PARTITIONS_SHARED].get(what, make))


@routes.post(
    f"{TOPIC}/createMissedPartitions", access.namespace("CREATE_TOPIC", after=access.LOOKUP)
)
async def create_missed(request: web.Request) -> None:
    """Create the partitions of a partitioned topic that are missing."""
    topic = _whole_topic_of(request)
    await require_found(request, topic.namespace_name)
    count = await partition_count(request, topic)
    if count is None:
        raise errors.not_found(f"Topic {topic} does not exist")
    await _create_partitions(request, topic, count)


async def _copy_subscriptions(request: web.Request, topic: TopicName, count: int) -> None:
    """Create the durable subscriptions of the first partition on all others, at the oldest
    message.
    """
    first, *others = (path_of(topic.partition(index)) for index in range(count))
    stats = await ask(request, "GET", f"{first}/stats")
    for name, each in stats["subscriptions"].items() if others else ():
        if each["isDurable"]:
            body = {"ledgerId": -1, "entryId": -1, "properties": each["subscriptionProperties"]}
            paths = [subscription_path(other, name) for other in others]
            for error in await try_each(request, "PUT", paths, body=body):
                if isinstance(error, Exception) and not _is_conflict(error):
                    raise error


def _is_conflict(error: Exception) -> bool:
    return isinstance(error, errors.RestError) and error.status == HTTPStatus.CONFLICT


async def _of_partitions(
    request: web.Request, topic: TopicName, what: str, here: Callable[[Topic], Awaitable[Json]]
) -> dict[str, Json]:
    """The statistics of each partition, without those that were never created.

    ``here`` reads them of a partition that this broker serves, since asking oneself by HTTP would
    take most of the time for 10,000 partitions.
    """
    broker = broker_of(request)

    async def one(partition: TopicName) -> Json:
        if broker.namespaces.owns(partition):
            try:
                return await here(await require_loaded(request, partition))
            except BrokerError as error:
                if errors.STATUS_OF_CODE.get(error.code.name) == HTTPStatus.NOT_FOUND:
                    raise errors.not_found(error.message) from None
                # This broker is just releasing the partition: its next owner is asked.
        return await ask(request, "GET", f"{path_of(partition)}/{what}")

    count = await partition_count(request, topic)
    if count is None:
        await require_found(request, topic.namespace_name)
        raise errors.not_found(f"Partitioned Topic {topic} not found")
    partitions = [topic.partition(index) for index in range(count)]
    answers = await try_all([partial(one, each) for each in partitions])
    found: dict[str, Json] = {}
    for partition, value in zip(partitions, answers, strict=True):
        if not isinstance(value, Exception):
            found[str(partition)] = value
        elif not isinstance(value, errors.RestError) or value.status != HTTPStatus.NOT_FOUND:
            raise value
    return found


async def _metadata(request: web.Request, topic: TopicName) -> Json:
    """The ``PartitionedTopicMetadata`` of a topic; 0 partitions if it is not partitioned."""
    found = await broker_of(request).policies.partitioned_topic(topic).get() or {"partitions": 0}
    metadata = {"partitions": found["partitions"], "deleted": False}
    return {**metadata, "properties": found["properties"]} if found.get("properties") else metadata


def _whole_topic_of(request: web.Request) -> TopicName:
    """The topic in the path; 412 if it is a partition."""
    topic = topic_of(request)
    if topic.partition_index >= 0:
        raise errors.precondition_failed("Partitioned Topic Name should not contain '-partition-'")
    return topic


def _not_partitioned(topic: TopicName) -> errors.RestError:
    return errors.conflict(f"Topic {topic} is not the partitioned topic.")


def _partitions(value: Json) -> int:
    number = isinstance(value, int) and not isinstance(value, bool)
    if not number or value <= 0:
        raise errors.RestError(
            HTTPStatus.NOT_ACCEPTABLE, "Number of partitions should be more than 0"
        )
    return int(value)


def require_partitions(request: web.Request, count: int) -> None:
    """Raise 406 if a topic may not have so many partitions."""
    most = broker_of(request).live.config.creation_limits.partitions or PARTITIONS_MAX
    if count > most:
        why = f"Number of partitions should be less than or equal to {most}"
        raise errors.RestError(HTTPStatus.NOT_ACCEPTABLE, why)


def _properties(value: Json) -> dict[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise errors.bad_request("properties must be an object of texts")
    return value


async def _create_partitions(request: web.Request, topic: TopicName, count: int) -> None:
    """Create the partitions' nodes in the metadata store; raises 408 if the client has left
    meanwhile.
    """
    policies = broker_of(request).policies
    partitions = iter(range(count if topic.is_persistent else 0))
    while some := list(itertools.islice(partitions, CREATED_AT_ONCE)):
        if request.transport is None or request.transport.is_closing():
            raise errors.RestError(HTTPStatus.REQUEST_TIMEOUT, "the client went away")
        await asyncio.gather(*(policies.create_topic(topic.partition(each)) for each in some))
