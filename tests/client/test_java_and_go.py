"""The official Java and Go clients, by TLS and with tokens: each in a process of its own."""

import json
import ssl
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from counterpoise import Cluster
from tests.client.official.driver import Driver, Refused, started
from tests.security.tokens import token as other_keys_token

pytestmark = pytest.mark.client


@dataclass(frozen=True)
class Words:
    """How a client says that it was refused; one tries until its time is over, and says little."""

    within_s: float
    unknown: str
    forbidden: str
    no_trust: str


WORDS = {
    "java": Words(10, "AuthenticationException", "AuthorizationException", "ClientException"),
    "go": Words(0.3, "connection error", "AuthorizationError", "connection error"),
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """No plain port at all."""
    config = {"brokerServicePort": "", "webServicePort": ""}
    with Cluster(brokers=3, tls=True, tokens=True, config=config) as cluster:
        yield cluster


@pytest.fixture(scope="module", params=("java", "go"))
def client(request: pytest.FixtureRequest) -> Iterator[Driver]:
    """One process for the module: a JVM takes its time."""
    with started(request.param) as driver:
        yield driver


@pytest.fixture(scope="module")
def words(client: Driver) -> Words:
    return WORDS[client.name]


def connect(client: Driver, cluster: Cluster, url: str = "", **how: Any) -> None:
    """As ``admin``, unless another token is given."""
    client("close")
    client(
        "connect",
        **{
            "url": url or cluster.service_url_tls,
            "trust": cluster.security.trust_certs,
            "token": cluster.security.token("admin"),
            "within_s": 10,
            **how,
        },
    )


def admin(cluster: Cluster, method: str, path: str, body: object = None) -> Any:
    request = urllib.request.Request(
        f"{cluster.admin_url_tls}/admin/v2/{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    request.add_header("Authorization", f"Bearer {cluster.security.token('admin')}")
    context = ssl.create_default_context(cafile=cluster.security.trust_certs)
    with urllib.request.urlopen(request, context=context, timeout=60) as response:
        text = response.read()
    return json.loads(text) if text else None


def test_through_every_broker_and_a_move(client: Driver, cluster: Cluster, topic: str) -> None:
    """Whichever broker is asked sends the client to the owner; a move loses nothing."""
    sent = []
    for number, broker in enumerate(cluster.brokers):
        connect(client, cluster, broker.service_url)
        client("produce", topic=topic, payload=f"by-{number}", count=20)
        sent += [f"by-{number}-{each}" for each in range(20)]
    client("subscribe", topic=topic)
    before = cluster.owner(topic)
    assert before is not None
    after = cluster.unload(topic, next(each for each in cluster.brokers if each is not before))
    assert cluster.owner(topic) is after
    client("produce", topic=topic, payload="moved", count=20)
    sent += [f"moved-{each}" for each in range(20)]
    received: list[str] = []
    while set(sent) - set(received):
        received += client("consume", topic=topic, count=1)
    # What was fetched and not acknowledged before the move may come twice.
    assert list(dict.fromkeys(received)) == sent


def test_a_rate_limit_holds_it_back(client: Driver, cluster: Cluster, topic: str) -> None:
    connect(client, cluster)
    namespace = f"public/{topic.rpartition('/')[2]}"
    admin(cluster, "PUT", f"namespaces/{namespace}", {})
    limited = f"persistent://{namespace}/t"
    rate = {"publishThrottlingRateInMsg": 100, "publishThrottlingRateInByte": -1}
    admin(cluster, "POST", f"namespaces/{namespace}/publishRate", rate)
    client("produce", topic=limited, payload="slow", count=250)
    client("subscribe", topic=limited)
    received = client("consume", topic=limited, count=250)
    assert received == [f"slow-{number}" for number in range(250)]
    owner = cluster.owner(limited)
    assert owner is not None
    stats = admin(cluster, "GET", f"persistent/{namespace}/t/stats")
    assert stats["publishRateLimitedTimes"] > 0


NOT_BY_HTTPS = r"401|Unauthorized"
UNSIGNED = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9."


def test_who_cannot_prove_who_they_are_is_refused(
    client: Driver, words: Words, cluster: Cluster, topic: str
) -> None:
    """On both ports, whatever is wrong with what they show."""
    shown = {
        "nothing": None,
        "another key's": other_keys_token("admin"),
        "expired": cluster.security.token("admin", expires_in_s=-60),
        "unsigned": UNSIGNED,
        "no token": "admin",
        "too long": "A" * 900_000,
    }
    for what, each in shown.items():
        connect(client, cluster, token=each, within_s=words.within_s)
        with pytest.raises(Refused, match=words.unknown):
            client("produce", topic=topic, payload=what, count=1)
    connect(client, cluster, cluster.admin_url_tls, token=shown["expired"], within_s=1)
    with pytest.raises(Refused, match=NOT_BY_HTTPS):
        client("produce", topic=topic, payload="by HTTPS", count=1)


def test_a_role_without_a_grant_is_refused(
    client: Driver, words: Words, cluster: Cluster, topic: str
) -> None:
    token = cluster.security.token("stranger")
    for url, message in (
        (cluster.service_url_tls, words.forbidden),
        (cluster.admin_url_tls, NOT_BY_HTTPS),
    ):
        # By HTTP, Java's client tries until its time is over.
        within_s = 1 if url == cluster.admin_url_tls else 10
        connect(client, cluster, url, token=token, within_s=within_s)
        with pytest.raises(Refused, match=message):
            client("produce", topic=topic, payload="x", count=1)
        with pytest.raises(Refused, match=message):
            client("subscribe", topic=topic)


def test_a_client_that_trusts_another_authority_does_not_connect(
    client: Driver, words: Words, cluster: Cluster, topic: str
) -> None:
    connect(client, cluster, trust="", within_s=min(words.within_s, 1))
    with pytest.raises(Refused, match=words.no_trust):
        client("produce", topic=topic, payload="x", count=1)
