"""Authenticates the caller of every request to the admin API, before anything else is checked."""

import logging
from http import HTTPStatus
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Middleware

from counterpoise.admin.access import AccessRule
from counterpoise.admin.errors import Handler, RestError
from counterpoise.admin.permission import AccessRequest, permit
from counterpoise.admin.request import broker_of
from counterpoise.broker.face import Broker
from counterpoise.security.authorization import Caller
from counterpoise.security.identity import AuthenticationError

log = logging.getLogger(__name__)

CALLER = web.RequestKey("caller", Caller)
ORIGINAL: Final = "X-Original-Principal"
OPEN: Final = frozenset({"/status.html"})
"""Paths that need no authentication, so that load balancers can probe them."""
METRICS: Final = frozenset({"/metrics", "/metrics/"})


def authenticate(broker: Broker) -> Middleware:
    """The middleware that authenticates a caller of the admin API; 401 if that fails."""
    believes = broker.security.authentication
    open_to_all = OPEN
    if not broker.config.authentication.authenticate_metrics:
        open_to_all |= METRICS

    @web.middleware
    async def find_out(request: web.Request, handler: Handler) -> web.StreamResponse:
        role = None
        if believes.enabled and request.path not in open_to_all:
            certificate = None
            if request.transport is not None:
                certificate = request.transport.get_extra_info("peercert")
            try:
                role = (await believes.of_request(request.headers, certificate)).role
            except AuthenticationError as error:
                log.info("%s is not let in: %s", request.remote, error)
                raise RestError(HTTPStatus.UNAUTHORIZED, "Authentication required") from None
        request[CALLER] = Caller(role, request.headers.get(ORIGINAL) or None)
        return await handler(request)

    return find_out


async def require(request: web.Request, rule: AccessRule, word: str) -> None:
    """Return if the caller may make this request by ``rule``; otherwise raise `RestError`.

    ``word``: the policy's name in the path.
    """
    broker = broker_of(request)
    rules = broker.security.authorization
    if not rules.enabled:
        return
    access = AccessRequest(request.method, dict(request.match_info), word, broker.id)
    await permit(rules, request[CALLER], rule, access)
