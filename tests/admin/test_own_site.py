"""Pages of other sites cannot drive a broker through an administrator's browser; programs can."""

import http.client
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer, make_mocked_request

from counterpoise import Cluster
from counterpoise.admin.errors import RestError, answer_errors
from counterpoise.admin.own_site import own_site
from counterpoise.security.own_site import host_of

PATH = "/admin/v2/tenants"


def status(url: str, headers: dict[str, str], path: str = PATH) -> int:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)
    connection.putrequest("GET", path, skip_host=True)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    found = answer.read()
    connection.close()
    assert answer.status != 403 or b"reason" in found
    return answer.status


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Host": "{own}"}, 200),
        ({"Host": "localhost:8080"}, 200),
        ({"Host": "LOCALHOST."}, 200),
        ({"Host": "broker-1.localhost:8080"}, 200),
        ({"Host": "127.0.0.1:8080"}, 200),
        ({"Host": "[::1]:8080"}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Host": "evil.example:8080"}, 403),
        ({"Host": "localhost.evil.example"}, 403),
        ({"Host": "127.0.0.1.evil.example"}, 403),
        ({"Host": "{own}", "Origin": "http://{own}"}, 200),
        ({"Host": "{own}", "Origin": "http://evil.example"}, 403),
        ({"Host": "{own}", "Origin": "http://localhost:1"}, 403),
        ({"Host": "{own}", "Origin": "null"}, 403),
        ({"Host": "{own}", "Origin": "http://["}, 403),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 403),
        ({"Host": "{own}", "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Host": "{own}", "Sec-Fetch-Site": "none"}, 200),
        ({"Host": "{own}", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Host": "{own}", "Sec-Fetch-Site": "same-site"}, 403),
    ],
)
def test_who_may_ask(cluster: Cluster, headers: dict[str, str], expected: int) -> None:
    own = urlsplit(cluster.admin_url).netloc
    sent = {name: value.replace("{own}", own) for name, value in headers.items()}
    assert status(cluster.admin_url, sent) == expected


def test_a_link_from_elsewhere_may_lead_to_a_page_but_not_into_the_api(cluster: Cluster) -> None:
    own = urlsplit(cluster.admin_url).netloc
    headers = {"Host": own, "Sec-Fetch-Site": "cross-site"}
    assert status(cluster.admin_url, headers, "/status.html") == 200


async def test_a_broker_beyond_loopback_takes_the_names_that_its_network_has() -> None:
    config = SimpleNamespace(bind_address="0.0.0.0", advertised_address="10.0.0.1")
    guard = own_site(SimpleNamespace(config=config))  # type: ignore[arg-type]
    app = web.Application(middlewares=[answer_errors, guard])

    async def answer(_: web.Request) -> web.Response:
        return web.Response()

    app.router.add_get(PATH, answer)
    async with TestClient(TestServer(app)) as client:
        found = await client.get(PATH, headers={"Host": "pulsar.example:8080"})
        assert found.status == 200
        found = await client.get(PATH, headers={"Host": "a.example", "Origin": "http://b.example"})
        assert found.status == 403


@pytest.mark.parametrize("path", ["/admin/v2/x", "/lookup/v2/x", "/metrics", "/metrics/"])
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_no_part_of_the_api_is_for_pages_of_other_sites(path: str, site: str) -> None:
    config = SimpleNamespace(bind_address="0.0.0.0", advertised_address="10.0.0.1")
    guard = own_site(SimpleNamespace(config=config))  # type: ignore[arg-type]

    async def serve(_: web.Request) -> web.StreamResponse:
        return web.Response()

    request = make_mocked_request("GET", path, headers={"Host": "b:1", "Sec-Fetch-Site": site})
    with pytest.raises(RestError, match=f"a {site} page may not use this broker"):
        await guard(request, serve)


async def test_a_broker_on_loopback_takes_the_name_that_it_advertises() -> None:
    config = SimpleNamespace(bind_address="127.0.0.1", advertised_address="Pulsar.Example")
    guard = own_site(SimpleNamespace(config=config))  # type: ignore[arg-type]
    app = web.Application(middlewares=[answer_errors, guard])
    async with TestClient(TestServer(app)) as client:
        for host, status in (("pulsar.example:8080", 404), ("another.example:8080", 403)):
            assert (await client.get(PATH, headers={"Host": host})).status == status


@pytest.mark.parametrize(
    ("header", "host"),
    [("a:1", "a"), ("A.", "a"), ("[::1]:80", "::1"), ("[::1]", "::1"), ("", ""), ("::1", "::1")],
)
def test_the_host_of_a_header(header: str, host: str) -> None:
    assert host_of(header) == host
