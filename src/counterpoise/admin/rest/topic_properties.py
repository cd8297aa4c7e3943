"""The properties of topics and subscriptions: texts by name that brokers store and do not read."""

from collections.abc import Callable, Mapping

from aiohttp import web

from counterpoise.admin import access, route
from counterpoise.admin.errors import not_found
from counterpoise.admin.many import ask_each
from counterpoise.admin.request import answer, body_of, broker_of, nothing
from counterpoise.admin.rest.subscriptions import (
    SUBSCRIPTION,
    on_partitions,
    partitions_of,
    require_subscription,
)
from counterpoise.admin.rest.topics import (
    PROPERTIES,
    TOPIC,
    path_of,
    persistent_topic,
    require_exists,
    require_loaded,
    topic_in_namespace,
)
from counterpoise.admin.route import AUTHORITATIVE
from counterpoise.admin.shapes import text

Notes = Mapping[str, str]


PATH = f"{TOPIC}/properties"
routes = route.Routes()


@routes.get(PATH, access.topic("GET_METADATA"), AUTHORITATIVE)
async def get(request: web.Request) -> web.Response:
    """The properties of a topic."""
    topic = await persistent_topic(request, names_topic=True)
    policies = broker_of(request).policies
    partitioned = await policies.partitioned_topic(topic).get()
    if partitioned is not None:
        properties = partitioned.get("properties")
        return answer(properties) if properties else nothing()
    await require_exists(request, topic)
    await require_loaded(request, topic)
    record = await policies.topic_record(topic)
    return answer(dict(record.properties) if record is not None else {})


@routes.put(PATH, access.topic("UPDATE_METADATA"), PROPERTIES, AUTHORITATIVE)
async def update(request: web.Request) -> None:
    """Add properties to a topic, and replace those of the same name; others stay."""
    properties = body_of(request) or {}
    await _change(request, lambda now: {**now, **properties})


@routes.delete(PATH, access.topic("DELETE_METADATA"), query={"key": text(), **AUTHORITATIVE})
async def remove(request: web.Request) -> None:
    """Remove one property of a topic, or all of them if the request names none."""
    key = request.query.get("key")
    await _change(
        request, lambda now: {name: value for name, value in now.items() if key and name != key}
    )


@routes.get(f"{SUBSCRIPTION}/properties", access.topic("CONSUME"), AUTHORITATIVE)
async def of_subscription(request: web.Request) -> web.Response:
    """The properties of a subscription; of a partitioned topic, those of all partitions."""
    topic = await topic_in_namespace(request)
    tail = f"subscription/{request.rel_url.raw_path.partition('/subscription/')[2]}"
    paths = [f"{path_of(each)}/{tail}" for each in await partitions_of(request, topic)]
    if paths:
        found = await ask_each(request, "GET", paths)
        return answer({name: value for each in found for name, value in each.items()})
    return answer(dict((await require_subscription(request, topic)).properties))


@routes.put(f"{SUBSCRIPTION}/properties", access.topic("SUBSCRIBE"), PROPERTIES, AUTHORITATIVE)
async def set_of_subscription(request: web.Request) -> None:
    """Replace all properties of a subscription."""
    topic, properties = await topic_in_namespace(request), body_of(request) or {}
    if not await on_partitions(request, topic, body=properties):
        (await require_subscription(request, topic)).note(properties)


async def _change(request: web.Request, change: Callable[[Notes], Notes]) -> None:
    topic = await persistent_topic(request)
    policies = broker_of(request).policies
    partitioned = policies.partitioned_topic(topic)
    if await partitioned.get() is not None:
        await partitioned.change(
            lambda now: {**now, "properties": dict(change(now.get("properties") or {}))}
        )
    elif await policies.topic_exists(topic):
        await policies.update_topic_properties(topic, change)
    else:
        raise not_found(f"Topic {topic} not found")
