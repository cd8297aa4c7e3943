"""Resource quotas of bundles by the admin API and by Apache's ``pulsar-admin``."""

import pytest

from counterpoise import Cluster
from tests.admin.conftest import Api
from tests.apache_tools import admin_tool, needs_tools

QUOTAS = "/admin/v2/resource-quotas"
INITIAL = {
    "msgRateIn": 40.0,
    "msgRateOut": 120.0,
    "bandwidthIn": 100000.0,
    "bandwidthOut": 300000.0,
    "memory": 80.0,
    "dynamic": True,
}
OWN = {**INITIAL, "msgRateIn": 7.0, "dynamic": False}
DEFAULT = {**INITIAL, "bandwidthOut": 5.0}


def test_001_l86_a_bundles_quota_is_its_own_or_the_default(api: Api, namespace: str) -> None:
    bundle = f"{QUOTAS}/{namespace}/0x00000000_0xffffffff"
    assert api.get(bundle) == api.get(QUOTAS) == INITIAL
    try:
        assert api("POST", QUOTAS, DEFAULT).status == 204
        assert api.get(bundle) == api.get(QUOTAS) == DEFAULT
        assert api("POST", bundle, OWN).status == 204
        assert (api.get(bundle), api.get(QUOTAS)) == (OWN, DEFAULT)
        for status in (204, 404):
            assert api("DELETE", bundle).status == status
        assert api.get(bundle) == DEFAULT
    finally:
        api("POST", QUOTAS, INITIAL)


def test_a_quota_is_for_a_bundle_that_there_is(api: Api, namespace: str) -> None:
    for method, body in (("GET", None), ("POST", OWN), ("DELETE", None)):
        assert api(method, f"{QUOTAS}/{namespace}/0x00000000_0x11111111", body).status == 412
        assert api(method, f"{QUOTAS}/public/absent/0x00000000_0xffffffff", body).status == 404
    bundle = f"{QUOTAS}/{namespace}/0x00000000_0xffffffff"
    assert api("POST", bundle, {"msgRateIn": "many"}).status == 400
    assert api.get(bundle) == INITIAL
    assert api("POST", bundle, {"msgRateIn": 3, "memory": None}).status == 204
    assert api.get(bundle) == {**dict.fromkeys(INITIAL, 0.0), "msgRateIn": 3, "dynamic": False}


@pytest.mark.client
@needs_tools
def test_pulsar_admin_resource_quotas(cluster: Cluster, namespace: str) -> None:
    where = ("-n", namespace, "-b", "0x00000000_0xffffffff")
    rates = ("-mi", "7", "-mo", "120", "-bi", "100000", "-bo", "300000", "-mem", "80")
    with admin_tool(cluster.admin_url) as tool:
        assert tool("resource-quotas", "get") == INITIAL
        assert tool("resource-quotas", "set", *where, *rates) == ""
        assert tool("resource-quotas", "get", *where) == OWN
        assert tool("resource-quotas", "reset-namespace-bundle-quota", *where) == ""
        assert tool("resource-quotas", "get", *where) == INITIAL
