"""Each verb of a topic or a bundle, asked at a broker that does not own it."""

import contextlib
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from yarl import URL

from counterpoise import Cluster
from counterpoise.admin.app import all_routes
from counterpoise.admin.errors import RestError
from counterpoise.admin.redirect import PEERS, ask, require_leader, to_broker
from counterpoise.admin.request import BROKER
from counterpoise.admin.route import Route
from tests.admin.conftest import Api

TOPIC = "/admin/v2/{domain}/{tenant}/{namespace}/{topic}"
SUBSCRIPTION = TOPIC + "/subscription/{subscription}"
BUNDLE = "/admin/v2/namespaces/{tenant}/{namespace}/{bundle}"
NAMES = {
    "domain": "persistent",
    "tenant": "t",
    "namespace": "redirected",
    "topic": "here",
    "subscription": "s",
    "count": "1",
    "timestamp": "0",
    "messagePosition": "1",
    "role": "r",
    "ledgerId": "0",
    "entryId": "0",
    "expireTimeInSeconds": "10",
    "version": "0",
    "kind": "topic",
    "mostSigBits": "0",
    "leastSigBits": "0",
    "bundle": "0x00000000_0xffffffff",
}
TRANSACTIONS = "/admin/v3/transactions"
IN_TOPIC = "{tenant}/{namespace}/{topic}"
ID = "{mostSigBits}/{leastSigBits}"
POSITION = {"ledgerId": 0, "entryId": 0}
OWNERS: dict[tuple[str, str], Any] = {
    ("PUT", f"{BUNDLE}/unload"): None,
    ("PUT", f"{BUNDLE}/split"): None,
    ("DELETE", BUNDLE): None,
    ("GET", "/admin/v2/non-persistent/{tenant}/{namespace}/{bundle}"): None,
    ("PUT", f"{TOPIC}/unload"): None,
    ("DELETE", TOPIC): None,
    ("GET", f"{TOPIC}/stats"): None,
    ("GET", f"{TOPIC}/internalStats"): None,
    ("GET", f"{TOPIC}/internal-info"): None,
    ("GET", f"{TOPIC}/properties"): None,
    ("GET", f"{TOPIC}/lastMessageId"): None,
    ("GET", f"{TOPIC}/examinemessage"): None,
    ("GET", f"{TOPIC}/messageid/{{timestamp}}"): None,
    ("GET", f"{TOPIC}/ledger/{{ledgerId}}/entry/{{entryId}}"): None,
    ("GET", f"{TOPIC}/subscriptions"): None,
    ("PUT", f"{TOPIC}/backlogSize"): None,
    ("POST", f"{TOPIC}/trim"): None,
    ("PUT", f"{TOPIC}/compaction"): None,
    ("GET", f"{TOPIC}/compaction"): None,
    ("GET", f"{TOPIC}/offload"): None,
    ("PUT", f"{TOPIC}/offload"): POSITION,
    ("POST", f"{TOPIC}/terminate"): None,
    ("DELETE", f"{TOPIC}/truncate"): None,
    ("POST", f"{TOPIC}/all_subscription/expireMessages/{{expireTimeInSeconds}}"): None,
    ("PUT", SUBSCRIPTION): None,
    ("DELETE", SUBSCRIPTION): None,
    ("GET", f"{SUBSCRIPTION}/properties"): None,
    ("PUT", f"{SUBSCRIPTION}/properties"): {},
    ("GET", f"{SUBSCRIPTION}/position/{{messagePosition}}"): None,
    ("POST", f"{SUBSCRIPTION}/analyzeBacklog"): None,
    ("POST", f"{SUBSCRIPTION}/expireMessages"): {"ledgerId": 0, "entryId": 0},
    ("POST", f"{SUBSCRIPTION}/expireMessages/{{expireTimeInSeconds}}"): None,
    ("POST", f"{SUBSCRIPTION}/resetcursor"): POSITION,
    ("POST", f"{SUBSCRIPTION}/resetcursor/{{timestamp}}"): None,
    ("POST", f"{SUBSCRIPTION}/skip/{{count}}"): None,
    ("POST", f"{SUBSCRIPTION}/skip_all"): None,
    ("GET", f"{TRANSACTIONS}/transactionBufferStats/{IN_TOPIC}"): None,
    ("GET", f"{TRANSACTIONS}/transactionBufferInternalStats/{IN_TOPIC}"): None,
    ("GET", f"{TRANSACTIONS}/transactionInBufferStats/{IN_TOPIC}/{ID}"): None,
    ("GET", f"{TRANSACTIONS}/pendingAckStats/{IN_TOPIC}/{{subscription}}"): None,
    ("GET", f"{TRANSACTIONS}/pendingAckInternalStats/{IN_TOPIC}/{{subscription}}"): None,
    ("GET", f"{TRANSACTIONS}/transactionInPendingAckStats/{IN_TOPIC}/{{subscription}}/{ID}"): None,
    (
        "GET",
        f"{TRANSACTIONS}/positionStatsInPendingAck/{IN_TOPIC}/{{subscription}}"
        "/{ledgerId}/{entryId}",
    ): None,
}
"""What only the owner can do, with a body that lets the request in."""
ALL = [each for each in all_routes() if "{topic}" in each.template or "{bundle}" in each.template]
SHARED = [
    each
    for each in ALL
    if (each.method, each.template) not in OWNERS and (each.method, each.template) != ("PUT", TOPIC)
]
"""What any broker can do, because the metadata store has it, or because it asks the others."""


