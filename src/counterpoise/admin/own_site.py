"""Refuses requests that a web page of another site makes through an administrator's browser.

A broker on loopback trusts every client that can connect to it, and a browser can, for every page
it shows. `counterpoise.security.own_site` recognises such requests; programs send neither
``Origin`` nor another site's ``Host``.
"""

import socket
from http import HTTPStatus

from aiohttp import web
from aiohttp.typedefs import Middleware

from counterpoise.admin.errors import Handler, RestError
from counterpoise.broker.face import Broker
from counterpoise.names.hosts import is_loopback
from counterpoise.security.own_site import FOREIGN_SITES, host_of, is_local_name, same_origin

API = ("/admin/", "/lookup/", "/metrics")


def own_site(broker: Broker) -> Middleware:
    """A middleware that refuses a browser's requests for other web sites, 403 with the reason."""
    config = broker.config
    on_loopback = is_loopback(config.bind_address)
    names = {"localhost", config.advertised_address.lower(), socket.gethostname().lower()}

    @web.middleware
    async def refuse_other_sites(request: web.Request, handler: Handler) -> web.StreamResponse:
        host = host_of(request.headers.get("Host", ""))
        if on_loopback and not (host == "" or host in names or is_local_name(host)):
            raise _refused(
                f"the Host {host!r} is not a name of this broker, which serves "
                f"{config.bind_address} alone; use that address, or set advertisedAddress"
            )
        origin = request.headers.get("Origin")
        if origin is not None and not same_origin(origin, request.headers.get("Host", "")):
            raise _refused(f"a page of {origin[:200]!r} may not use this broker")
        site = request.headers.get("Sec-Fetch-Site", "none")
        if site in FOREIGN_SITES and request.path.startswith(API):
            raise _refused(f"a {site} page may not use this broker")
        return await handler(request)

    return refuse_other_sites


def _refused(reason: str) -> RestError:
    return RestError(HTTPStatus.FORBIDDEN, reason)
