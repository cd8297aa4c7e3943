"""``/lookup/v2``: which broker serves a topic, and which bundle the topic belongs to."""

from aiohttp import web

from counterpoise.admin import access, route
from counterpoise.admin.errors import not_found
from counterpoise.admin.redirect import to_broker
from counterpoise.admin.request import answer, broker_of, flag, plain, topic_of
from counterpoise.admin.rest.namespaces import require_found
from counterpoise.broker.face import LookupRedirect, for_listener
from counterpoise.names.bundle import FULL_RANGE

LISTENER_HEADER = "X-Pulsar-ListenerName"
QUERY = {**route.AUTHORITATIVE, "listenerName": {"type": "string"}}
TOPIC = "/lookup/v2/{kind:topic|destination}/{domain}/{tenant}/{namespace}/{topic}"


routes = route.Routes()


@routes.get(TOPIC, access.LOOKUP, QUERY)
async def lookup(request: web.Request) -> web.Response:
    """The broker to connect to (``LookupData``), or 307 to the broker that decides; 404 for a topic
    that does not exist and is not created by its use.
    """
    topic, broker = topic_of(request), broker_of(request)
    await require_found(request, topic.namespace_name)
    if not await broker.catalog.is_usable(topic):
        raise not_found(f"Topic not found {topic}")
    found = await broker.namespaces.lookup(topic, authoritative=flag(request, "authoritative"))
    listener = request.query.get("listenerName") or request.headers.get(LISTENER_HEADER)
    found = for_listener(listener, found)
    if isinstance(found, LookupRedirect):
        to_broker(request, found.web_url, found.web_url_tls, authoritative=found.authoritative)
    fields = {
        "brokerUrl": found.service_url,
        "brokerUrlTls": found.service_url_tls,
        "brokerUrlSsl": "",
        "httpUrl": found.web_url,
        "httpUrlTls": found.web_url_tls,
        "nativeUrl": found.service_url,
    }
    return answer({name: value for name, value in fields.items() if value is not None})


@routes.get(f"{TOPIC}/bundle", access.namespace("GET_BUNDLE"))
async def bundle(request: web.Request) -> web.Response:
    """The range of the topic's bundle, as plain text; the full range if the namespace does not
    exist.
    """
    topic, broker = topic_of(request), broker_of(request)
    if await broker.policies.namespace(topic.namespace_name) is None:
        return plain(str(FULL_RANGE))
    bundles = await broker.namespaces.bundles(topic.namespace_name)
    return plain(str(bundles.bundle_of(topic).range))
