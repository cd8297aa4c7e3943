"""Refuses requests that a page of another site makes through an operator's browser.

Checks the headers of `counterpoise.security.own_site`, on the WebSocket as well: a browser opens
one to any site, and only its Origin header names the page.
"""

from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from counterpoise.security.own_site import FOREIGN_SITES, host_of, is_local_name, same_origin

HEADERS = {
    "Content-Security-Policy": "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class OwnSite:
    """Middleware that refuses, with 403, requests that a browser makes for other web sites."""

    def __init__(self, app: ASGIApp, names: Iterable[str]) -> None:
        """``names``: host names under which browsers may request the console.

        IP addresses and localhost are always allowed.
        """
        self._app = app
        self._names = frozenset(name.lower() for name in names) | {"localhost"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request or WebSocket, or refuse it."""
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
        """Return why a request is refused; empty if it is allowed.

        ``navigation``: the browser opens the page itself, for example by a link. Links on other
        sites may lead to the console.
        """
        host = headers.get("host", "")
        name = host_of(host)
        if not (name in self._names or is_local_name(name)):
            return f"the console does not serve the name {name[:200]!r}; --name adds one"
        origin = headers.get("origin")
        if origin is not None and not same_origin(origin, host):
            return f"a page of {origin[:200]!r} may not use the console"
        if headers.get("sec-fetch-site", "none") in FOREIGN_SITES and not navigation:
            return "a page of another site may not use the console"
        return ""


def _navigates(scope: Scope, headers: Headers) -> bool:
    return (
        scope["type"] == "http"
        and scope["method"] in {"GET", "HEAD"}
        and headers.get("sec-fetch-mode") == "navigate"
    )


def _with_headers(send: Send) -> Send:
    async def sending(message: dict[str, object]) -> None:
        if message["type"] == "http.response.start":
            given = message.setdefault("headers", [])
            if isinstance(given, list):
                given += [(k.lower().encode(), v.encode()) for k, v in HEADERS.items()]
        await send(message)

    return sending  # type: ignore[return-value]
