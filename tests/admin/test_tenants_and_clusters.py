"""Clusters, tenants, brokers, isolation and configuration, with Pulsar's answers."""

import pytest

from counterpoise import Cluster
from tests.admin.conftest import Api

CLUSTERS = "/admin/v2/clusters"
TENANTS = "/admin/v2/tenants"
BROKERS = "/admin/v2/brokers"
ISOLATION = f"{CLUSTERS}/standalone/namespaceIsolationPolicies"
POLICY = {
    "namespaces": ["t/secret.*"],
    "primary": ["127.*"],
    "secondary": [],
    "auto_failover_policy": {
        "policy_type": "min_available",
        "parameters": {"min_limit": "1", "usage_threshold": "100"},
    },
}


def test_a_new_cluster_has_what_clients_need(api: Api) -> None:
    assert api.get(CLUSTERS) == ["standalone"]
    assert api.get(TENANTS) == ["public", "pulsar"]
    assert api.get("/admin/v2/namespaces/public") == ["public/default"]
    assert api.get(f"{CLUSTERS}/standalone")["brokerServiceUrl"].startswith("pulsar://")


def test_a_tenants_life(api: Api) -> None:
    info = {"adminRoles": ["b", "a"], "allowedClusters": ["standalone"]}
    assert api("PUT", f"{TENANTS}/acme", info).status == 204
    assert api.get(f"{TENANTS}/acme") == {
        "adminRoles": ["a", "b"],
        "allowedClusters": ["standalone"],
    }
    again = api("PUT", f"{TENANTS}/acme", info)
    assert (again.status, again.reason) == (409, "Tenant already exist")
    assert api("POST", f"{TENANTS}/acme", {"allowedClusters": ["standalone"]}).status == 204
    assert api.get(f"{TENANTS}/acme").get("adminRoles") is None
    domains = ("persistent", "non-persistent")
    for namespace in ("acme/full", "acme/other"):
        assert api("PUT", f"/admin/v2/namespaces/{namespace}").status == 204
        for domain in domains:
            assert api("PUT", f"/admin/v2/{domain}/{namespace}/p/partitions", 2).status == 204
    assert api("DELETE", f"{TENANTS}/acme").status == 409
    assert api("DELETE", f"{TENANTS}/acme?force=true").status == 204
    assert api("GET", f"{TENANTS}/acme").status == 404
    brokers = [f"{BROKERS}/standalone/{each}/ownedNamespaces" for each in api.get(BROKERS)]
    assert not [each for at in brokers for each in api.get(at) if each.startswith("acme/")]
    # What has the same names later has nothing of it.
    assert api("PUT", f"{TENANTS}/acme", info).status == 204
    assert api.get("/admin/v2/namespaces/acme") == []
    assert api("PUT", "/admin/v2/namespaces/acme/full").status == 204
    assert [api.get(f"/admin/v2/{each}/acme/full/partitioned") for each in domains] == [[], []]
    assert api("DELETE", f"{TENANTS}/acme?force=true").status == 204


