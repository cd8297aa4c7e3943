"""A route of the admin API: its method, its path, its parameters, and the handler that serves it.

Every request passes the same checks before its handler runs: the names in its path are valid, and
its body has the shape that the route declares.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from types import MappingProxyType
from typing import Protocol, TypeVar
from urllib.parse import unquote, unquote_plus

from aiohttp import web

from counterpoise.admin.access import AccessRule, word_of
from counterpoise.admin.client_limits import CLIENT_LIMITS
from counterpoise.admin.entrance import CALLER, require
from counterpoise.admin.parameters import PARAMETERS
from counterpoise.admin.protected import (
    changes_policies,
    concerns_system_topics,
    require_system_topics,
    require_writable_policies,
)
from counterpoise.admin.request import BODY, broker_of
from counterpoise.admin.shapes import FLAG, Schema, Shape
from counterpoise.broker.face import ORDERED_BY_LEADER

Handler = Callable[[web.Request], Awaitable[web.StreamResponse | None]]
"""Serves a request and returns the body of the response; None: status 204, without a body."""
H = TypeVar("H", bound=Handler)
Query = Mapping[str, Schema]
"""The parameters that a route's query may have, and the shape of each."""
NO_QUERY: Query = MappingProxyType({})

_HOLE = re.compile(r"\{(\w+)(?::(?:[^{}]|\{\d+\})*)?\}")
_NO_BODY = Shape({})
_JAVA = ("topic", "subscription")
"""Parameters that Pulsar decodes with ``URLDecoder``, to which ``+`` is a blank: a subscription's
name after JAX-RS has decoded it, since Java's client encodes it twice."""

AUTHORITATIVE: Query = {"authoritative": FLAG}
FORCE: Query = {"force": FLAG, **AUTHORITATIVE}


@dataclass(frozen=True, slots=True)
class Route:
    """One HTTP method of one path, with its handler and requirements."""

    method: str
    path: str
    """The path as aiohttp writes it, with ``{name}`` or ``{name:expression}``."""
    handler: Handler
    access: AccessRule
    """Which callers the route permits."""
    body: Shape | None = None
    """The shape of the body; None if the route takes none."""
    query: Query = field(default_factory=dict)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters in its path, in order."""
        return tuple(_HOLE.findall(self.path))

    @property
    def template(self) -> str:
        """The path with its parameters as OpenAPI writes them."""
        return _HOLE.sub(r"{\1}", self.path)

    def definition(self) -> web.RouteDef:
        """The route for aiohttp, with the checks before its handler."""
        checks = [(name, PARAMETERS[name].check) for name in self.parameters]
        segments = self.template.split("/")
        encoded = [
            (name, segments.index(f"{{{name}}}")) for name in self.parameters if name in _JAVA
        ]
        shape = self.body or _NO_BODY
        word, changes = word_of(self.template), changes_policies(self.method, self.template)
        is_unload = self.template.endswith("/{bundle}/unload")

        async def enter(request: web.Request) -> web.StreamResponse:
            for name, position in encoded:
                raw = request.rel_url.raw_path.split("/")[position]
                once = unquote(raw) if name == "subscription" else raw
                request.match_info[name] = unquote_plus(once)
            for name, check in checks:
                check(request.match_info[name])
            await require(request, self.access, word)
            if changes:
                ordered_by = request.headers.get(ORDERED_BY_LEADER) if is_unload else None
                await require_writable_policies(broker_of(request), ordered_by)
            if concerns_system_topics(self.method, self.template, request.match_info):
                broker = broker_of(request)
                await require_system_topics(broker, request[CALLER], request.match_info)
            if self.body is not None:
                request[BODY] = shape.read(await request.app[CLIENT_LIMITS].body(request))
            found = await self.handler(request)
            return web.Response(status=HTTPStatus.NO_CONTENT) if found is None else found

        make = {"GET": web.get, "PUT": web.put, "POST": web.post, "DELETE": web.delete}
        path = self.path
        for name in _JAVA:
            # aiohttp's default for a parameter matches no braces.
            path = path.replace(f"{{{name}}}", f"{{{name}:[^/]+}}")
        return make[self.method](path, enter)


class Decorator(Protocol):
    """Adds a route with the handler that it decorates, and returns the handler unchanged."""

    def __call__(self, handler: H) -> H:
        """Add the route that this handler serves, and return the handler."""


class Routes(list[Route]):
    """The routes of one resource, in the order in which paths are matched.

    Each method decorates a handler; its second argument is what the route requires of its caller
    (`access.py`).
    """

    def get(self, path: str, access: AccessRule, query: Query = NO_QUERY) -> Decorator:
        """Decorate the handler of a GET route, which reads."""
        return self._added("GET", path, access, None, query)

    def put(
        self, path: str, access: AccessRule, body: Shape | None = None, query: Query = NO_QUERY
    ) -> Decorator:
        """Decorate the handler of a PUT route, which creates or replaces."""
        return self._added("PUT", path, access, body, query)

    def post(
        self, path: str, access: AccessRule, body: Shape | None = None, query: Query = NO_QUERY
    ) -> Decorator:
        """Decorate the handler of a POST route, which changes or starts something."""
        return self._added("POST", path, access, body, query)

    def delete(self, path: str, access: AccessRule, query: Query = NO_QUERY) -> Decorator:
        """Decorate the handler of a DELETE route, which removes."""
        return self._added("DELETE", path, access, None, query)

    def _added(
        self, method: str, path: str, access: AccessRule, body: Shape | None, query: Query
    ) -> Decorator:
        def add(handler: H) -> H:
            self.append(Route(method, path, handler, access, body, query))
            return handler

        return add
