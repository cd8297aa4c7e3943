"""Send a request on to the broker that can serve it, and ask other brokers on its behalf."""

from __future__ import annotations

from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import NoReturn

import aiohttp
from aiohttp import web
from yarl import URL

from counterpoise.admin.errors import RestError, precondition_failed
from counterpoise.admin.request import broker_of, flag
from counterpoise.admin.shapes import Json
from counterpoise.names.bundle import BundleName
from counterpoise.names.topic import TopicName

PEERS = web.AppKey("peers", aiohttp.ClientSession)
"""The HTTP client with which this broker asks the others."""


async def peers(app: web.Application) -> AsyncIterator[None]:
    """The HTTP client's life: as long as the application's."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:
        app[PEERS] = session
        yield


def to_broker(request: web.Request, web_url: str, *, authoritative: bool = False) -> NoReturn:
    """307 to the same path at another broker."""
    target = URL(web_url)
    location = request.rel_url.update_query(authoritative=str(authoritative).lower())
    raise web.HTTPTemporaryRedirect(URL(f"{target.origin()}{location.raw_path_qs}"))


async def require_topic_owner(request: web.Request, topic: TopicName) -> None:
    """Return when this broker owns the topic (acquiring it if nobody does), else 307."""
    broker = broker_of(request)
    if broker.namespaces.owns(topic):
        return
    found = await broker.namespaces.lookup(topic, authoritative=flag(request, "authoritative"))
    if found.web_url != broker.web_url:
        to_broker(request, found.web_url, authoritative=getattr(found, "authoritative", False))


async def require_bundle_owner(request: web.Request, bundle: BundleName) -> bool:
    """True when this broker owns the bundle, False when nobody does, 307 when another does."""
    broker = broker_of(request)
    owner = await broker.namespaces.owner(bundle)
    if owner is None:
        return False
    web_url = owner.http_url
    if web_url is None:
        raise precondition_failed(f"the owner of {bundle} has no web address")
    if web_url != broker.web_url:
        to_broker(request, web_url)
    return True


def require_leader(request: web.Request) -> None:
    """Return on the leader, 307 to it elsewhere; 412 when there is none now."""
    broker = broker_of(request)
    if broker.is_leader:
        return
    leader = broker.leader()
    if leader is None:
        raise precondition_failed("The current leader is empty.")
    to_broker(request, leader.service_url)


async def ask(
    request: web.Request,
    method: str,
    path: str,
    *,
    told: Json = None,
    broker_url: str | None = None,
) -> Json:
    """Ask this cluster's API, following redirects to whichever broker can answer.

    A refusal is passed on as it is.
    """
    url = (broker_url or broker_of(request).web_url).rstrip("/") + path
    session = request.app[PEERS]
    async with session.request(method, URL(url, encoded=True), json=told) as response:
        if response.status >= HTTPStatus.BAD_REQUEST:
            raise RestError(response.status, await _reason(response))
        if response.status == HTTPStatus.NO_CONTENT:
            return None
        return await response.json(content_type=None)


async def _reason(response: aiohttp.ClientResponse) -> str:
    try:
        told = await response.json(content_type=None)
    except ValueError:
        told = None
    return told["reason"] if isinstance(told, dict) and "reason" in told else str(response.reason)
