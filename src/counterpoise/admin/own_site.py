"""Refuse what a web page of another site makes somebody's browser ask.

A broker on loopback trusts whoever reaches it, and a browser reaches it for every page it shows.
Two headers tell such requests apart: a page cannot choose its ``Origin`` (or ``Sec-Fetch-Site``),
and when a name was bent to point at this machine (DNS rebinding) ``Host`` still holds that name.
Programs send neither ``Origin`` nor a stranger's ``Host``.
"""

from __future__ import annotations

import socket
from http import HTTPStatus
from ipaddress import ip_address

from aiohttp import web
from aiohttp.typedefs import Middleware
from yarl import URL

from counterpoise.admin.errors import Handler, RestError
from counterpoise.broker.face import BrokerFace
from counterpoise.names.hosts import is_loopback

FOREIGN_SITES = frozenset({"cross-site", "same-site"})
"""What ``Sec-Fetch-Site`` says of a request that another origin's page caused."""
API = ("/admin/", "/lookup/", "/metrics")


def own_site(broker: BrokerFace) -> Middleware:
    """The middleware that refuses other sites' requests to a broker, 403 with the reason."""
    config = broker.config
    on_loopback = is_loopback(config.bind_address)
    names = {"localhost", config.advertised_address.lower(), socket.gethostname().lower()}

    @web.middleware
    async def refuse_other_sites(request: web.Request, handler: Handler) -> web.StreamResponse:
        host = host_of(request.headers.get("Host", ""))
        if on_loopback and not (host == "" or host in names or _is_local_name(host)):
            raise _refused(
                f"the Host {host!r} is not a name of this broker, which serves "
                f"{config.bind_address} alone; use that address, or set advertisedAddress"
            )
        origin = request.headers.get("Origin")
        if origin is not None and not _same_origin(origin, request.headers.get("Host", "")):
            raise _refused(f"a page of {origin[:200]!r} may not use this broker")
        site = request.headers.get("Sec-Fetch-Site", "none")
        if site in FOREIGN_SITES and request.path.startswith(API):
            raise _refused(f"a {site} page may not use this broker")
        return await handler(request)

    return refuse_other_sites


def host_of(header: str) -> str:
    """The host of a ``Host`` header, without its port, in small letters."""
    host = header.strip().lower().rstrip(".")
    if host.startswith("["):
        return host.partition("]")[0].removeprefix("[")
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def _is_local_name(host: str) -> bool:
    """An address, which no other site's name server can have chosen, or a name below localhost."""
    if host.endswith(".localhost"):
        return True
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _same_origin(origin: str, host: str) -> bool:
    try:
        return URL(origin).raw_authority.lower() == host.strip().lower() != ""
    except ValueError:
        return False


def _refused(reason: str) -> RestError:
    return RestError(HTTPStatus.FORBIDDEN, reason)
