"""Who is let in and what they may do, on both ports: by the official client and by hand."""

import json
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pulsar
import pytest

from counterpoise import Cluster
from counterpoise.security.authentication import Authentication
from counterpoise.security.authorization import Authorization
from counterpoise.security.tokens import TokenProvider
from counterpoise.wire.errors import ServerError
from tests.broker.connection.raw_client import RawClient
from tests.security.tokens import token
from tests.wire import frames
from tests.wire.frames import Type

SILENT = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
NO_REQUEST = (1 << 64) - 1


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2, tls=True, tokens=True) as cluster:
        yield cluster


def admin(
    cluster: Cluster, method: str, path: str, body: Any = None, *, shown: str | None = None
) -> tuple[int, Any]:
    """Ask the admin API by TLS, with a token; the status and what was said."""
    request = urllib.request.Request(
        f"{cluster.admin_url_tls}{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    if shown is not None:
        request.add_unredirected_header("Authorization", f"Bearer {shown}")
    context = ssl.create_default_context(cafile=cluster.security.trust_certs)
    try:
        with urllib.request.urlopen(request, context=context, timeout=60) as response:
            text = response.read()
            return response.status, json.loads(text) if text[:1] in (b"{", b"[") else text
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def client_of(cluster: Cluster, shown: str | None, within_s: int = 60) -> pulsar.Client:
    return pulsar.Client(
        cluster.service_url_tls,
        authentication=pulsar.AuthenticationToken(shown) if shown is not None else None,
        tls_trust_certs_file_path=cluster.security.trust_certs,
        operation_timeout_seconds=within_s,
        logger=SILENT,
    )


def grant(cluster: Cluster, role: str, *actions: str) -> None:
    path = f"/admin/v2/namespaces/public/default/permissions/{role}"
    reason = admin(cluster, "POST", path, list(actions), shown=cluster.security.token("admin"))
    assert reason[0] == 204


@pytest.mark.client
def test_a_role_does_what_it_was_granted_and_nothing_else(cluster: Cluster) -> None:
    grant(cluster, "writer", "produce")
    grant(cluster, "reader", "consume")
    topic = "persistent://public/default/granted"
    writer = client_of(cluster, cluster.security.token("writer"))
    reader = client_of(cluster, cluster.security.token("reader"))
    consumer = reader.subscribe(topic, "s")
    writer.create_producer(topic).send(b"for you")
    assert consumer.receive(60_000).data() == b"for you"
    with pytest.raises(pulsar.AuthorizationError):
        writer.subscribe(topic, "s2")
    with pytest.raises(pulsar.AuthorizationError):
        reader.create_producer(topic)
    ungranted = client_of(cluster, cluster.security.token("ungranted"))
    with pytest.raises(pulsar.AuthorizationError):
        ungranted.subscribe(topic, "s3")
    for client in (writer, reader, ungranted):
        client.close()


def wrong_tokens(cluster: Cluster) -> dict[str, str | None]:
    return {
        "none": None,
        "another key's": token("admin"),
        "expired": cluster.security.token("admin", expires_in_s=-60),
        "unsigned": "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9.",
        "no token": "admin",
    }


@pytest.mark.client
def test_who_cannot_prove_who_they_are_is_refused_on_both_ports(cluster: Cluster) -> None:
    def connect(shown: str | None) -> None:
        client = client_of(cluster, shown, within_s=1)
        # To this client a refused CONNECT is a connection to try again, as on Pulsar itself.
        with pytest.raises((pulsar.Timeout, pulsar.ConnectError, pulsar.AuthenticationError)):
            client.create_producer("public/default/refused")
        client.close()

    wrong = wrong_tokens(cluster)
    with ThreadPoolExecutor(len(wrong)) as at_once:
        list(at_once.map(connect, wrong.values()))
    for what, shown in wrong.items():
        for path in ("/admin/v2/clusters", "/admin/v2/nowhere", "/lookup/v2/topic/x/y/z/t"):
            answer = admin(cluster, "GET", path, shown=shown)
            assert answer == (401, {"reason": "Authentication required"}), (what, path)


Connect = Callable[..., RawClient]


@pytest.fixture
def dial() -> Iterator[Connect]:
    """Open a connection to the first broker of a cluster, without a word."""
    opened: list[RawClient] = []

    def open_one(cluster: Cluster) -> RawClient:
        opened.append(RawClient(cluster.service_url.partition(",")[0]))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


@pytest.fixture
def connect(dial: Connect) -> Connect:
    """Open a connection and send a CONNECT with these fields."""

    def say_who(cluster: Cluster, **fields: object) -> RawClient:
        raw = dial(cluster)
        raw.command("connect", client_version="raw", protocol_version=21, **fields)
        return raw

    return say_who


def shown_by(cluster: Cluster, role: str, **more: Any) -> dict[str, object]:
    return {"auth_method_name": "token", "auth_data": cluster.security.token(role, **more).encode()}


def test_a_refusal_by_hand(cluster: Cluster, connect: Connect) -> None:
    for fields in (
        {},
        {"auth_method_name": "none"},
        {"auth_method_name": "token"},
        {"auth_method_name": "token", "auth_data": b"\xff" * 9},
        {"auth_method_name": "tls"},
        {"auth_method_name": "athenz", "auth_data": b"x"},
        {"auth_method_name": "token", "auth_data": b"A" * 900_000},
    ):
        raw = connect(cluster, **fields)
        error = raw.receive(Type.ERROR).error
        assert (error.request_id, error.error) == (NO_REQUEST, 3), fields
        assert error.message == "Failed to authenticate"
        assert raw.closed()


def test_nothing_is_served_before_it_is_known_who_asks(
    cluster: Cluster, dial: Connect, connect: Connect
) -> None:
    raw = dial(cluster)
    raw.command("lookup_topic", topic="t", request_id=1)
    assert raw.closed()
    # What is sent right behind a CONNECT that is refused is never looked at.
    raw = connect(cluster, auth_method_name="token", auth_data=b"wrong")
    raw.command("lookup_topic", topic="t", request_id=1)
    raw.receive(Type.ERROR)
    assert raw.closed()
    # And behind one that is accepted, it is answered.
    raw = connect(cluster, **shown_by(cluster, "admin"))
    raw.command("lookup_topic", topic="t", request_id=7)
    raw.receive(Type.CONNECTED)
    assert raw.receive(Type.LOOKUP_RESPONSE).lookup_topic_response.request_id == 7


TOPIC = "persistent://public/default/by-hand"
DENIED: dict[str, tuple[str, dict[str, object], int, str]] = {
    "lookup": (
        "lookup_topic",
        {"topic": TOPIC, "request_id": 1},
        Type.LOOKUP_RESPONSE,
        "Client is not authorized to Lookup",
    ),
    "partitions": (
        "partition_metadata",
        {"topic": TOPIC, "request_id": 1},
        Type.PARTITIONED_METADATA_RESPONSE,
        "Client is not authorized to Get Partition Metadata",
    ),
    "topics": (
        "get_topics_of_namespace",
        {"namespace": "public/default", "request_id": 1},
        Type.ERROR,
        "Client is not authorized to GetTopicsOfNamespace",
    ),
    "watch": (
        "watch_topic_list",
        {
            "namespace": "public/default",
            "request_id": 1,
            "watcher_id": 1,
            "topics_pattern": "persistent://public/default/.*",
        },
        Type.ERROR,
        "Client is not authorized to watchTopicList",
    ),
    "produce": (
        "producer",
        {"topic": TOPIC, "request_id": 1, "producer_id": 0},
        Type.ERROR,
        "Client is not authorized to Produce",
    ),
    "subscribe": (
        "subscribe",
        {"topic": TOPIC, "request_id": 1, "consumer_id": 0, "subscription": "s", "sub_type": 1},
        Type.ERROR,
        "Client is not authorized to subscribe",
    ),
    "schema": (
        "get_schema",
        {"topic": TOPIC, "request_id": 1},
        Type.GET_SCHEMA_RESPONSE,
        "Client is not authorized to get schema",
    ),
    "new schema": (
        "get_or_create_schema",
        {"topic": TOPIC, "request_id": 1, "schema": {"name": "s", "schema_data": b"", "type": 1}},
        Type.GET_OR_CREATE_SCHEMA_RESPONSE,
        "Client is not authorized to put schema",
    ),
}


@pytest.mark.parametrize("what", DENIED)
def test_what_a_role_was_not_granted_is_refused_by_name(
    cluster: Cluster, connect: Connect, what: str
) -> None:
    field, values, answer, reason = DENIED[what]
    cluster.place(TOPIC, cluster.brokers[0])
    granted = connect(cluster, **shown_by(cluster, "admin"))
    granted.receive(Type.CONNECTED)
    granted.command("lookup_topic", topic=TOPIC, request_id=1)
    granted.receive(Type.LOOKUP_RESPONSE)
    # The broker serves the topic, and knows all that it would answer.
    raw = connect(cluster, **shown_by(cluster, "stranger"))
    raw.receive(Type.CONNECTED)
    raw.command(field, **values)
    refused = raw.receive(answer)
    [(_, body)] = [each for each in refused.ListFields() if each[0].name != "type"]
    assert reason in str(body)
    code = body.error if hasattr(body, "error") else body.error_code
    assert code == 4, "AuthorizationError"


def test_a_tenant_that_does_not_exist_is_said_to_be_missing(
    cluster: Cluster, connect: Connect
) -> None:
    """As a real Pulsar 4.0.7 answers; its own Python client's suite asks for it."""
    raw = connect(cluster, **shown_by(cluster, "stranger"))
    raw.receive(Type.CONNECTED)
    raw.command("partition_metadata", topic="persistent://absent/ns/t", request_id=1)
    said = raw.receive(Type.PARTITIONED_METADATA_RESPONSE).partition_metadata_response
    assert said.error == ServerError.TopicNotFound
    assert said.message == "Tenant or namespace or topic does not exist: absent/ns"


def test_a_client_shows_newer_credentials_when_the_first_have_expired(connect: Connect) -> None:
    with Cluster(
        brokers=1, tokens=True, config={"authenticationRefreshCheckSeconds": 1}
    ) as cluster:
        flags = {"feature_flags": {"supports_auth_refresh": True}}
        # Time enough to connect; a connection's token is looked at a second after that.
        able = connect(cluster, **shown_by(cluster, "admin", expires_in_s=0.9), **flags)
        able.receive(Type.CONNECTED)
        challenge = able.receive(Type.AUTH_CHALLENGE).auth_challenge
        assert challenge.challenge.auth_method_name == "token"
        assert challenge.challenge.auth_data == b"PulsarAuthRefresh"
        newer = {"auth_method_name": "token", "auth_data": cluster.security.token("admin").encode()}
        able.command("auth_response", response=newer)
        able.command("lookup_topic", topic="t", request_id=7)
        able.receive(Type.LOOKUP_RESPONSE)

        unable = connect(cluster, **shown_by(cluster, "admin", expires_in_s=0.9))
        unable.receive(Type.CONNECTED)
        assert unable.closed()

        silent = connect(cluster, **shown_by(cluster, "admin", expires_in_s=0.9), **flags)
        silent.receive(Type.CONNECTED)
        silent.receive(Type.AUTH_CHALLENGE)
        assert silent.closed()

        for role, reason in (("mallory", None), ("admin", "Failed to authenticate")):
            other = connect(cluster, **shown_by(cluster, "admin", expires_in_s=0.9), **flags)
            other.receive(Type.CONNECTED)
            other.receive(Type.AUTH_CHALLENGE)
            late = cluster.security.token(role, expires_in_s=-9 if reason else 60)
            newer = {"auth_method_name": "token", "auth_data": late.encode()}
            other.command("auth_response", response=newer)
            if reason:
                assert other.receive(Type.ERROR).error.message == reason
            assert other.closed()


@pytest.mark.client
def test_the_official_client_renews_its_token_and_stays_connected() -> None:
    # So long has the client to answer when it is asked.
    config = {"authenticationRefreshCheckSeconds": 3}
    with Cluster(brokers=1, tokens=True, config=config) as alone:
        renewals: list[None] | None = None
        renewed_twice = threading.Event()

        def token() -> str:
            if renewals is None:
                return alone.security.token("admin", expires_in_s=1)
            renewals.append(None)
            if len(renewals) == 1:
                return alone.security.token("admin", expires_in_s=1)
            renewed_twice.set()
            return alone.security.token("admin", expires_in_s=60)

        shown = pulsar.AuthenticationToken(token)
        client = pulsar.Client(alone.service_url, authentication=shown, logger=SILENT)
        producer = client.create_producer(TOPIC)
        producer.send(b"before")
        [before] = publishers(alone)
        renewals = []
        # The first renewal was believed if there is a second one, and not a new connection.
        assert renewed_twice.wait(100)
        producer.send(b"after")
        assert [each["connectedSince"] for each in publishers(alone)] == [before["connectedSince"]]
        client.close()


def publishers(cluster: Cluster) -> list[dict[str, Any]]:
    request = urllib.request.Request(
        f"{cluster.admin_url}/admin/v2/persistent/public/default/by-hand/stats",
        headers={"Authorization": f"Bearer {cluster.security.token('admin')}"},
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        found: list[dict[str, Any]] = json.load(response)["publishers"]
    return found


def test_a_publish_is_not_authorized_again(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it costs to know a client is paid when it connects and when it opens a producer."""
    with Cluster(brokers=1, tokens=True) as alone:
        raw = connect(alone, **shown_by(alone, "admin"))
        raw.receive(Type.CONNECTED)
        raw.command("lookup_topic", topic=TOPIC, request_id=1)
        raw.receive(Type.LOOKUP_RESPONSE)
        raw.produce(TOPIC)
        asked: list[str] = []
        for kind, names in (
            (Authorization, ("topic", "namespace", "tenant_admin", "super_user")),
            (Authentication, ("of_command",)),
            (TokenProvider, ("authenticate",)),
        ):
            for name in names:
                monkeypatch.setattr(kind, name, lambda *_, name=name: asked.append(name))
        for number in range(20):
            raw.send(frames.send(0, number, frames.entry(b"x", sequence_id=number)))
        for _ in range(20):
            raw.receive(Type.SEND_RECEIPT)
        assert asked == []


def test_only_proxies_act_for_others(connect: Connect) -> None:
    config = {"proxyRoles": "proxy,proxy2", "superUserRoles": "admin,proxy"}
    with Cluster(brokers=1, tokens=True, config=config) as cluster:
        for role, fields, reason in (
            ("proxy", {}, "Invalid roles."),
            ("proxy", {"original_principal": "proxy2"}, "Invalid roles."),
            ("alice", {"original_principal": "admin"}, "Invalid roles."),
            ("alice", {"proxy_version": "4"}, "Must not set proxyVersion without"),
        ):
            raw = connect(cluster, **shown_by(cluster, role), **fields)
            error = raw.receive(Type.ERROR).error
            assert error.error == 4
            assert reason in error.message
            assert raw.closed()
        lookup = {"topic": TOPIC, "request_id": 1}
        for original, code in (("admin", 0), ("stranger", 4)):
            raw = connect(cluster, **shown_by(cluster, "proxy"), original_principal=original)
            raw.receive(Type.CONNECTED)
            raw.command("lookup_topic", **lookup)
            assert raw.receive(Type.LOOKUP_RESPONSE).lookup_topic_response.error == code


@pytest.mark.parametrize(
    ("role", "method", "path", "status", "message"),
    [
        (
            "stranger",
            "GET",
            "/admin/v2/resourcegroups",
            401,
            "This operation requires super-user access",
        ),
        (
            "stranger",
            "GET",
            "/admin/v2/tenants/public",
            401,
            "Unauthorized to validateBothTenantOperationAndSuperUser for originalPrincipal [null] "
            "and clientAppId [stranger] about operation [GET_TENANT] ",
        ),
        (
            "stranger",
            "GET",
            "/admin/v2/namespaces/public",
            401,
            "Unauthorized to validateTenantOperation for originalPrincipal [null] and clientAppId "
            "[stranger] about operation [LIST_NAMESPACES] on tenant [public]",
        ),
        (
            "stranger",
            "GET",
            "/admin/v2/namespaces/public/default/messageTTL",
            403,
            "Unauthorized to validateNamespacePolicyOperation for operation [READ] on namespace "
            "[public/default] on policy [TTL]",
        ),
        (
            "stranger",
            "GET",
            "/admin/v2/namespaces/public/default/topics",
            403,
            "Unauthorized to validateNamespaceOperation for operation [GET_TOPICS] on namespace "
            "[public/default]",
        ),
        (
            "stranger",
            "GET",
            "/admin/v2/persistent/public/default/t/stats",
            401,
            "Unauthorized to validateTopicOperation for operation [GET_STATS] on topic "
            "[persistent://public/default/t]",
        ),
        (
            "stranger",
            "POST",
            "/admin/v2/persistent/public/default/t/messageTTL",
            403,
            "Unauthorized to validateTopicPolicyOperation for operation [WRITE] on topic "
            "[persistent://public/default/t] on policy [TTL]",
        ),
        (
            "stranger",
            "GET",
            "/admin/v2/persistent/public/default/t/permissions",
            401,
            "Don't have permission to administrate resources on this tenant",
        ),
        ("stranger", "GET", "/admin/v2/clusters", 200, None),
        ("admin", "GET", "/admin/v2/brokers", 200, None),
    ],
)
def test_the_admin_apis_words_of_refusal(
    cluster: Cluster, role: str, method: str, path: str, status: int, message: str | None
) -> None:
    answer = admin(cluster, method, path, shown=cluster.security.token(role))
    assert answer[0] == status
    if message is not None:
        assert answer[1] == {"reason": message}


def test_what_anybody_may_ask(cluster: Cluster) -> None:
    assert admin(cluster, "GET", "/status.html")[0] == 200
    assert admin(cluster, "GET", "/metrics")[0] == 200
    with Cluster(brokers=1, tokens=True, config={"authenticateMetricsEndpoint": True}) as closed:
        url = f"{closed.admin_url}/metrics"
        with pytest.raises(urllib.error.HTTPError, match="401") as refused:
            urllib.request.urlopen(url, timeout=60)
        refused.value.close()


def test_no_listing_shows_secrets(cluster: Cluster) -> None:
    path = "/admin/v2/brokers/configuration/runtime"
    _, reason = admin(cluster, "GET", path, shown=cluster.security.token("admin"))
    assert reason["brokerClientAuthenticationParameters"] == "*****"
    assert reason["tokenSecretKey"] == "*****"
    assert "eyJ" not in json.dumps(reason)