def test_a_clusters_life_and_its_peers(api: Api) -> None:
    east = f"{CLUSTERS}/east"
    assert api("POST", east, {"serviceUrl": "http://e"}).status == 404
    assert api("PUT", east, {"serviceUrl": "http://e"}).status == 200
    assert api("POST", east, {"serviceUrl": "http://f"}).status == 200
    assert api("GET", f"{east}/peers").value in (None, "", [])
    for peers, reason in (
        (["east"], "east itself can't be"),
        (["standalone", "no"], "Peer cluster no"),
    ):
        refused = api("POST", f"{east}/peers", peers)
        assert (refused.status, reason in refused.reason) == (412, True)
    assert api("PUT", f"{CLUSTERS}/west", {"serviceUrl": "http://w"}).status == 200
    for peers in (["standalone", "west"], ["standalone"], None):
        assert api("POST", f"{east}/peers", peers and peers * 2).status == 204
        assert api("GET", f"{east}/peers").value == (peers or "")
        assert api.get(east)["peerClusterNames"] == peers
    assert api("DELETE", f"{CLUSTERS}/west").status == 204
    assert api.get(east)["serviceUrl"] == "http://f"
    both = ["standalone", "east"]
    assert api("PUT", f"{TENANTS}/both", {"allowedClusters": both}).status == 204
    assert api("PUT", "/admin/v2/namespaces/both/n", {"replication_clusters": both}).status == 204
    assert api("DELETE", east).status == 412, "a namespace is replicated to it"
    assert api("DELETE", f"{TENANTS}/both?force=true").status == 204
    assert api("DELETE", east).status == 204
    assert api.get(CLUSTERS) == ["standalone"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "reason"),
    [
        ("PUT", f"{TENANTS}/x", {"allowedClusters": []}, 412, "Clusters cannot be empty or blank"),
        ("PUT", f"{TENANTS}/x", {"allowedClusters": ["no"]}, 412, "Clusters do not exist"),
        ("PUT", f"{TENANTS}/x", {"allowedClusters": ["standalone", "no"]}, 412, "do not exist"),
        ("PUT", f"{TENANTS}/b@d", {"allowedClusters": ["standalone"]}, 412, "the tenant 'b@d'"),
        ("POST", f"{TENANTS}/no", {"allowedClusters": ["standalone"]}, 404, "Tenant no not found"),
        ("DELETE", f"{TENANTS}/no", None, 404, "Tenant doesn't exist"),
        ("PUT", f"{TENANTS}/x", "text", 400, "the body must be object"),
        ("GET", f"{CLUSTERS}/no", None, 404, "Cluster does not exist"),
        ("PUT", f"{CLUSTERS}/standalone", {}, 409, "Cluster already exists"),
        *(
            (method, f"{CLUSTERS}/standalone", {field: "ftp://x"}, 400, f"Illegal {kind} url, ex")
            for method in ("PUT", "POST")
            for field, kind in [
                ("serviceUrl", "service"),
                ("serviceUrlTls", "service tls"),
                ("brokerServiceUrl", "broker service"),
                ("brokerServiceUrlTls", "broker service tls"),
            ]
        ),
        ("DELETE", f"{CLUSTERS}/standalone", None, 412, "Cluster not empty"),
        ("POST", f"{CLUSTERS}/no/failureDomains/d", {}, 412, "Cluster no does not exist."),
        ("GET", f"{CLUSTERS}/no/failureDomains/d", None, 412, "Cluster no does not exist."),
        ("DELETE", f"{CLUSTERS}/no/failureDomains/d", None, 412, "Cluster no does not exist."),
        ("GET", f"{ISOLATION}/none", None, 404, "NamespaceIsolationPolicies for cluster"),
        ("POST", f"{ISOLATION}/p", {"namespaces": ["x"]}, 400, "primary is missing"),
        ("GET", "/admin/v2/nothing", None, 404, "Not Found"),
        ("POST", f"{BROKERS}/configuration/clusterName/x", None, 412, "non-dynamic"),
        ("POST", f"{BROKERS}/configuration/nothingLikeIt/1", None, 412, "non-dynamic"),
        ("POST", f"{BROKERS}/configuration/maxUnloadPercentage/abc", None, 412, "'abc' is not a"),
        (
            "GET",
            f"{BROKERS}/standalone/no:1/ownedNamespaces",
            None,
            404,
            "Broker id 'no:1' not found",
        ),
    ],
)
def test_refusals_carry_pulsars_status_and_a_reason(
    api: Api, method: str, path: str, body: object, status: int, reason: str
) -> None:
    answer = api(method, path, body)
    assert answer.status == status
    assert reason in answer.reason


def test_brokers_and_their_leader(api: Api, cluster: Cluster) -> None:
    assert api.get(BROKERS) == sorted(each.id for each in cluster.brokers)
    assert api.get(f"{BROKERS}/standalone") == api.get(BROKERS)
    assert cluster.leader is not None
    leader = {"brokerId": cluster.leader.id, "serviceUrl": cluster.leader.admin_url}
    assert api.get(f"{BROKERS}/leaderBroker") == leader
    assert api.get(f"{BROKERS}/health") == "ok"
    assert api.get(f"{BROKERS}/ready") == "ok"
    assert api.get("/status.html") == "OK"


def test_a_killed_broker_is_not_listed() -> None:
    with Cluster(brokers=2) as cluster:
        first, second = cluster.brokers
        cluster.kill(first)
        assert Api(second.admin_url).get(BROKERS) == [second.id]


