"""The description that the broker serves, and what schemathesis makes of it."""

import json
import urllib.request
from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis import checks

from counterpoise import Cluster
from counterpoise.admin.access import Audience
from counterpoise.admin.app import all_routes
from counterpoise.admin.openapi import describe
from tests.attack.rest import LogJudge, routes
from tests.routes import SHUTDOWN

AUDIENCES = {(each.method, each.template): each.access.audience for each in all_routes()}
schema = schemathesis.openapi.from_dict(describe(all_routes())).exclude(path=SHUTDOWN)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    # Without transactions their routes answer 503.
    config = {"transactionCoordinatorEnabled": "true"}
    with Cluster(brokers=1, tokens=True, config=config) as running:
        yield running


@pytest.fixture(scope="module")
def judge() -> Iterator[LogJudge]:
    with LogJudge() as made:
        yield made


def test_the_description_is_served_and_has_every_route(cluster: Cluster) -> None:
    request = urllib.request.Request(
        f"{cluster.admin_url}/admin/v2/openapi.json",
        headers={"Authorization": f"Bearer {cluster.security.token('stranger')}"},
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        document = json.load(response)
    described = {
        (method.upper(), path) for path, each in document["paths"].items() for method in each
    }
    assert described == set(routes())
    put = document["paths"]["/admin/v2/tenants/{tenant}"]["put"]
    assert put["summary"] == "Create a tenant."
    body = put["requestBody"]["content"]["application/json"]["schema"]
    assert set(body["properties"]) == {"adminRoles", "allowedClusters"}


@schema.parametrize()
@settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_no_operation_fails_for_any_caller(
    case: schemathesis.Case, cluster: Cluster, judge: LogJudge
) -> None:
    """With no token, a stranger's and an administrator's; who shows none is let in nowhere."""
    base = cluster.admin_url
    kind = AUDIENCES[case.operation.method.upper(), case.operation.path]
    anonymous = case.call(base_url=base, allow_redirects=False)
    assert anonymous.status_code == 401 or kind in (Audience.ANYBODY, Audience.METRICS)
    for role in ("stranger", "admin"):
        headers = {"Authorization": f"Bearer {cluster.security.token(role)}"}
        answer = case.call(base_url=base, allow_redirects=False, headers=headers)
        case.validate_response(answer, checks=[checks.not_a_server_error])
        assert answer.status_code != 401 or role == "stranger"
    assert judge.found == []
