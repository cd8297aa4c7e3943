"""What the verbs ask of a broker is what `docs/REQUESTS.md` says, and nothing else.

`FakeCluster` fails each test that used it when a request is in no row of the page.
"""

import asyncio
import json

import pytest

from counterpoise.app.main import main
from counterpoise.app.verbs import split
from counterpoise.names.load_managers import MODULAR
from tests.pipeline.fake_cluster import FakeCluster, topic_of, wide_bundle
from tests.pipeline.requests_table import RequestRow, listed_requests, unlisted

EXIT_USAGE = 2
TOPIC = topic_of(wide_bundle(0))
CONFIGURATION = "/admin/v2/brokers/configuration"
HARMFUL = [
    ("GET", "/admin/v2/persistent/public/default?bundle=0x00000000_0x10000000"),
    ("GET", "/admin/v2/non-persistent/public/default?bundle=0x00000000_0x10000000"),
    ("GET", "/admin/v2/namespaces/public/default/topics"),
    ("DELETE", "/admin/v2/namespaces/public/default"),
    ("PUT", "/admin/v2/namespaces/public/default/0x00000000_0x10000000/unload?force=true"),
]


def test_a_request_that_is_in_no_row_is_found() -> None:
    assert unlisted(HARMFUL) == HARMFUL
    assert unlisted([("GET", "/admin/v2/persistent/public/default")]) == []


@pytest.mark.parametrize("row", listed_requests(), ids=lambda row: f"{row.method} {row.path}")
def test_each_row_fits_what_it_names(row: RequestRow) -> None:
    named = row.named(
        cluster="real", broker="b:8080", tenant="t", namespace="n", topic="a", group="g",
        bundle="0x00000000_0x10000000", unload="false", algorithm="flow",
    )  # fmt: skip
    assert row.fits(row.method, named)


@pytest.mark.parametrize(
    "words",
    [
        ["brokers"],
        ["bundles"],
        ["topics", "public/default"],
        ["top", "--once"],
        ["unload", wide_bundle(0)],
        ["unload", wide_bundle(0), "--to", "{second}"],
        ["unload", "public/default"],
        ["unload", TOPIC],
        ["split", wide_bundle(0)],
        ["split", wide_bundle(0), "--algorithm", "range_equally_divide"],
        ["split", wide_bundle(0), "--at", "0x08000000"],
        ["advise"],
        ["drain", "{second}"],
        ["drain", "{second}", "--execute"],
        ["refill", "{second}"],
    ],
    ids=" ".join,
)
async def test_a_verb_asks_what_the_page_says(
    words: list[str], cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(split, "HEARD_WITHIN_S", 0.1)  # no bundle of this cluster is ever split
    first, second = [await cluster.add_broker() for _ in range(2)]
    for number in range(4):
        cluster.carry((first, second)[number % 2], wide_bundle(number), 1000.0 * number)
    for broker in cluster.brokers:
        broker.answers[f"{CONFIGURATION}/runtime"] = (
            200,
            json.dumps(
                {"loadManagerClassName": MODULAR, "loadBalancerSheddingEnabled": "false"}
            ).encode(),
        )
        broker.answers[f"{CONFIGURATION}/values"] = (200, b"{}")
    words = [each.format(second=second.name) for each in words]
    status = await asyncio.to_thread(main, [*words, "--admin-url", cluster.admin_url])
    assert status != EXIT_USAGE
    assert any(broker.requests for broker in cluster.brokers)