def test_settings_that_change_while_brokers_run(api: Api) -> None:
    assert "loadBalancerSheddingEnabled" in api.get(f"{BROKERS}/configuration")
    assert api.get(f"{BROKERS}/configuration/runtime")["clusterName"] == "standalone"
    path = f"{BROKERS}/configuration/loadBalancerSheddingIntervalMinutes"
    assert api("POST", f"{path}/5").status == 204
    stored = api.get(f"{BROKERS}/configuration/values")
    assert stored == {"loadBalancerSheddingIntervalMinutes": "5"}
    assert api("DELETE", path).status == 204
    assert api.get(f"{BROKERS}/configuration/values") == {}


def test_isolation_policies(api: Api, cluster: Cluster) -> None:
    for path, elsewhere in (("", 404), ("/brokers", 412), ("/brokers/b:1", 412), ("/p1", 412)):
        assert api("GET", f"{ISOLATION}{path}").status == 404, path
        refused = api("GET", f"{CLUSTERS}/elsewhere/namespaceIsolationPolicies{path}")
        assert (refused.status, refused.reason) == (elsewhere, "Cluster elsewhere does not exist.")
    assert api("POST", f"{ISOLATION}/p1", POLICY).status == 204
    assert api.get(ISOLATION) == {"p1": POLICY}
    assert api.get(f"{ISOLATION}/p1") == POLICY
    answer = api.get(f"{ISOLATION}/brokers")
    assert {each["brokerName"] for each in answer} == {each.id for each in cluster.brokers}
    assert all(each["primary"] and each["namespaceRegex"] == ["t/secret.*"] for each in answer)
    assert api.get(f"{ISOLATION}/brokers/elsewhere:80")["primary"] is False
    later = {**POLICY, "namespaces": ["t/other"], "primary": ["none"], "secondary": [".*"]}
    assert api("POST", f"{ISOLATION}/p2", later).status == 204
    host_alone = {**later, "primary": [r"[\d.]+"], "secondary": []}
    assert api("POST", f"{ISOLATION}/p3", host_alone).status == 204
    for each in api.get(f"{ISOLATION}/brokers"):
        assert (each["policyName"], each["primary"]) == ("p3", True)
        assert each["namespaceRegex"] == ["t/secret.*", "t/other", "t/other"]
    assert api("DELETE", f"{ISOLATION}/p3").status == 204
    assert all(each["primary"] for each in api.get(f"{ISOLATION}/brokers")), "p1 says so"
    assert api("DELETE", f"{ISOLATION}/p2").status == 204
    for field, empty in (("namespaces", []), ("primary", []), ("auto_failover_policy", {})):
        assert api("POST", f"{ISOLATION}/bad", {**POLICY, field: empty}).status == 400, field
    for field in ("namespaces", "primary", "secondary"):
        assert api("POST", f"{ISOLATION}/bad", {**POLICY, field: ["("]}).status == 412, field
    for name in ("min_limit", "usage_threshold"):
        failover = {"policy_type": "min_available", "parameters": {name: "many"}}
        wrong = {**POLICY, "auto_failover_policy": failover}
        assert api("POST", f"{ISOLATION}/bad", wrong).status == 412, name
    assert api("DELETE", f"{ISOLATION}/p1").status == 204
    assert api.get(ISOLATION) == {}


def test_an_isolation_policy_moves_the_namespaces_that_it_concerns(
    api: Api, cluster: Cluster, namespace: str
) -> None:
    policy, topic = {**POLICY, "namespaces": [namespace]}, f"persistent://{namespace}/one"
    for change, is_moved in (
        ({"unload_scope": "none"}, False),
        ({"secondary": [".*"]}, False),
        ({"primary": [r"[\d.]+"]}, True),
        ({"primary": [r"[\d.]+"], "unload_scope": "all_matching"}, True),
        ({"primary": [r"[\d.]+"], "namespaces": ["t/none"]}, True),
    ):
        api.get(f"/lookup/v2/topic/{topic.replace(':/', '')}")
        before = cluster.owner(topic)
        assert before is not None
        assert api("POST", f"{ISOLATION}/p", policy | change).status == 204
        assert (cluster.owner(topic) is not before) is is_moved, change
    assert api("DELETE", f"{ISOLATION}/p").status == 204


