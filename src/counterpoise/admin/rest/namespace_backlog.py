"""Clears the backlogs, and deletes subscriptions, of a whole namespace or one of its bundles."""

from aiohttp import web

from counterpoise.admin import access, route
from counterpoise.admin.redirect import ask, ask_if_found
from counterpoise.admin.request import broker_of, bundle_of, namespace_of
from counterpoise.admin.rest.namespaces import NAMESPACE, all_topics
from counterpoise.admin.rest.topics import path_of, subscription_path
from counterpoise.names.topic import TopicName

BUNDLE = f"{NAMESPACE}/{{bundle}}"
_CLEAR = access.namespace("CLEAR_BACKLOG")
_UNSUBSCRIBE = access.namespace("UNSUBSCRIBE")
routes = route.Routes()


@routes.post(f"{NAMESPACE}/clearBacklog", _CLEAR)
@routes.post(f"{BUNDLE}/clearBacklog", _CLEAR)
async def clear_all(request: web.Request) -> None:
    """Acknowledge all messages, for every subscription."""
    for topic in await _topics(request):
        path = path_of(topic)
        for name in await ask(request, "GET", f"{path}/subscriptions"):
            await ask_if_found(request, "POST", f"{subscription_path(path, name)}/skip_all")


@routes.post(f"{NAMESPACE}/clearBacklog/{{subscription}}", _CLEAR)
@routes.post(f"{BUNDLE}/clearBacklog/{{subscription}}", _CLEAR)
async def clear_one(request: web.Request) -> None:
    """Acknowledge all messages for the subscription of this name, on every topic that has one."""
    await _each(request, "POST", "/skip_all")


@routes.post(f"{NAMESPACE}/unsubscribe/{{subscription}}", _UNSUBSCRIBE)
@routes.post(f"{BUNDLE}/unsubscribe/{{subscription}}", _UNSUBSCRIBE)
async def unsubscribe(request: web.Request) -> None:
    """Delete the subscription of this name on every topic that has one; 412 if one is in use."""
    await _each(request, "DELETE", "")


async def _each(request: web.Request, method: str, tail: str) -> None:
    name = request.match_info["subscription"]
    for topic in await _topics(request):
        await ask_if_found(request, method, f"{subscription_path(path_of(topic), name)}{tail}")


async def _topics(request: web.Request) -> list[TopicName]:
    """The persistent topics of the namespace or bundle in the path; none if it does not exist."""
    namespace = namespace_of(request)
    if await broker_of(request).policies.namespace(namespace) is None:
        return []
    found = [TopicName.parse(each) for each in await all_topics(request, namespace)]
    stored = [each for each in found if each.is_persistent]
    if "bundle" not in request.match_info:
        return stored
    bundle = await bundle_of(request)
    bundles = await broker_of(request).namespaces.bundles(namespace)
    return [each for each in stored if bundles.bundle_of(each) == bundle]
