"""Every route of the admin API: without credentials, by a stranger and by roles with grants."""

import http.client
from collections.abc import Iterator

import pytest

from counterpoise import Cluster
from counterpoise.admin.access import AccessRule, Audience
from counterpoise.admin.app import BODY_SIZE_MAX, all_routes
from counterpoise.security.authorization import NAMESPACE_NEEDS, TOPIC_NEEDS
from tests.routes import NAMES, filled

OURS = NAMES | {"tenant": "public", "namespace": "default"}
STATUS = {
    **dict.fromkeys(Audience, 401),
    **dict.fromkeys((Audience.NAMESPACE, Audience.NAMESPACE_POLICY, Audience.TOPIC_POLICY), 403),
}
REFUSALS = (
    "Unauthorized to validate",
    "This operation requires super-user access",
    "Don't have permission to administrate",
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=1, tokens=True) as running:
        status, text = asked(
            running,
            "admin",
            "POST",
            "/admin/v2/namespaces/public/default/permissions/reader",
            body=b'["consume"]',
        )
        assert status == 204, text
        yield running


def asked(
    cluster: Cluster, role: str | None, method: str, path: str, body: bytes | None = None
) -> tuple[int, str]:
    host, port = cluster.admin_url.partition("://")[2].split(":")
    headers = {"Content-Type": "application/json"}
    if role is not None:
        headers["Authorization"] = f"Bearer {cluster.security.token(role)}"
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def routes() -> Iterator[tuple[str, str, AccessRule]]:
    for route in all_routes():
        path = filled(route.template, lambda hole: OURS.get(hole, "x"))
        yield route.method, path, route.access


def test_a_stranger_is_refused_by_every_route_in_pulsars_way(cluster: Cluster) -> None:
    for method, path, rule in routes():
        anonymous = asked(cluster, None, method, path)
        if rule.audience in (Audience.ANYBODY, Audience.METRICS):
            assert anonymous[0] == 200, path
            continue
        assert anonymous == (401, '{"reason": "Authentication required"}'), path
        status, text = asked(cluster, "stranger", method, path)
        if rule.audience is Audience.KNOWN:
            assert status not in (401, 403), (path, text)
        else:
            assert status == STATUS[(rule.after or rule).audience], (method, path, text)
            assert any(each in text for each in REFUSALS), (method, path, text)
    # The tenant that the right is about stands in the body.
    for verb in ("grant", "revoke"):
        path, topic = f"/admin/v2/namespaces/{verb}PermissionsOnTopics", "public/default/x"
        body = b'[{"topic": "%s", "role": "stranger", "actions": ["produce"]}]' % topic.encode()
        refused = (
            401,
            '{"reason": "Don\'t have permission to administrate resources on this tenant"}',
        )
        assert asked(cluster, "stranger", "POST", path, body) == refused
        assert asked(cluster, "admin", "POST", path, body)[0] == 404


def test_a_grant_opens_what_it_is_for_and_nothing_else(cluster: Cluster) -> None:
    for method, path, rule in routes():
        # What changes something is refused or not before it is looked at; the rest is asked.
        if method != "GET" or rule.audience in (Audience.ANYBODY, Audience.METRICS, Audience.KNOWN):
            continue
        needs = {Audience.NAMESPACE: NAMESPACE_NEEDS, Audience.TOPIC: TOPIC_NEEDS}.get(
            rule.audience, {}
        )
        status, text = asked(cluster, "reader", method, path)
        refused = status in (401, 403) and any(each in text for each in REFUSALS)
        assert refused != ("consume" in needs.get(rule.operation, ())), (path, status, text)
        assert status < 500 or status == 503, (path, status, text)


def test_what_is_too_large_is_refused(cluster: Cluster) -> None:
    path, body = "/admin/v2/tenants/t", b" " * (BODY_SIZE_MAX + 1)
    assert asked(cluster, "admin", "PUT", path, body)[0] == 413
    host, port = cluster.admin_url.partition("://")[2].split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    connection.request("GET", "/metrics", headers={"Authorization": "Bearer " + "x" * 20_000})
    assert connection.getresponse().status in (400, 431)
    connection.close()