def test_failure_domains_do_not_share_brokers(api: Api) -> None:
    path = f"{CLUSTERS}/standalone/failureDomains"
    assert api("POST", f"{path}/rack1", {"brokers": ["a:1", "b:1"]}).status == 204
    assert api("POST", f"{path}/rack2", {"brokers": ["b:1"]}).status == 409
    assert api("POST", f"{path}/rack1", {"brokers": ["b:1", "a:1", "b:1"]}).status == 204
    assert api.get(path) == {"rack1": {"brokers": ["a:1", "b:1"]}}
    assert api("DELETE", f"{path}/rack2").status == 404
    assert api("DELETE", f"{path}/rack1").status == 200
    assert api("GET", f"{path}/rack1").status == 404


def test_settings_limit_what_is_made_and_apply_where_a_namespace_sets_nothing() -> None:
    config = {
        "maxTenants": 3,
        "maxNamespacesPerTenant": 1,
        "maxTopicsPerNamespace": 3,
        "maxNumPartitionsPerPartitionedTopic": 2,
        "topicLevelPoliciesEnabled": False,
        "isSchemaValidationEnforced": True,
        "allowAclChangesOnNonExistentTopics": True,
    }
    with Cluster(brokers=1, config=config) as cluster:
        api = Api(cluster.admin_url)
        info = {"allowedClusters": ["standalone"]}
        # public and pulsar are there.
        assert api("PUT", "/admin/v2/tenants/one", info).status == 204
        refused = api("PUT", "/admin/v2/tenants/two", info)
        assert (refused.status, refused.reason) == (412, "Exceed the maximum number of tenants")
        elsewhere = {"replication_clusters": ["nowhere"]}
        assert api("PUT", "/admin/v2/namespaces/one/n", elsewhere).status == 403
        assert api("PUT", "/admin/v2/namespaces/one/n").status == 204
        assert api("PUT", "/admin/v2/namespaces/one/m").status == 412
        for kind in ("tenants", "namespaces"):
            at = "one/n" if kind == "namespaces" else "one"
            refused = api("DELETE", f"/admin/v2/{kind}/{at}?force=true")
            reason = f"Broker doesn't allow forced deletion of {kind}"
            assert (refused.status, refused.reason) == (405, reason)
        enforced = "/admin/v2/namespaces/one/n/schemaValidationEnforced"
        for applied in (True, False):
            assert api.get(f"{enforced}?applied={str(applied).lower()}") is applied
        topics = "/admin/v2/persistent/one/n"
        assert api("POST", f"{topics}/none/permissions/reader", ["consume"]).status == 204
        assert api.get(f"{topics}/none/permissions") == {"reader": ["consume"]}
        assert api("PUT", f"{topics}/cut/partitions", 3).status == 406
        creation = {"allowAutoTopicCreation": True, "topicType": "partitioned"}
        creation_at = "/admin/v2/namespaces/one/n/autoTopicCreation"
        for count, status in ((3, 406), (2, 204)):
            asked = {**creation, "defaultNumPartitions": count}
            assert api("POST", creation_at, asked).status == status
        assert api("PUT", f"{topics}/cut/partitions", 2).status == 204
        assert api("POST", f"{topics}/cut/maxProducers", 1).status == 405
        assert api("PUT", f"{topics}/a").status == 204
        assert api("PUT", f"{topics}/b").status == 412
        assert api("PUT", f"{topics}/b/partitions", 1).status == 412
        assert api("PUT", f"{topics}/b/subscription/s").status == 405
        assert api("POST", f"{topics}/cut/partitions", 3).status == 406
        # A partition that is missing may come back, whatever there is by then.
        assert api("DELETE", f"{topics}/cut-partition-1").status == 204
        assert api("PUT", f"{topics}/c").status == 204
        assert api("PUT", f"{topics}/cut-partition-1").status == 204
        assert api("DELETE", f"{topics}/c").status == 204
        assert api("POST", "/admin/v2/namespaces/one/n/maxTopicsPerNamespace", 4).status == 204
        assert api("PUT", f"{topics}/b").status == 204
