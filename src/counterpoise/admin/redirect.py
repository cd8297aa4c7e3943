"""Redirects a request to the broker that can serve it, and sends requests to other brokers."""

from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import NoReturn

import aiohttp
from aiohttp import web
from yarl import URL

from counterpoise.admin.errors import RestError, precondition_failed
from counterpoise.admin.request import BROKER, broker_of, flag
from counterpoise.admin.shapes import Json
from counterpoise.broker.face import Broker
from counterpoise.names.bundle import BundleName
from counterpoise.names.topic import TopicName
from counterpoise.security.client import http_session

PEERS = web.AppKey("peers", aiohttp.ClientSession)
"""The key of the HTTP client with which this broker asks the others."""


async def peers(app: web.Application) -> AsyncIterator[None]:
    """Keeps the HTTP client for requests to other brokers open while the application runs."""
    async with http_session(app[BROKER].as_client) as session:
        app[PEERS] = session
        yield


def to_broker(
    request: web.Request,
    web_url: str | None,
    web_url_tls: str | None,
    *,
    authoritative: bool = False,
) -> NoReturn:
    """Redirect (307) to the same path at another broker, with TLS if the request came with TLS.

    A request that came with TLS carries credentials, so it is never redirected to an address
    without TLS; 412 if the broker has no other.
    """
    there = web_url_tls if request.secure else web_url
    if there is None:
        raise precondition_failed("Unable to get web service url")
    target = URL(there)
    location = request.rel_url.update_query(authoritative=str(authoritative).lower())
    raise web.HTTPTemporaryRedirect(URL(f"{target.origin()}{location.raw_path_qs}"))


async def require_topic_owner(request: web.Request, topic: TopicName) -> None:
    """Return if this broker owns the topic; 307 to the owner otherwise.

    If no broker owns the topic's bundle, it is assigned first, perhaps to this broker.
    """
    broker = broker_of(request)
    if broker.namespaces.owns(topic):
        return
    found = await broker.namespaces.lookup(topic, authoritative=flag(request, "authoritative"))
    if found.broker_id != broker.id:
        authoritative = getattr(found, "authoritative", False)
        to_broker(request, found.web_url, found.web_url_tls, authoritative=authoritative)


async def require_bundle_owner(request: web.Request, bundle: BundleName) -> bool:
    """True if this broker owns the bundle, False if no broker does; otherwise 307 to the owner."""
    broker = broker_of(request)
    owner = await broker.namespaces.owner(bundle)
    if owner is None:
        return False
    if owner.broker_id != broker.id:
        await to_broker_of(request, owner.broker_id)
    return True


async def to_broker_of(request: web.Request, broker_id: str) -> NoReturn:
    """Redirect (307) to the broker with this id; 412 if it is not registered."""
    report = await broker_of(request).report_of(broker_id)
    if report is None:
        raise precondition_failed(f"broker {broker_id} has left; ask again")
    to_broker(request, report.web_service_url, report.web_service_url_tls)


async def require_leader(request: web.Request) -> None:
    """Return if this broker is the leader; otherwise 307 to the leader, or 412 without one."""
    broker = broker_of(request)
    if broker.is_leader:
        return
    leader = broker.leader()
    if leader is None:
        raise precondition_failed("The current leader is empty.")
    await to_broker_of(request, leader.broker_id)


async def ask(
    request: web.Request, method: str, path: str, *, body: Json = None, broker_id: str | None = None
) -> Json:
    """Send a request to this cluster's API, following redirects to the broker that can answer.

    ``broker_id``: another broker to ask first. An error response is raised with its status.
    """
    broker = broker_of(request)
    here = broker.addresses
    there = _preferred(broker, here.web_url, here.web_url_tls)
    if broker_id is not None:
        report = await broker.report_of(broker_id)
        there = None
        if report is not None:
            there = _preferred(broker, report.web_service_url, report.web_service_url_tls)
    if not there:
        raise precondition_failed("Unable to get web service url")
    url = there + path
    session = request.app[PEERS]
    async with session.request(method, URL(url, encoded=True), json=body) as response:
        if response.status >= HTTPStatus.BAD_REQUEST:
            raise RestError(response.status, await _reason(response))
        if response.status == HTTPStatus.NO_CONTENT:
            return None
        return await response.json(content_type=None)


async def ask_if_found(request: web.Request, method: str, path: str) -> None:
    """Send a request, as `ask`; a missing topic or subscription counts as success."""
    try:
        await ask(request, method, path)
    except RestError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise


def _preferred(broker: Broker, plain: str | None, tls: str | None) -> str | None:
    """The one of a broker's two addresses that brokers use among themselves; None if neither
    exists.
    """
    return tls or plain if broker.config.client.tls else plain or tls


async def _reason(response: aiohttp.ClientResponse) -> str:
    try:
        body = await response.json(content_type=None)
    except ValueError:
        body = None
    return body["reason"] if isinstance(body, dict) and "reason" in body else str(response.reason)
