"""Partitioned topics: make, widen, list, delete, and the sum of their partitions' figures."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from http import HTTPStatus

from aiohttp import web

from counterpoise.admin.errors import RestError, conflict, not_found
from counterpoise.admin.redirect import ask
from counterpoise.admin.request import (
    Json,
    answer,
    body,
    broker_of,
    flag,
    namespace_of,
    no_content,
    topic_of,
)
from counterpoise.admin.rest.namespaces import require_namespace
from counterpoise.admin.rest.topics import IN_NAMESPACE, TOPIC, path_of
from counterpoise.admin.topic_json import sum_of_stats
from counterpoise.names.topic import TopicName

UNPROCESSABLE = HTTPStatus.UNPROCESSABLE_ENTITY


def routes() -> Iterable[web.AbstractRouteDef]:
    """The paths of this resource."""
    return [
        web.get(f"{IN_NAMESPACE}/partitioned", names),
        web.get(f"{TOPIC}/partitions", get),
        web.put(f"{TOPIC}/partitions", create),
        web.post(f"{TOPIC}/partitions", update),
        web.delete(f"{TOPIC}/partitions", delete),
        web.get(f"{TOPIC}/partitioned-stats", stats),
        web.get(f"{TOPIC}/partitioned-internalStats", internal_stats),
        web.post(f"{TOPIC}/createMissedPartitions", create_missed),
    ]


async def names(request: web.Request) -> web.Response:
    """The partitioned topics of a namespace."""
    namespace = namespace_of(request)
    await require_namespace(request, namespace)
    policies = broker_of(request).policies
    found = await policies.partitioned_topics(namespace, request.match_info["domain"])
    return answer([str(each) for each in found])


async def get(request: web.Request) -> web.Response:
    """How many partitions a topic has; 0 for an ordinary one.

    ``checkAllowAutoCreation=true`` is what a client's HTTP lookup sends: it may create the topic.
    """
    topic, broker = topic_of(request), broker_of(request)
    found = await broker.policies.partitioned_topic(topic)
    if found is not None:
        told = {"partitions": found["partitions"], "deleted": False}
        return answer(
            {**told, "properties": found["properties"]} if found.get("properties") else told
        )
    create = flag(request, "checkAllowAutoCreation")
    count = await broker.catalog.partitions(topic, auto_create=create)
    return answer({"partitions": count, "deleted": False})


async def create(request: web.Request) -> web.Response:
    """Make a partitioned topic and its partitions."""
    topic, broker = topic_of(request), broker_of(request)
    await require_namespace(request, topic.namespace_name)
    wanted = await body(request)
    told = wanted.get("properties") if isinstance(wanted, dict) else None
    count = _partitions(wanted.get("partitions") if isinstance(wanted, dict) else wanted)
    if topic.partition_index >= 0:
        raise RestError(HTTPStatus.PRECONDITION_FAILED, "A partition cannot have partitions")
    exists = topic.is_persistent and await broker.policies.topic_exists(topic)
    if exists or await broker.policies.partitioned_topic(topic) is not None:
        raise conflict("This topic already exists")
    await broker.policies.create_partitioned_topic(topic, count, told)
    await _create_partitions(request, topic, count)
    return no_content()


async def update(request: web.Request) -> web.Response:
    """Give a partitioned topic more partitions."""
    topic, count = topic_of(request), _partitions(await body(request))
    now = await _partition_count(request, topic, HTTPStatus.CONFLICT)
    if count < now:
        raise RestError(
            UNPROCESSABLE,
            f"Desired partitions {count} can't be less than the current partitions {now}.",
        )
    await broker_of(request).policies.update_partitioned_topic(topic, count)
    await _create_partitions(request, topic, count)
    return no_content()


async def delete(request: web.Request) -> web.Response:
    """Remove a partitioned topic with its partitions."""
    topic = topic_of(request)
    count = await _partition_count(request, topic, HTTPStatus.NOT_FOUND)
    force = str(flag(request, "force")).lower()
    for index in range(count):
        with contextlib.suppress(_NotThereError):
            await _ask_known(request, "DELETE", f"{path_of(topic.partition(index))}?force={force}")
    await broker_of(request).policies.delete_partitioned_topic(topic)
    return no_content()


async def stats(request: web.Request) -> web.Response:
    """The sum over all partitions and, unless ``perPartition=false``, each of them."""
    topic = topic_of(request)
    found = await _of_partitions(request, topic, "stats")
    total = sum_of_stats(list(found.values()))
    count = await _partition_count(request, topic, HTTPStatus.NOT_FOUND)
    return answer(
        {
            **total,
            "metadata": {"partitions": count, "deleted": False},
            "partitions": found if flag(request, "perPartition", default=True) else {},
        }
    )


async def internal_stats(request: web.Request) -> web.Response:
    """The ledgers and cursors of every partition."""
    topic = topic_of(request)
    found = await _of_partitions(request, topic, "internalStats")
    count = await _partition_count(request, topic, HTTPStatus.NOT_FOUND)
    return answer({"metadata": {"partitions": count, "deleted": False}, "partitions": found})


async def create_missed(request: web.Request) -> web.Response:
    """Make those partitions that are missing."""
    topic = topic_of(request)
    count = await _partition_count(request, topic, HTTPStatus.NOT_FOUND)
    await _create_partitions(request, topic, count)
    return no_content()


class _NotThereError(Exception):
    """A partition that was never created."""


async def _ask_known(request: web.Request, method: str, path: str) -> Json:
    try:
        return await ask(request, method, path)
    except RestError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            raise _NotThereError from None
        raise


async def _of_partitions(request: web.Request, topic: TopicName, what: str) -> dict[str, Json]:
    count = await _partition_count(request, topic, HTTPStatus.NOT_FOUND)
    partitions = [topic.partition(index) for index in range(count)]
    told = await asyncio.gather(
        *(_ask_known(request, "GET", f"{path_of(each)}/{what}") for each in partitions),
        return_exceptions=True,
    )
    found = {}
    for partition, value in zip(partitions, told, strict=True):
        if isinstance(value, BaseException):
            if not isinstance(value, _NotThereError):
                raise value
        else:
            found[str(partition)] = value
    return found


async def _partition_count(request: web.Request, topic: TopicName, status: HTTPStatus) -> int:
    found = await broker_of(request).policies.partitioned_topic(topic)
    if found is None:
        if status == HTTPStatus.NOT_FOUND:
            raise not_found(f"Partitioned Topic not found: {topic}")
        raise RestError(status, f"Topic {topic} is not the partitioned topic.")
    return int(found["partitions"])


def _partitions(value: Json) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise RestError(
            HTTPStatus.NOT_ACCEPTABLE,
            f"Number of partitions should be more than 0, and less than or equal to the maximum; "
            f"got {value!r}",
        )
    return value


async def _create_partitions(request: web.Request, topic: TopicName, count: int) -> None:
    policies = broker_of(request).policies
    if topic.is_persistent:
        for index in range(count):
            await policies.create_topic(topic.partition(index))
