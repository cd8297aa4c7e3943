"""Namespaces: made, cut into bundles, given policies, deleted."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn

import pytest

from counterpoise import Cluster
from counterpoise.admin import many
from counterpoise.admin.errors import RestError
from counterpoise.admin.rest.namespaces import BUNDLES_MAX, wanted_bundles
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.bundles.moves import BundleMoves
from counterpoise.names.namespace import NamespaceName
from counterpoise.wire.errors import ServerError
from tests.admin.conftest import Api

NAMESPACES = "/admin/v2/namespaces"
QUORUMS = {"bookkeeperEnsemble": 2, "bookkeeperWriteQuorum": 5, "bookkeeperAckQuorum": 2}


async def in_vain(*_: object) -> NoReturn:
    raise BrokerError(ServerError.ServiceNotReady, "in vain")


def test_a_namespaces_life(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    api("PUT", "/admin/v2/tenants/life", {"allowedClusters": ["standalone"]})
    rates = {cluster: {"publishThrottlingRateInMsg": 5} for cluster in ("west", "standalone")}
    assert api("PUT", f"{NAMESPACES}/life/a", {"publishMaxMessageRate": rates}).status == 204
    assert api("PUT", f"{NAMESPACES}/life/a").reason == "Namespace already exists"
    assert api.get(f"{NAMESPACES}/life") == ["life/a"]
    policies = api.get(f"{NAMESPACES}/life/a")
    assert policies["replication_clusters"] == ["standalone"]
    assert policies["bundles"]["numBundles"] == 4
    assert api("DELETE", f"{NAMESPACES}/life/a/publishRate").status == 204
    assert [*api.get(f"{NAMESPACES}/life/a")["publishMaxMessageRate"]] == ["west"]
    assert api("PUT", "/admin/v2/persistent/life/a/topic").status == 204
    grants = [{"topic": f"persistent://life/a/{each}", "role": "r"} for each in ("no", "topic")]
    assert api("POST", f"{NAMESPACES}/grantPermissionsOnTopics", grants).status == 404
    for domain in ("persistent", "non-persistent"):
        assert api("PUT", f"/admin/v2/{domain}/life/a/parts/partitions", 2).status == 204
    assert api("DELETE", f"{NAMESPACES}/life/a").reason == "Cannot delete non empty namespace"
    with monkeypatch.context() as patch:
        for name in ("unload", "drop"):
            patch.setattr(BundleMoves, name, in_vain)
        patch.setattr(many, "PATIENCE_S", 0.0)
        for done, refused in (
            ("unloaded", api("PUT", f"{NAMESPACES}/life/a/unload")),
            ("released", api("DELETE", f"{NAMESPACES}/life/a?force=true")),
        ):
            assert f" of the namespace's 4 bundles were not {done}: in vain" in refused.reason
    # Its deletion has begun: clients that connect again create nothing there.
    assert api.get(f"{NAMESPACES}/life/a")["deleted"]
    by_lookup = "/admin/v2/persistent/life/a/topic/partitions?checkAllowAutoCreation=true"
    assert api("GET", by_lookup).reason.endswith("does not exist")
    assert api("DELETE", f"{NAMESPACES}/life/a?force=true").status == 204
    assert api("GET", f"{NAMESPACES}/life/a").reason == "Namespace does not exist"
    assert api.get(f"{NAMESPACES}/life") == []


@pytest.mark.parametrize(
    ("wanted", "boundaries"),
    [
        ({"numBundles": 2}, ["0x00000000", "0x80000000", "0xffffffff"]),
        (
            {"numBundles": 2, "boundaries": ["0xffffffff", "0x00000000", "0x10000000"]},
            ["0x00000000", "0x10000000", "0xffffffff"],
        ),
        ({"numBundles": 0}, ["0x00000000", "0x40000000", "0x80000000", "0xc0000000", "0xffffffff"]),
    ],
    ids=["number", "boundaries", "none"],
)
def test_bundles_as_asked_for(api: Api, wanted: object, boundaries: list[str]) -> None:
    api("PUT", "/admin/v2/tenants/cut", {"allowedClusters": ["standalone"]})
    name = f"cut/n{len(boundaries)}-{boundaries[1]}"
    assert api("PUT", f"{NAMESPACES}/{name}", {"bundles": wanted}).status == 204
    answer = api.get(f"{NAMESPACES}/{name}/bundles")
    assert answer == {"boundaries": boundaries, "numBundles": len(boundaries) - 1}


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "reason"),
    [
        ("PUT", "no/a", None, 404, "Tenant does not exist"),
        ("GET", "no", None, 404, "Tenant not found"),
        ("GET", "public/no/bundles", None, 404, "Namespace does not exist"),
        ("PUT", "public/b@d", None, 412, "b@d"),
        ("PUT", "public/x", {"bundles": {"numBundles": -1}}, 400, "number of bundles"),
        ("PUT", "public/x", {"bundles": {"boundaries": ["0x00000000"]}}, 400, "0xffffffff"),
        ("PUT", "public/no/unload", None, 404, "Namespace not found"),
        ("PUT", "public/default/bogus/unload", None, 412, "bogus"),
        ("PUT", "public/default/0x00000000_0x11111111/unload", None, 412, "no such bundle now"),
        (
            "PUT",
            "public/default/0x00000000_0x40000000/split?splitAlgorithmName=magic",
            None,
            412,
            "supported algorithms are",
        ),
        (
            "PUT",
            "public/default/0x00000000_0x40000000/split"
            "?splitAlgorithmName=specified_positions_divide",
            None,
            412,
            "must not be empty",
        ),
        ("PUT", "public/default/0x00000000_0x40000000/split", ["x"], 400, "must be integer"),
        ("PUT", "public/default/LARGEST/split", None, 404, "LARGEST not found"),
        ("POST", "public/default/messageTTL", -5, 412, "message TTL must >= 0"),
        ("DELETE", "public/no", None, 404, "Namespace public/no does not exist."),
        ("POST", "public/default/replication", ["no"], 403, "Invalid cluster id: no"),
        ("POST", "public/default/persistence", QUORUMS, 400, "(2) >= WriteQuorum (5) >= Ack"),
        ("POST", "public/default/messageTTL", "soon", 400, "the body must be integer"),
        ("POST", "public/no/messageTTL", 5, 404, "Namespace does not exist"),
        ("GET", "public/no/retention", None, 404, "Namespace does not exist"),
        *(
            (method, f"public/no/{path}", body, 404, "Namespace policies does not exist")
            for method, path, body in (
                ("GET", "replicatorDispatchRate", None),
                ("GET", "dispatcherPauseOnAckStatePersistent", None),
                ("POST", "maxTopicsPerNamespace", 5),
                ("DELETE", "maxSubscriptionsPerTopic", None),
                ("DELETE", "retention", None),
                ("DELETE", "resourcegroup", None),
            )
        ),
        ("POST", "public/default/antiAffinity", " ", 412, "can't be empty"),
        ("GET", "public/default/topics?mode=SOME", None, 400, "mode=SOME"),
    ],
)
def test_refusals_carry_pulsars_status_and_a_reason(
    api: Api, method: str, path: str, body: object, status: int, reason: str
) -> None:
    answer = api(method, f"{NAMESPACES}/{path}", body)
    assert answer.status == status, answer
    assert reason in answer.reason


@pytest.mark.parametrize(
    ("path", "method", "value"),
    [
        ("messageTTL", "POST", 60),
        ("retention", "POST", {"retentionTimeInMinutes": 10, "retentionSizeInMB": 5}),
        (
            "publishRate",
            "POST",
            {"publishThrottlingRateInMsg": 100, "publishThrottlingRateInByte": -1},
        ),
        (
            "dispatchRate",
            "POST",
            {
                "dispatchThrottlingRateInMsg": 10,
                "dispatchThrottlingRateInByte": 0,
                "relativeToPublishRate": False,
                "ratePeriodInSecond": 0,
            },
        ),
        ("autoTopicCreation", "POST", {"allowAutoTopicCreation": False}),
        ("compactionThreshold", "PUT", 100),
        ("maxTopicsPerNamespace", "POST", 5),
        ("properties", "PUT", {"a": "b"}),
        ("antiAffinity", "POST", "group"),
    ],
)
def test_a_policy_is_set_read_and_removed(
    api: Api, namespace: str, path: str, method: str, value: object
) -> None:
    at = f"{NAMESPACES}/{namespace}/{path}"
    before = api("GET", at)
    assert before.value in ("", 0, {})
    assert api(method, at, value).status == 204
    assert api.get(at) == value
    assert api("DELETE", at).status == 204
    assert api("GET", at) == before


def test_policies_of_one_namespace_leave_the_others_alone(api: Api, namespace: str) -> None:
    assert api("POST", f"{NAMESPACES}/{namespace}/messageTTL", 60).status == 204
    assert "message_ttl_in_seconds" not in api.get(f"{NAMESPACES}/public/default")
    assert api.get(f"{NAMESPACES}/{namespace}")["message_ttl_in_seconds"] == 60


def test_backlog_quotas_go_by_type(api: Api, namespace: str) -> None:
    at = f"{NAMESPACES}/{namespace}"
    quota = {"limit": 5, "limitSize": 10, "policy": "producer_exception"}
    assert api("POST", f"{at}/backlogQuota", quota).status == 204
    whole = {**quota, "limit": 10, "limitTime": 0}
    assert api.get(f"{at}/backlogQuotaMap") == {"destination_storage": whole}
    assert api("DELETE", f"{at}/backlogQuota?backlogQuotaType=destination_storage").status == 204
    assert api.get(f"{at}/backlogQuotaMap") == {}


def test_namespaces_of_an_anti_affinity_group(api: Api, namespace: str) -> None:
    assert api("POST", f"{NAMESPACES}/{namespace}/antiAffinity", "Apart").status == 204
    assert api.get(f"{NAMESPACES}/standalone/antiAffinity/apart?tenant=t") == [namespace]
    assert api.get(f"{NAMESPACES}/{namespace}/bundles")["numBundles"] == 1
    assert api("POST", f"{NAMESPACES}/{namespace}/antiAffinity", "7").status == 204
    assert api.get(f"{NAMESPACES}/{namespace}/antiAffinity") == 7, "bare text, as Pulsar's"


def test_a_namespace_is_deleted_while_its_bundles_are_unloaded(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many, "PATIENCE_S", 60.0)
    api, other = (Api(each.admin_url) for each in cluster.brokers[:2])
    api("PUT", "/admin/v2/tenants/moving", {"allowedClusters": ["standalone"]})
    for number in range(6):
        name = f"moving/n{number}"
        assert api("PUT", f"{NAMESPACES}/{name}", {"bundles": {"numBundles": 8}}).status == 204
        for topic in range(10):
            assert api("PUT", f"/admin/v2/persistent/{name}/t{topic}").status == 204
        over = threading.Event()

        def unload(name: str = name, over: threading.Event = over) -> None:
            while not over.is_set():
                other("PUT", f"{NAMESPACES}/{name}/unload")

        with ThreadPoolExecutor(1) as threads:
            unloads = threads.submit(unload)
            try:
                deleted = api("DELETE", f"{NAMESPACES}/{name}?force=true")
            finally:
                over.set()
            unloads.result()
        assert deleted.status == 204, deleted
        assert api("GET", f"{NAMESPACES}/{name}").status == 404


def test_every_broker_answers_the_same(api: Api, cluster: Cluster, namespace: str) -> None:
    answers = [Api(each.admin_url).get(f"{NAMESPACES}/{namespace}") for each in cluster.brokers]
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize("by_boundaries", [True, False])
def test_a_namespace_has_as_many_bundles_as_the_metadata_store_can_keep_and_no_more(
    by_boundaries: bool,
) -> None:
    namespace = NamespaceName.parse("t/many")

    def wanted(count: int) -> dict[str, object]:
        return (
            {"boundaries": [hex(number) for number in [*range(count), 2**32 - 1]]}
            if by_boundaries
            else {"numBundles": count}
        )

    found = wanted_bundles(namespace, wanted(BUNDLES_MAX), 4)
    assert len(found.boundaries) == BUNDLES_MAX + 1
    with pytest.raises(RestError, match=str(BUNDLES_MAX)):
        wanted_bundles(namespace, wanted(BUNDLES_MAX + 1), 4)
