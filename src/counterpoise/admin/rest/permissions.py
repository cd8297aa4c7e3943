"""Which roles may do what with a namespace and its topics. It is stored and listed here;
`counterpoise.security.authorization` enforces it.
"""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from counterpoise.admin import access, route
from counterpoise.admin.errors import precondition_failed
from counterpoise.admin.request import answer, namespace_of, topic_of
from counterpoise.admin.rest.namespace_policies import update
from counterpoise.admin.rest.namespaces import NAMESPACE, require_namespace
from counterpoise.admin.rest.topics import TOPIC
from counterpoise.admin.route import body_of
from counterpoise.admin.shapes import Json, Shape, list_of, nullable, text

_ACTIONS = ("produce", "consume", "functions", "sources", "sinks", "packages")
ACTIONS = Shape(nullable(list_of(text(*_ACTIONS))))
ROLES = Shape(nullable(list_of(text())))


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
    role, actions = request.match_info["role"], _actions(request)
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
    await _set_of_topic(request, _actions(request))


@routes.delete(f"{TOPIC}/permissions/{{role}}", access.TENANT_ADMIN)
async def revoke_topic(request: web.Request) -> None:
    """Revoke all actions of a role on one topic; 412 if the topic has no grants of its own."""
    topic = topic_of(request)
    auth = _auth(await require_namespace(request, topic.namespace_name))
    if str(topic) not in (auth.get("destination_auth") or {}):
        raise precondition_failed("Permissions are not set at the topic level")
    await _set_of_topic(request, None)


async def _set_of_topic(request: web.Request, actions: Json) -> None:
    topic, role = str(topic_of(request)), request.match_info["role"]

    def change(policies: dict[str, Json]) -> None:
        of_topics = {**(_auth(policies).get("destination_auth") or {})}
        roles = _with(of_topics.pop(topic, None), role, actions)
        policies["auth_policies"] = {
            **_auth(policies),
            "destination_auth": {**of_topics, topic: roles},
        }

    await update(request, change)


def _set_of_namespace(policies: dict[str, Json], role: str, actions: Json) -> None:
    auth = _auth(policies)
    roles = _with(auth.get("namespace_auth"), role, actions)
    policies["auth_policies"] = {**auth, "namespace_auth": roles}


def _actions(request: web.Request) -> list[str]:
    """The actions in the body, each once and in Pulsar's order."""
    requested = body_of(request) or []
    return [each for each in _ACTIONS if each in requested]


def _auth(policies: dict[str, Json]) -> dict[str, Json]:
    return policies.get("auth_policies") or {}


def _with(roles: Json, role: str, actions: Json) -> dict[str, Json]:
    """The roles with this role's actions replaced, or without the role if ``actions`` is None."""
    others = {name: granted for name, granted in (roles or {}).items() if name != role}
    return others if actions is None else {**others, role: actions}
