"""Which roles may do what with a namespace and its topics. It is stored and listed here;
`counterpoise.security.authorization` enforces it.
"""

from collections.abc import Callable

from aiohttp import web

from counterpoise.admin import access, route
from counterpoise.admin.entrance import CALLER, require
from counterpoise.admin.errors import bad_request
from counterpoise.admin.protected import concerns_system_topics, require_system_topics
from counterpoise.admin.request import answer, body_of, broker_of, namespace_of, topic_of
from counterpoise.admin.rest.namespace_policies import update
from counterpoise.admin.rest.namespaces import BASE, NAMESPACE, require_namespace
from counterpoise.admin.rest.topics import TOPIC, require_exists
from counterpoise.admin.shapes import Json, Shape, list_of, nullable, object_of, text
from counterpoise.names.topic import TopicName

_ACTIONS = ("produce", "consume", "functions", "sources", "sinks", "packages")
ACTIONS = Shape(nullable(list_of(text(*_ACTIONS))))
ROLES = Shape(nullable(list_of(text())))
GRANTS = Shape(
    nullable(
        list_of(
            object_of(
                {"topic": text(), "role": text(), "actions": ACTIONS.schema},
                required=("topic", "role"),
            )
        )
    )
)


routes = route.Routes()


@routes.get(f"{NAMESPACE}/permissions", access.namespace("GET_PERMISSION"))
async def of_namespace(request: web.Request) -> web.Response:
    """The actions granted to each role on the namespace."""
    policies = await require_namespace(request, namespace_of(request))
    return answer(_auth(policies).get("namespace_auth") or {})


@routes.get(f"{TOPIC}/permissions", access.TENANT_ADMIN)
async def of_topic(request: web.Request) -> web.Response:
    """The actions granted to each role on the topic, those granted on the namespace included."""
    topic = topic_of(request)
    await _require_topic(request, topic)
    auth = _auth(await require_namespace(request, topic.namespace_name))
    found = {role: [*actions] for role, actions in (auth.get("namespace_auth") or {}).items()}
    of_topics = auth.get("destination_auth") or {}
    for role, actions in (of_topics.get(str(topic)) or {}).items():
        both = {*found.get(role, ()), *actions}
        found[role] = [each for each in _ACTIONS if each in both]
    return answer(found)


@routes.post(f"{NAMESPACE}/permissions/{{role}}", access.namespace("GRANT_PERMISSION"), ACTIONS)
async def grant(request: web.Request) -> None:
    """Set the actions that a role may do on the namespace: those of the body, and no others."""
    role, actions = request.match_info["role"], _in_order(body_of(request))
    await update(request, lambda it: _set_of_namespace(it, role, actions))


@routes.delete(f"{NAMESPACE}/permissions/{{role}}", access.namespace("REVOKE_PERMISSION"))
async def revoke(request: web.Request) -> None:
    """Revoke all actions of a role on the namespace."""
    role = request.match_info["role"]
    await update(request, lambda it: _set_of_namespace(it, role, None))


@routes.get(f"{NAMESPACE}/permissions/subscription", access.namespace("GET_PERMISSION"))
async def of_subscriptions(request: web.Request) -> web.Response:
    """The roles that may consume from each subscription that is restricted to certain roles."""
    policies = await require_namespace(request, namespace_of(request))
    return answer(_auth(policies).get("subscription_auth_roles") or {})


@routes.post(
    f"{NAMESPACE}/permissions/subscription/{{subscription}}",
    access.namespace("GRANT_PERMISSION"),
    ROLES,
)
async def grant_subscription(request: web.Request) -> None:
    """Restrict a subscription to these roles."""
    subscription, roles = request.match_info["subscription"], body_of(request) or []
    await update(request, lambda it: _set_of_subscription(it, subscription, lambda _: roles))


@routes.delete(
    f"{NAMESPACE}/permissions/{{subscription}}/{{role}}", access.namespace("REVOKE_PERMISSION")
)
async def revoke_subscription(request: web.Request) -> None:
    """Remove a role from those that may consume from a subscription."""
    subscription, role = request.match_info["subscription"], request.match_info["role"]
    await update(
        request,
        lambda it: _set_of_subscription(
            it, subscription, lambda roles: [each for each in roles if each != role]
        ),
    )


