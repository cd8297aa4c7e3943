"""Rate policies of single topics; those of a partitioned topic hold for its partitions."""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web

from counterpoise.admin import route
from counterpoise.admin.policies import PUBLISH_RATE
from counterpoise.admin.request import answer, broker_of, no_content, nothing, topic_of
from counterpoise.admin.rest.namespaces import require_namespace
from counterpoise.admin.rest.topics import TOPIC
from counterpoise.admin.route import body_of
from counterpoise.admin.shapes import FLAG, Json, Schema, Shape, nullable

RATES: tuple[tuple[str, str, Schema], ...] = (("publishRate", "publishRate", PUBLISH_RATE),)
"""Path, member of ``TopicPolicies``, and what it may be."""

_IS_GLOBAL = {"isGlobal": FLAG}


def routes() -> Iterable[route.Route]:
    """The paths of this resource."""
    for path, name, shape in RATES:
        at = f"{TOPIC}/{path}"
        yield route.get(at, _reader(name), {"applied": FLAG, **_IS_GLOBAL})
        yield route.post(at, _writer(name), Shape(nullable(shape)), _IS_GLOBAL)
        yield route.delete(at, _writer(name, remove=True), None, _IS_GLOBAL)


def _reader(name: str) -> route.Handler:
    async def read(request: web.Request) -> web.Response:
        topic = topic_of(request)
        await require_namespace(request, topic.namespace_name)
        found = await broker_of(request).policies.topic_policies(topic) or {}
        return nothing() if found.get(name) is None else answer(found[name])

    return read


def _writer(name: str, *, remove: bool = False) -> route.Handler:
    async def write(request: web.Request) -> web.Response:
        topic = topic_of(request)
        await require_namespace(request, topic.namespace_name)
        value: Json = None if remove else body_of(request)
        await broker_of(request).policies.update_topic_policies(
            topic,
            lambda before: {
                **{each: found for each, found in before.items() if each != name},
                **({} if value is None else {name: value}),
            },
        )
        return no_content()

    return write
