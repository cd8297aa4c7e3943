"""Who is behind a request to the admin API, and what its description says of each route."""

import json
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from counterpoise.admin.app import all_routes
from counterpoise.admin.entrance import CALLER, ORIGINAL, authenticate
from counterpoise.admin.errors import RestError
from counterpoise.admin.openapi import describe
from counterpoise.admin.request import BROKER
from counterpoise.admin.rest.brokers import health
from counterpoise.admin.rest.configuration import HIDDEN, runtime
from counterpoise.broker.config import BrokerConfig
from counterpoise.security.authentication import Authentication
from counterpoise.security.authorization import Caller
from counterpoise.security.identity import AuthenticationError, Credentials, Principal
from counterpoise.security.options import AuthenticationOptions


class OnlyAnn:
    """Takes one token, whose role is ann."""

    method = "token"

    async def authenticate(self, shown: Credentials) -> Principal:
        if shown.data != b"hers":
            raise AuthenticationError("not hers")
        return Principal("ann")


async def caller(path: str, headers: dict[str, str], **options: Any) -> Caller:
    """Who a handler is to believe made a request; raises `RestError` where it is refused."""
    settings = AuthenticationOptions(**{"enabled": True, **options})
    security = SimpleNamespace(
        authentication=Authentication(settings, [OnlyAnn()]), authorization=None
    )
    config = SimpleNamespace(authentication=settings)
    broker: Any = SimpleNamespace(id="b:1", config=config, security=security)
    found: list[Caller] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        found.append(request[CALLER])
        return web.Response()

    request = make_mocked_request("GET", path, headers=headers)
    await authenticate(broker)(request, handler)
    [made] = found
    return made


@pytest.mark.parametrize("metrics", [False, True])
@pytest.mark.parametrize("path", ["/status.html", "/metrics", "/metrics/", "/admin/v2/tenants"])
async def test_without_credentials_only_what_is_open_to_all_is_answered(
    path: str, metrics: bool
) -> None:
    is_open = path == "/status.html" or (path.startswith("/metrics") and not metrics)
    if is_open:
        assert await caller(path, {}, authenticate_metrics=metrics) == Caller(None)
    else:
        with pytest.raises(RestError, match="Authentication required") as refused:
            await caller(path, {}, authenticate_metrics=metrics)
        assert refused.value.status == 401
    shown = {"Authorization": "Bearer hers"}
    assert await caller(path, shown, authenticate_metrics=metrics) == Caller(
        None if is_open else "ann"
    )


@pytest.mark.parametrize(("named", "original"), [("bob", "bob"), ("", None), (None, None)])
async def test_a_request_may_name_for_whom_it_is(named: str | None, original: str | None) -> None:
    about = {} if named is None else {ORIGINAL: named}
    shown = {"Authorization": "Bearer hers", **about}
    assert await caller("/admin/v2/tenants", shown) == Caller("ann", original)
    assert await caller("/admin/v2/tenants", about, enabled=False) == Caller(None, original)


@pytest.mark.parametrize(
    ("ready", "listed", "well"),
    [(True, ["a:1", "b:1"], True), (False, ["a:1", "b:1"], False), (True, ["a:1"], False)],
)
async def test_a_broker_is_well_once_it_serves_and_is_listed(
    ready: bool, listed: list[str], well: bool
) -> None:
    app = web.Application()
    active = AsyncMock(return_value=listed)
    app[BROKER] = SimpleNamespace(id="b:1", is_ready=ready, active_brokers=active)  # type: ignore[misc]
    request = make_mocked_request("GET", "/admin/v2/brokers/health", app=app)
    if well:
        assert (await health(request)).text == "ok"
    else:
        with pytest.raises(RestError, match="not registered") as refused:
            await health(request)
        assert refused.value.status == 503


async def test_a_secret_is_in_no_list_of_settings() -> None:
    options = AuthenticationOptions(secret_key="hush", providers=("a", "b"), enabled=True)
    app = web.Application()
    app[BROKER] = SimpleNamespace(config=BrokerConfig(authentication=options))  # type: ignore[misc]
    shown = (await runtime(make_mocked_request("GET", "/x", app=app))).text
    assert shown is not None
    assert "hush" not in shown
    settings = json.loads(shown)
    assert settings["tokenSecretKey"] == HIDDEN
    assert settings["basicAuthConf"] == "", "none is set"
    assert (settings["authenticationProviders"], settings["authenticationEnabled"]) == (
        "a,b",
        "true",
    )


def test_the_description_has_each_route_with_its_parameters_and_its_body() -> None:
    paths = describe(all_routes())["paths"]
    for route in all_routes():
        operation = paths[route.template][route.method.lower()]
        named = [(each["in"], each["name"]) for each in operation["parameters"]]
        assert named == [
            *(("path", name) for name in route.parameters),
            *(("query", name) for name in route.query),
        ]
        assert ("requestBody" in operation) == (route.body is not None)
    assert sum(map(len, paths.values())) == len({(r.method, r.template) for r in all_routes()})