def _set_of_subscription(
    policies: dict[str, Json], subscription: str, change: Callable[[list[str]], list[str]]
) -> None:
    auth = _auth(policies)
    roles = {**(auth.get("subscription_auth_roles") or {})}
    after = change(roles.pop(subscription, []))
    policies["auth_policies"] = {
        **auth,
        "subscription_auth_roles": {**roles, **({subscription: after} if after else {})},
    }


@routes.post(f"{TOPIC}/permissions/{{role}}", access.TENANT_ADMIN, ACTIONS)
async def grant_topic(request: web.Request) -> None:
    """Set the actions that a role may do on one topic."""
    await _set_of_topic(request, _in_order(body_of(request)))


@routes.delete(f"{TOPIC}/permissions/{{role}}", access.TENANT_ADMIN)
async def revoke_topic(request: web.Request) -> None:
    """Revoke all actions of a role on one topic."""
    await _set_of_topic(request, None)


@routes.post(f"{BASE}/grantPermissionsOnTopics", access.KNOWN, GRANTS)
async def grant_topics(request: web.Request) -> None:
    """Set the actions that roles may do on topics of one namespace: all that the body lists or,
    after an error, none.
    """
    await _set_of_topics(request, lambda each: _in_order(each.get("actions")))


@routes.post(f"{BASE}/revokePermissionsOnTopics", access.KNOWN, GRANTS)
async def revoke_topics(request: web.Request) -> None:
    """Revoke all actions of roles on topics of one namespace."""
    await _set_of_topics(request, lambda _: None)


async def _set_of_topics(request: web.Request, actions: Callable[[Json], Json]) -> None:
    listed = [(TopicName.parse(each["topic"]), each) for each in body_of(request) or ()]
    namespaces = {topic.namespace_name for topic, _ in listed}
    if len(namespaces) != 1:
        raise bad_request("The namespace should be the same")
    namespace = namespaces.pop()
    request.match_info.update(tenant=namespace.tenant, namespace=namespace.local)
    await require(request, access.TENANT_ADMIN, "")
    for topic, _ in listed:
        names = {**request.match_info, "domain": topic.domain, "topic": topic.local_name}
        if concerns_system_topics(request.method, "", names):
            await require_system_topics(broker_of(request), request[CALLER], names)
        await _require_topic(request, topic)
    changes = [(str(topic), each["role"], actions(each)) for topic, each in listed]

    def change(policies: dict[str, Json]) -> None:
        for each in changes:
            _set_grant(policies, *each)

    await update(request, change)


async def _set_of_topic(request: web.Request, actions: Json) -> None:
    topic, role = topic_of(request), request.match_info["role"]
    await _require_topic(request, topic)
    await update(request, lambda it: _set_grant(it, str(topic), role, actions))


async def _require_topic(request: web.Request, topic: TopicName) -> None:
    if not broker_of(request).config.authorization.on_missing_topics:
        await require_exists(request, topic)


def _set_grant(policies: dict[str, Json], topic: str, role: str, actions: Json) -> None:
    of_topics = {**(_auth(policies).get("destination_auth") or {})}
    roles = _with(of_topics.pop(topic, None), role, actions)
    policies["auth_policies"] = {**_auth(policies), "destination_auth": {**of_topics, topic: roles}}


def _set_of_namespace(policies: dict[str, Json], role: str, actions: Json) -> None:
    auth = _auth(policies)
    roles = _with(auth.get("namespace_auth"), role, actions)
    policies["auth_policies"] = {**auth, "namespace_auth": roles}


def _in_order(requested: Json) -> list[str]:
    """The actions that a body lists, each once and in Pulsar's order."""
    return [each for each in _ACTIONS if each in (requested or ())]


def _auth(policies: dict[str, Json]) -> dict[str, Json]:
    return policies.get("auth_policies") or {}


def _with(roles: Json, role: str, actions: Json) -> dict[str, Json]:
    """The roles with this role's actions replaced, or without the role if ``actions`` is None."""
    others = {name: granted for name, granted in (roles or {}).items() if name != role}
    return others if actions is None else {**others, role: actions}
