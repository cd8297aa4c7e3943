"""A lookup by HTTP: what is asked of the broker, and what becomes of its answer."""

from types import SimpleNamespace

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from counterpoise.admin.errors import RestError
from counterpoise.admin.request import BROKER
from counterpoise.admin.rest.lookup import LISTENER_HEADER, lookup
from counterpoise.broker.base.advertised import SERVICE_URL, SERVICE_URL_TLS
from counterpoise.broker.bundles.lookup_result import LookupConnect, LookupRedirect, LookupResult
from counterpoise.broker.face import BrokerError

OUTSIDE = {"out": {SERVICE_URL: "pulsar://out:1", SERVICE_URL_TLS: "pulsar+ssl://out:2"}}
OWNER = LookupConnect(
    broker_id="b:1",
    service_url="pulsar://b:3",
    web_url="http://b:1",
    service_url_tls="pulsar+ssl://b:4",
    web_url_tls="https://b:5",
    listeners=OUTSIDE,
)
PATH = "/lookup/v2/topic/persistent/t/n/x%20y"
NAMES = {"kind": "topic", "domain": "persistent", "tenant": "t", "namespace": "n", "topic": "x y"}


async def looked_up(
    found: LookupResult,
    query: str = "",
    listener: str = "",
    *,
    exists: bool = True,
    usable: bool = True,
) -> tuple[web.Response, list[object]]:
    """The answer, and what the broker was asked."""
    asked: list[object] = []

    async def namespace(name: object) -> dict[str, object] | None:
        assert str(name) == "t/n"
        return {} if exists else None

    async def of_topic(topic: object, *, authoritative: bool) -> LookupResult:
        asked.extend((str(topic), authoritative))
        return found

    async def is_usable(_: object) -> bool:
        return usable

    app = web.Application()
    app[BROKER] = SimpleNamespace(  # type: ignore[misc]
        policies=SimpleNamespace(namespace=namespace),
        catalog=SimpleNamespace(is_usable=is_usable),
        namespaces=SimpleNamespace(lookup=of_topic),
    )
    headers = {LISTENER_HEADER: listener} if listener else {}
    request = make_mocked_request("GET", PATH + query, headers, app=app, match_info=NAMES)
    return await lookup(request), asked


@pytest.mark.parametrize(
    ("query", "authoritative"),
    [("", False), ("?authoritative=true", True), ("?authoritative=false", False)],
)
async def test_the_owner_is_named_by_all_of_its_addresses(query: str, authoritative: bool) -> None:
    answer, asked = await looked_up(OWNER, query)
    assert asked == ["persistent://t/n/x y", authoritative]
    assert answer.text == (
        '{"brokerUrl": "pulsar://b:3", "brokerUrlTls": "pulsar+ssl://b:4", "brokerUrlSsl": "", '
        '"httpUrl": "http://b:1", "httpUrlTls": "https://b:5", "nativeUrl": "pulsar://b:3"}'
    )


@pytest.mark.parametrize(
    ("query", "header"), [("?listenerName=out", ""), ("", "out"), ("?listenerName=out", "none")]
)
async def test_a_listener_is_named_by_the_query_or_by_a_header(query: str, header: str) -> None:
    answer, _ = await looked_up(OWNER, query, header)
    assert '"brokerUrl": "pulsar://out:1", "brokerUrlTls": "pulsar+ssl://out:2"' in str(answer.text)
    with pytest.raises(BrokerError, match="the broker do not have none listener"):
        await looked_up(OWNER, "", "none")


@pytest.mark.parametrize("authoritative", [True, False])
async def test_another_broker_decides(authoritative: bool) -> None:
    there = LookupRedirect("c:1", "pulsar://c:3", web_url="http://c:1", authoritative=authoritative)
    with pytest.raises(web.HTTPTemporaryRedirect) as redirect:
        await looked_up(there, "?authoritative=true")
    text = str(authoritative).lower()
    assert redirect.value.headers["Location"] == f"http://c:1{PATH}?authoritative={text}"


@pytest.mark.parametrize("missing", ["Namespace", "Topic"])
async def test_what_is_not_there(missing: str) -> None:
    with pytest.raises(RestError, match=f"{missing} not found") as refused:
        await looked_up(OWNER, exists=missing != "Namespace", usable=missing != "Topic")
    assert refused.value.status == 404