@dataclass(frozen=True)
class Place:
    """A cluster of three, where the topic is, and a broker that does not have it."""

    cluster: Cluster
    owner: str
    elsewhere: Api
    leader: str


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with Cluster(brokers=3, config={"transactionCoordinatorEnabled": True}) as cluster:
        api = Api(cluster.admin_url)
        namespace = "/admin/v2/namespaces/t/redirected"
        assert api("PUT", "/admin/v2/tenants/t", {"allowedClusters": ["standalone"]}).status == 204
        assert api("PUT", namespace, {"bundles": {"numBundles": 1}}).status == 204
        at = path_of(TOPIC)
        assert api("PUT", at).status == 204
        owner = cluster.owner("persistent://t/redirected/here")
        assert owner is not None
        others = [each for each in cluster.brokers if each is not owner]
        not_leading = next((each for each in others if not each.is_leader), others[0])
        leader = next(each for each in cluster.brokers if each.is_leader)
        yield Place(cluster, owner.admin_url, Api(not_leading.admin_url), leader.admin_url)


def path_of(template: str, **more: str) -> str:
    return template.format(**{**NAMES, **more})


@pytest.mark.parametrize(("method", "template"), OWNERS, ids=" ".join)
def test_the_wrong_broker_names_the_owner(place: Place, method: str, template: str) -> None:
    path = path_of(template)
    redirect = place.elsewhere(method, path, OWNERS[method, template], follow=False)
    assert redirect.status == 307, redirect
    assert redirect.location is not None
    assert redirect.location.partition("?")[0] == place.owner + path


def test_a_new_topic_is_made_by_the_owner_of_its_bundle(place: Place) -> None:
    path = path_of(TOPIC, topic="new")
    redirect = place.elsewhere("PUT", path, follow=False)
    assert (redirect.status, redirect.location) == (307, f"{place.owner}{path}?authoritative=false")


def test_an_unload_of_an_unowned_bundle_to_a_destination_goes_to_the_leader(place: Place) -> None:
    namespace = "/admin/v2/namespaces/t/unowned"
    assert place.elsewhere("PUT", namespace, {"bundles": {"numBundles": 1}}).status == 204
    target = place.owner.removeprefix("http://")
    path = f"{namespace}/0x00000000_0xffffffff/unload?destinationBroker={target}"
    follower = next(each for each in place.cluster.brokers if each.admin_url != place.leader)
    redirect = Api(follower.admin_url)("PUT", path, follow=False)
    assert redirect.status == 307
    assert redirect.location is not None
    assert redirect.location.startswith(f"{place.leader}{namespace}/0x00000000_0xffffffff/unload")


@pytest.mark.parametrize("route", SHARED, ids=lambda it: f"{it.method} {it.template}")
def test_what_every_broker_knows_needs_no_owner(place: Place, route: Route) -> None:
    redirect = place.elsewhere(route.method, path_of(route.template, topic="none"), follow=False)
    assert redirect.status != 307, "say in OWNERS what only the owner can do"
    assert redirect.status < 500, redirect


def test_the_table_has_no_route_that_is_not_there() -> None:
    assert {*OWNERS} <= {(each.method, each.template) for each in ALL}
    assert all(re.fullmatch(r"[^{}]*", path_of(template)) for _, template in OWNERS)


@pytest.mark.parametrize(
    ("scheme", "tls", "there"),
    [
        ("http", "https://b:8443", "http://b:8080"),
        ("https", "https://b:8443", "https://b:8443"),
        ("https", None, None),
    ],
)
def test_a_request_that_came_by_tls_is_never_redirected_to_plain_http(
    scheme: str, tls: str | None, there: str | None
) -> None:
    request = make_mocked_request("GET", "/admin/v2/x%2Fy?a=1").clone(scheme=scheme)
    with pytest.raises((web.HTTPTemporaryRedirect, RestError)) as found:
        to_broker(request, "http://b:8080", tls)
    if there is None:
        assert isinstance(found.value, RestError)
        assert found.value.status == 412
    else:
        assert isinstance(found.value, web.HTTPTemporaryRedirect)
        assert str(found.value.location) == f"{there}/admin/v2/x%2Fy?a=1&authoritative=false"


