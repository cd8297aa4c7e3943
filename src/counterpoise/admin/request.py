"""What handlers read from a request (broker, names in the path, body), and how they answer."""

from collections.abc import Mapping

from aiohttp import web

from counterpoise.admin.errors import precondition_failed
from counterpoise.admin.parameters import whole_number
from counterpoise.admin.shapes import Json
from counterpoise.broker.face import Broker
from counterpoise.names.bundle import BundleName, BundleRange
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import PERSISTENT, TopicName

BROKER = web.AppKey("broker", Broker)
BODY = web.RequestKey("body", object)


def broker_of(request: web.Request) -> Broker:
    """The broker whose admin API gets this request."""
    return request.app[BROKER]


def namespace_of(request: web.Request) -> NamespaceName:
    """The namespace in the path; raises ``InvalidName``."""
    return NamespaceName(request.match_info["tenant"], request.match_info["namespace"])


def topic_of(request: web.Request) -> TopicName:
    """The topic in the path; raises ``InvalidName``."""
    return topic_in(request.match_info)


def topic_in(names: Mapping[str, str]) -> TopicName:
    """The topic that the parameters of a path name, persistent if they name no domain; raises
    ``InvalidName``.
    """
    domain = names.get("domain", PERSISTENT)
    return TopicName(domain, names["tenant"], names["namespace"], names["topic"])


async def bundle_of(request: web.Request) -> BundleName:
    """The bundle in the path, which must be one of its namespace's now; 412 otherwise."""
    namespace = namespace_of(request)
    bundles = await broker_of(request).namespaces.bundles(namespace)
    return bundles.validate(BundleRange.parse(request.match_info["bundle"]))


def flag(request: web.Request, name: str, default: bool = False) -> bool:
    """The value of a query parameter that is true or false; ``default`` without it, 412 for other
    text.
    """
    text = request.query.get(name)
    if text is None or text == "":
        return default
    if text.lower() not in ("true", "false"):
        raise precondition_failed(f"query parameter {name}={text[:40]!r}: expected true or false")
    return text.lower() == "true"


def number_of(request: web.Request, name: str) -> int:
    """The whole number that the path has under this name."""
    return whole_number(request.match_info[name])


def body_of(request: web.Request) -> Json:
    """The request's body, which has the shape that the route declares; None if it was empty."""
    return request[BODY]


def object_of_body(request: web.Request) -> dict[str, Json]:
    """The body of a route whose body is an object; an empty body is an empty object."""
    return body_of(request) or {}


def answer(value: Json) -> web.Response:
    """A response with this JSON value; 204 for None."""
    return no_content() if value is None else web.json_response(value)


def nothing() -> web.Response:
    """A response with status 200 and an empty body, as Pulsar's for most policies never set."""
    return web.Response(content_type="application/json")


def no_content() -> web.Response:
    """A response with status 204: done, without a body."""
    return web.Response(status=204)


def plain(text: str) -> web.Response:
    """A response whose body is a bare string, which Pulsar does not quote."""
    return web.Response(text=text, content_type="text/plain")
