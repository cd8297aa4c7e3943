"""The description that the broker serves, and what schemathesis makes of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis import checks

from counterpoise import Cluster
from counterpoise.admin.app import all_routes
from counterpoise.admin.openapi import describe
from tests.admin.conftest import Api
from tests.attack.rest import LogJudge, routes

schema = schemathesis.openapi.from_dict(describe(all_routes()))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=1) as running:
        yield running


@pytest.fixture(scope="module")
def judge() -> Iterator[LogJudge]:
    with LogJudge() as made:
        yield made


def test_the_description_is_served_and_has_every_route(cluster: Cluster) -> None:
    told = Api(cluster.admin_url).get("/admin/v2/openapi.json")
    described = {(method.upper(), path) for path, each in told["paths"].items() for method in each}
    assert described == set(routes())
    put = told["paths"]["/admin/v2/tenants/{tenant}"]["put"]
    assert put["summary"] == "Make a tenant."
    body = put["requestBody"]["content"]["application/json"]["schema"]
    assert set(body["properties"]) == {"adminRoles", "allowedClusters"}


@schema.parametrize()
@settings(
    max_examples=5,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_no_operation_fails(case: schemathesis.Case, cluster: Cluster, judge: LogJudge) -> None:
    answer = case.call(base_url=cluster.admin_url, allow_redirects=False)
    case.validate_response(answer, checks=[checks.not_a_server_error])
    assert judge.found == []
