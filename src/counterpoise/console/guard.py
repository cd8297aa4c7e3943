"""Refuse what a web page of another site makes somebody's browser ask of the console.

A page cannot choose its ``Origin``, and when a name was bent to point at this machine (DNS
rebinding) ``Host`` still holds that name. The same holds for the connection on which everything is
clicked: browsers open it to any site, and only these two headers tell whose page did.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

FOREIGN_SITES = frozenset({"cross-site", "same-site"})
"""What ``Sec-Fetch-Site`` says of a request that another origin's page caused."""
HEADERS = {
    "Content-Security-Policy": "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class OwnSite:
    """Middleware that lets through what the console's own page asks, and programs; else 403."""

    def __init__(self, app: ASGIApp, names: Iterable[str]) -> None:
        """``names``: those under which the console may be asked for, besides addresses."""
        self._app = app
        self._names = frozenset(name.lower() for name in names) | {"localhost"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or one connection."""
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if reason := self.refusal(headers, navigation=_navigates(scope, headers)):
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008, "reason": reason[:120]})
                return
            await PlainTextResponse(reason + "\n", status_code=403)(scope, receive, send)
            return
        await self._app(scope, receive, _with_headers(send))

    def refusal(self, headers: Headers, *, navigation: bool = False) -> str:
        """Why not; empty when it may pass. ``navigation``: somebody followed a link to the page."""
        host = headers.get("host", "")
        name = host_of(host)
        if not (name in self._names or name.endswith(".localhost") or _is_address(name)):
            return f"the console does not serve the name {name[:200]!r}; --name adds one"
        origin = headers.get("origin")
        if origin is not None and not _same_origin(origin, host):
            return f"a page of {origin[:200]!r} may not use the console"
        if headers.get("sec-fetch-site", "none") in FOREIGN_SITES and not navigation:
            return "a page of another site may not use the console"
        return ""


def host_of(header: str) -> str:
    """The host of a ``Host`` header, without its port, in small letters."""
    host = header.strip().lower().rstrip(".")
    if host.startswith("["):
        return host.partition("]")[0].removeprefix("[")
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def _navigates(scope: Scope, headers: Headers) -> bool:
    return (
        scope["type"] == "http"
        and scope["method"] in {"GET", "HEAD"}
        and headers.get("sec-fetch-mode") == "navigate"
    )


def _is_address(host: str) -> bool:
    """Whether it is an address: no other site's name server can have chosen that."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _same_origin(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host.strip().lower() != ""
    except ValueError:
        return False


def _with_headers(send: Send) -> Send:
    async def sending(message: dict[str, object]) -> None:
        if message["type"] == "http.response.start":
            given = message.setdefault("headers", [])
            if isinstance(given, list):
                given += [(k.lower().encode(), v.encode()) for k, v in HEADERS.items()]
        await send(message)

    return sending  # type: ignore[return-value]
