"""The attack on the admin API, short: no request is answered 500, and none leaves a traceback."""

import logging
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from counterpoise import Cluster
from counterpoise.app.clusters.local_cluster import LocalCluster, LocalClusterOptions
from tests.admin.conftest import Api
from tests.attack.rest import LogJudge, Outcome, Request, attack, meet, run

REQUESTS = 4000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    forced = {f"forceDelete{kind}Allowed": True for kind in ("Tenant", "Namespace")}
    with Cluster(brokers=2, config=forced) as running:
        yield running


def test_wrong_requests_and_requests_that_meet_are_answered_in_order(cluster: Cluster) -> None:
    outcome = Outcome()
    with LogJudge() as judge:
        urls = [each.admin_url for each in cluster.brokers]
        run(urls, random.Random(20), REQUESTS, outcome)
    assert outcome.failed == []
    assert judge.found == []
    assert outcome.statuses.total() > REQUESTS
    # It got past the entrance too.
    assert outcome.statuses[204] > 100
    assert outcome.statuses[409] > 10


def test_the_judges_find_planted_faults() -> None:
    outcome = Outcome()
    outcome.note(Request("GET", "/x"), 500, b"", 0.0)
    outcome.note(Request("GET", "/x"), 503, b"", 0.0)
    assert len(outcome.failed) == 1
    with LogJudge() as judge:
        logging.getLogger("x").error("planted")
        logging.getLogger("x").warning("not an error")
    assert len(judge.found) == 1
    outcome = Outcome()
    attack(["http://127.0.0.1:1"], [Request("GET", "/x")], outcome=outcome)
    assert len(outcome.failed) == 1


def test_a_topic_with_any_letters_in_its_name_goes_with_its_namespace(cluster: Cluster) -> None:
    api = Api(cluster.admin_url)
    assert api("PUT", "/admin/v2/namespaces/public/odd").status == 204
    for name in ("a%0Ab", "%0D%0A.", "a%00b", "a+b", "a%2Bb", "%C3%A9", "x" * 600, "a%20b", "%25"):
        assert api("PUT", f"/admin/v2/persistent/public/odd/{name}").status in (204, 409)
    topics = api.get("/admin/v2/persistent/public/odd")
    assert "persistent://public/odd/a\nb" in topics
    assert "persistent://public/odd/a+b" in topics
    # To Java's decoder, and so to Pulsar, a plus sign is a blank.
    assert topics.count("persistent://public/odd/a b") == 1
    assert api("DELETE", "/admin/v2/namespaces/public/odd?force=true").status == 204
    assert api("GET", "/admin/v2/namespaces/public/odd").status == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "reason"),
    [
        ("DELETE", "/admin/v2/tenants/public%2Fdefault", None, 412, "the tenant"),
        ("GET", "/admin/v2/namespaces/public/%2E%2E", None, 412, "must not be '..'"),
        ("PUT", "/admin/v2/persistent/public/default/%2E", None, 412, "cannot have this name"),
        ("PUT", f"/admin/v2/persistent/public/default/{'x' * 1025}", None, 412, "1025 bytes"),
        ("PUT", f"/admin/v2/tenants/{'x' * 256}", None, 412, "256 characters"),
        ("POST", "/admin/v2/clusters/standalone/failureDomains/%00", {}, 412, "failure domain"),
        ("PUT", "/admin/v2/persistent/public/default/x/partitions", 10_001, 406, "10000"),
        ("PUT", "/admin/v2/persistent/public/default/x/partitions", 2**31 - 1, 406, "10000"),
        ("PUT", "/admin/v2/namespaces/public/x", {"bundles": {"numBundles": 10**5}}, 412, "16384"),
        ("PUT", "/admin/v2/tenants/x", {"adminRoles": "me"}, 400, "adminRoles must be array"),
        ("POST", "/admin/v2/namespaces/public/default/properties", None, 405, "Method"),
        (
            "PUT",
            "/admin/v2/namespaces/public/default/properties",
            {"a": "x" * 300_000},
            413,
            "node",
        ),
        ("PUT", "/admin/v2/namespaces/public/default/properties", {"a": "x" * 1_100_000}, 413, ""),
    ],
)
def test_what_is_wrong_is_said(
    cluster: Cluster, method: str, path: str, body: object, status: int, reason: str
) -> None:
    answer = Api(cluster.admin_url)(method, path, body)
    assert (answer.status, answer.value) == (status, answer.value)
    assert reason in answer.reason


def test_an_isolation_policy_that_cannot_be_read_is_not_accepted(cluster: Cluster) -> None:
    at = "/admin/v2/clusters/standalone/namespaceIsolationPolicies"
    policy = {
        "namespaces": ["("],
        "primary": ["x"],
        "auto_failover_policy": {"parameters": {"min_limit": "1"}},
    }
    api = Api(cluster.admin_url)
    answer = api("POST", f"{at}/p", policy)
    assert answer.status == 412
    assert "regular expression" in answer.reason
    policy |= {"namespaces": ["x"], "auto_failover_policy": {"parameters": {"min_limit": "few"}}}
    assert api("POST", f"{at}/p", policy).status == 412
    assert len(api.get(f"{at}/brokers")) == 2


@pytest.mark.zookeeper
def test_requests_that_meet_at_a_real_zookeeper_and_real_files(tmp_path: Path) -> None:
    outcome = Outcome()
    options = LocalClusterOptions(brokers=2, data=tmp_path)
    with LocalCluster(options) as running:
        meet([each.admin_url for each in running.brokers], random.Random(4), 60, outcome)
        logs = "".join(each.read_text() for each in (tmp_path / "logs").iterdir())
    assert outcome.failed == []
    assert "Traceback" not in logs
    assert outcome.statuses[204] > 50