class Peers:
    """Answers every request with no content, and remembers where they went."""

    def __init__(self) -> None:
        self.urls: list[str] = []

    @contextlib.asynccontextmanager
    async def request(self, method: str, url: URL, json: object) -> AsyncIterator[SimpleNamespace]:
        del method, json
        self.urls.append(str(url))
        yield SimpleNamespace(status=204)


@pytest.mark.parametrize(
    ("tls", "plain_url", "tls_url", "there"),
    [
        (True, "http://b:1", "https://b:2", "https://b:2"),
        (True, "http://b:1", None, "http://b:1"),
        (False, "http://b:1", "https://b:2", "http://b:1"),
        (False, None, "https://b:2", "https://b:2"),
    ],
)
async def test_brokers_ask_each_other_by_tls_where_their_client_uses_it(
    tls: bool, plain_url: str | None, tls_url: str | None, there: str
) -> None:
    async def report_of(broker_id: str) -> SimpleNamespace | None:
        found = SimpleNamespace(web_service_url=plain_url, web_service_url_tls=tls_url)
        return found if broker_id == "b" else None

    app, peers = web.Application(), Peers()
    app[BROKER] = SimpleNamespace(  # type: ignore[misc]
        config=SimpleNamespace(client=SimpleNamespace(tls=tls)),
        addresses=SimpleNamespace(web_url=plain_url, web_url_tls=tls_url),
        report_of=report_of,
    )
    app[PEERS] = peers  # type: ignore[misc]
    request = make_mocked_request("GET", "/", app=app)
    assert await ask(request, "GET", "/x") is None
    assert await ask(request, "GET", "/y", broker_id="b") is None
    assert peers.urls == [f"{there}/x", f"{there}/y"]
    with pytest.raises(RestError, match="web service url"):
        await ask(request, "GET", "/z", broker_id="gone")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"reason": "it is gone"}, "it is gone"),
        ({"error": "it is gone"}, "Bad Gateway"),
        (["reason"], "Bad Gateway"),
        (ValueError("no JSON"), "Bad Gateway"),
    ],
)
async def test_the_refusal_of_another_broker_keeps_status_and_reason(
    body: object, reason: str
) -> None:
    async def json_of(content_type: object) -> object:
        assert content_type is None, "whatever a proxy calls it"
        if isinstance(body, Exception):
            raise body
        return body

    @contextlib.asynccontextmanager
    async def request_of(*_: object, **__: object) -> AsyncIterator[SimpleNamespace]:
        yield SimpleNamespace(status=502, reason="Bad Gateway", json=json_of)

    app = web.Application()
    app[BROKER] = SimpleNamespace(  # type: ignore[misc]
        config=SimpleNamespace(client=SimpleNamespace(tls=False)),
        addresses=SimpleNamespace(web_url="http://b:1", web_url_tls=None),
    )
    app[PEERS] = SimpleNamespace(request=request_of)  # type: ignore[misc]
    with pytest.raises(RestError) as refused:
        await ask(make_mocked_request("GET", "/", app=app), "GET", "/x")
    assert (refused.value.status, refused.value.reason) == (502, reason)


@pytest.mark.parametrize(
    ("leader", "leads", "refused"),
    [
        (None, False, "The current leader is empty."),
        (None, True, None),
        ("gone:1", False, "broker gone:1 has left; ask again"),
        ("c:1", False, None),
    ],
)
async def test_what_the_leader_decides_is_asked_of_the_leader(
    leader: str | None, leads: bool, refused: str | None
) -> None:
    async def report_of(broker_id: str) -> SimpleNamespace | None:
        there = SimpleNamespace(web_service_url="http://c:1", web_service_url_tls=None)
        return there if broker_id == "c:1" else None

    app = web.Application()
    app[BROKER] = SimpleNamespace(  # type: ignore[misc]
        is_leader=leads,
        leader=lambda: leader and SimpleNamespace(broker_id=leader),
        report_of=report_of,
    )
    request = make_mocked_request("PUT", "/x?a=1", app=app)
    if leads:
        assert await require_leader(request) is None
        return
    with pytest.raises((RestError, web.HTTPTemporaryRedirect)) as found:
        await require_leader(request)
    if isinstance(found.value, RestError):
        assert (found.value.status, found.value.reason) == (412, refused)
    else:
        location = found.value.headers["Location"]
        assert (refused, location) == (None, "http://c:1/x?a=1&authoritative=false")
