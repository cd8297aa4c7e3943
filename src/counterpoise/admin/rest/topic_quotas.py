"""How much backlog a topic may have: kept by type of quota, so no policy of one value.

They are stored, listed, and read by no broker (``docs/UNREAD.md``), which the log says.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from aiohttp import web

from counterpoise.admin import route
from counterpoise.admin.applied import applied_by_broker
from counterpoise.admin.policies import BACKLOG_QUOTA
from counterpoise.admin.request import answer, broker_of, flag, no_content
from counterpoise.admin.rest.namespace_policies import BACKLOG_QUOTA_TYPE, quota_type
from counterpoise.admin.rest.topic_policies import QUERY, topic_with_policies
from counterpoise.admin.rest.topics import TOPIC
from counterpoise.admin.route import body_of
from counterpoise.admin.shapes import Json, Shape

log = logging.getLogger(__name__)

_Change = Callable[[Mapping[str, Json]], Mapping[str, Json]]
MEMBER = "backLogQuotaMap"


def routes() -> Iterable[route.Route]:
    """The paths of this resource."""
    query = {**BACKLOG_QUOTA_TYPE, **QUERY}
    return [
        route.get(f"{TOPIC}/backlogQuotaMap", backlog_quotas, QUERY),
        route.post(f"{TOPIC}/backlogQuota", set_backlog_quota, Shape(BACKLOG_QUOTA), query),
        route.delete(f"{TOPIC}/backlogQuota", remove_backlog_quota, query=query),
    ]


async def backlog_quotas(request: web.Request) -> web.Response:
    """A topic's own backlog quotas by type, or with ``applied`` those that would hold."""
    topic = await topic_with_policies(request)
    broker = broker_of(request)
    found = (await broker.policies.topic_policies(topic) or {}).get(MEMBER) or {}
    if not found and flag(request, "applied"):
        policies = await broker.policies.namespace(topic.namespace_name) or {}
        found = policies.get("backlog_quota_map") or applied_by_broker(broker.live.config, MEMBER)
    return answer(found)


async def set_backlog_quota(request: web.Request) -> web.Response:
    """Set a topic's own quota of one type."""
    kind, quota = quota_type(request), body_of(request)
    topic = await topic_with_policies(request)
    log.warning(
        "%s: the policy backlogQuota is stored, and read by nothing here (docs/UNREAD.md)", topic
    )
    await _change(request, lambda now: {**now, kind: quota})
    return no_content()


async def remove_backlog_quota(request: web.Request) -> web.Response:
    """Remove a topic's own quota of one type."""
    kind = quota_type(request)
    await _change(request, lambda now: {it: now[it] for it in now if it != kind})
    return no_content()


async def _change(request: web.Request, change: _Change) -> None:
    topic = await topic_with_policies(request)

    def changed(now: dict[str, Json]) -> dict[str, Json]:
        return {**now, MEMBER: change(now.get(MEMBER) or {})}

    await broker_of(request).policies.update_topic_policies(topic, changed)
