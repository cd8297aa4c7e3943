"""The policies of one topic, stored in its ``TopicPolicies``.

``/admin/v2/persistent/{tenant}/{namespace}/{topic}/…``. With ``applied=true`` the answer is the
value in force, which may come from the namespace or the broker's settings. With ``isGlobal=true`` a
request is about the global policies, which the local ones override. A subscription's own
dispatch rate is stored there, too, and overrides the topic's.
"""

from collections.abc import Callable, Mapping

from aiohttp import web

from counterpoise.admin import access, route
from counterpoise.admin.applied import applied_by_broker
from counterpoise.admin.errors import not_allowed, not_found, precondition_failed
from counterpoise.admin.policies import DISPATCH_RATE, TOPIC_POLICIES
from counterpoise.admin.request import answer, body_of, broker_of, flag, nothing, topic_of
from counterpoise.admin.rest.namespaces import require_found
from counterpoise.admin.rest.policy_routes import PolicyHolder, in_place
from counterpoise.admin.rest.topics import TOPIC
from counterpoise.admin.shapes import FLAG, Json, Shape, nullable
from counterpoise.broker.face import GLOBAL
from counterpoise.names.topic import TopicName

QUERY = {"applied": FLAG, "isGlobal": FLAG, **route.AUTHORITATIVE}
OF_SUBSCRIPTIONS = "subscriptionPolicies"


class _Topics(PolicyHolder):
    """Reads and changes the policies of topics."""

    LEVEL, RETENTION, QUOTAS = "topic", "retentionPolicies", "backLogQuotaMap"
    CHECKED = ("destination_storage", "message_age")

    async def require(self, request: web.Request) -> None:
        await topic_with_policies(request)

    async def value(self, request: web.Request, name: str) -> Json:
        topic, broker = await topic_with_policies(request), broker_of(request)
        own = (await _own(request, topic)).get(name)
        if not flag(request, "applied") or (flag(request, "isGlobal") and own is not None):
            return own
        if name == "schemaCompatibilityStrategy":
            return (await broker.schemas.rules(topic)).strategy
        if name == "schemaValidationEnforced" and own is None:
            return (await broker.schemas.rules(topic)).validation_enforced
        applied = await self.inherited(request, name)
        if applied in (None, "UNDEFINED", {}):
            return applied_by_broker(broker.live.config, name)
        return applied

    async def inherited(self, request: web.Request, name: str) -> Json:
        broker = broker_of(request)
        found = await broker.policies.applied(topic_of(request), broker.config.cluster_name)
        return found.get(name)

    async def update(
        self, request: web.Request, change: Callable[[dict[str, Json]], object]
    ) -> None:
        node = broker_of(request).policies.topic_policies(await topic_with_policies(request))
        if flag(request, "isGlobal"):
            await node.change(in_place(lambda it: change(it.setdefault(GLOBAL, {}))), create=True)
        else:
            await node.change(in_place(change), create=True)


TOPICS = _Topics(TOPIC, QUERY, access.TOPIC_POLICY)


routes = route.Routes()
for _each in TOPIC_POLICIES:
    routes.extend(TOPICS.routes(_each))
routes.extend(TOPICS.quota_routes())
OF_SUBSCRIPTION = f"{TOPIC}/{{subscription}}/dispatchRate"


@routes.delete(f"{TOPIC}/policies", access.TOPIC_POLICY)
async def delete_all(request: web.Request) -> None:
    """Remove all policies of a topic; there may be none."""
    _require_own_policies(request)
    topic = topic_of(request)
    topic = topic.partitioned_name if topic.partition_index >= 0 else topic
    await broker_of(request).policies.topic_policies(topic).delete(missing_ok=True)


@routes.get(OF_SUBSCRIPTION, access.TOPIC_POLICY, QUERY)
async def subscription_rate(request: web.Request) -> web.Response:
    """A subscription's own dispatch rate, or with ``applied`` the one in force."""
    own = (await _own(request, await topic_with_policies(request))).get(OF_SUBSCRIPTIONS) or {}
    rate = (own.get(request.match_info["subscription"]) or {}).get("dispatchRate")
    if rate is None and flag(request, "applied"):
        rate = await TOPICS.value(request, "subscriptionDispatchRate")
    return nothing() if rate is None else answer(rate)


@routes.post(OF_SUBSCRIPTION, access.TOPIC_POLICY, Shape(nullable(DISPATCH_RATE)), QUERY)
async def set_subscription_rate(request: web.Request) -> None:
    """Set a subscription's own dispatch rate."""
    name, rate = request.match_info["subscription"], body_of(request)
    if rate is None:
        await remove_subscription_rate(request)
        return
    await TOPICS.update(
        request,
        lambda it: it.setdefault(OF_SUBSCRIPTIONS, {}).update({name: {"dispatchRate": rate}}),
    )


@routes.delete(OF_SUBSCRIPTION, access.TOPIC_POLICY, QUERY)
async def remove_subscription_rate(request: web.Request) -> None:
    """Remove a subscription's own dispatch rate."""
    name = request.match_info["subscription"]
    await TOPICS.update(request, lambda it: it.setdefault(OF_SUBSCRIPTIONS, {}).pop(name, None))


async def _own(request: web.Request, topic: TopicName) -> Mapping[str, Json]:
    """The topic's own policies: the local ones, or the global ones if the request asks for them."""
    found = await broker_of(request).policies.topic_policies(topic).get() or {}
    return found.get(GLOBAL) or {} if flag(request, "isGlobal") else found


async def topic_with_policies(request: web.Request) -> TopicName:
    """The topic in the path; it has to exist, and must be no partition, since partitions have
    the policies of their topic.
    """
    topic = topic_of(request)
    _require_own_policies(request)
    if topic.partition_index >= 0:
        raise precondition_failed("Not allowed to set/get topic policy for a partition")
    await require_found(request, topic.namespace_name)
    policies = broker_of(request).policies
    known = await policies.partitioned_topic(topic).get() is not None
    if not known and not (topic.is_persistent and await policies.topic_exists(topic)):
        raise not_found(f"Topic {topic} not found")
    return topic


def _require_own_policies(request: web.Request) -> None:
    if not broker_of(request).config.topics.own_policies:
        raise not_allowed(
            "Topic level policies is disabled, to enable the topic level policy and retry. "
            "(topicLevelPoliciesEnabled)"
        )
