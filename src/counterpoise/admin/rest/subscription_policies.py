"""The policies of one subscription: how fast it may be delivered to.

``/admin/v2/persistent/{tenant}/{namespace}/{topic}/{subscription}/dispatchRate``, kept in the
topic's ``TopicPolicies`` as ``subscriptionPolicies``. It comes before what the topic's and the
namespace's policies say of all subscriptions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from aiohttp import web

from counterpoise.admin import route
from counterpoise.admin.policies import DISPATCH_RATE
from counterpoise.admin.request import answer, broker_of, no_content, nothing
from counterpoise.admin.rest.topic_policies import QUERY, topic_with_policies
from counterpoise.admin.rest.topics import TOPIC
from counterpoise.admin.route import body_of
from counterpoise.admin.shapes import Json, Shape, nullable

PATH = f"{TOPIC}/{{subscription}}/dispatchRate"
MEMBER = "subscriptionPolicies"


def routes() -> Iterable[route.Route]:
    """The paths of this resource."""
    return [
        route.get(PATH, get, QUERY),
        route.Route("POST", PATH, put, Shape(nullable(DISPATCH_RATE)), QUERY),
        route.delete(PATH, delete, query=QUERY),
    ]


async def get(request: web.Request) -> web.Response:
    """A subscription's own dispatch rate."""
    topic = await topic_with_policies(request)
    own = (await broker_of(request).policies.topic_policies(topic) or {}).get(MEMBER) or {}
    rate = (own.get(request.match_info["subscription"]) or {}).get("dispatchRate")
    return nothing() if rate is None else answer(rate)


async def put(request: web.Request) -> web.Response:
    """Set a subscription's own dispatch rate."""
    return await _set(request, body_of(request))


async def delete(request: web.Request) -> web.Response:
    """Remove a subscription's own dispatch rate."""
    return await _set(request, None)


async def _set(request: web.Request, rate: Json) -> web.Response:
    topic = await topic_with_policies(request)
    name = request.match_info["subscription"]

    def change(now: Mapping[str, Any]) -> dict[str, Any]:
        others = {each: it for each, it in (now.get(MEMBER) or {}).items() if each != name}
        own = others if rate is None else {**others, name: {"dispatchRate": rate}}
        return {**now, MEMBER: own}

    await broker_of(request).policies.update_topic_policies(topic, change)
    return no_content()
