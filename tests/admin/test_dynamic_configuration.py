"""``/admin/v2/brokers/configuration``: a setting is changed, and the brokers do otherwise."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pulsar
import pytest

from counterpoise import Cluster
from counterpoise.decide.balancing.round import BalancingStrategy
from counterpoise.names.load_managers import EXTENSIBLE
from tests.admin.conftest import Api

CONFIGURATION = "/admin/v2/brokers/configuration"
pytestmark = pytest.mark.client


@pytest.fixture
def change(api: Api) -> Iterator[Callable[..., None]]:
    """Sets settings for the test, and gives them back their values afterwards."""
    changed = []

    def to(**settings: str) -> None:
        for name, value in settings.items():
            answer = api("POST", f"{CONFIGURATION}/{name}/{value}")
            assert answer.status == 204, answer
            changed.append(name)

    yield to
    for name in changed:
        assert api("DELETE", f"{CONFIGURATION}/{name}").status == 204


def on_each(cluster: Cluster) -> Iterator[Api]:
    return (Api(each.admin_url) for each in cluster.brokers)


@contextmanager
def until(cluster: Cluster, name: str, value: str) -> Iterator[None]:
    """Every broker runs with the value: the one that was asked at once, the others soon."""
    for each in on_each(cluster):
        while each.get(f"{CONFIGURATION}/runtime")[name] != value:
            pass
    yield


def test_topics_and_subscriptions_are_created_or_not(
    api: Api,
    cluster: Cluster,
    namespace: str,
    connect: Callable[[], pulsar.Client],
    change: Callable[..., None],
) -> None:
    connect().create_producer(f"persistent://{namespace}/before").close()
    change(allowAutoTopicCreation="false")
    with until(cluster, "allowAutoTopicCreation", "false"), pytest.raises(pulsar.TopicNotFound):
        connect().create_producer(f"persistent://{namespace}/after")
    change(allowAutoTopicCreation="true")
    with until(cluster, "allowAutoTopicCreation", "true"):
        connect().create_producer(f"persistent://{namespace}/after").close()
    change(strictlyVerifySubscriptionName="true")
    with until(cluster, "strictlyVerifySubscriptionName", "true"):
        refused = api("PUT", f"/admin/v2/persistent/{namespace}/after/subscription/a%2Fb")
        assert refused.status == 400
        assert "only contains" in refused.reason


def test_with_as_many_partitions_as_is_said(
    cluster: Cluster, namespace: str, change: Callable[..., None]
) -> None:
    change(allowAutoTopicCreationType="partitioned", defaultNumPartitions="3")
    with until(cluster, "defaultNumPartitions", "3"):
        for number, api in enumerate(on_each(cluster)):
            path = f"/admin/v2/persistent/{namespace}/p{number}/partitions"
            assert api.get(f"{path}?checkAllowAutoCreation=true")["partitions"] == 3


def test_new_namespaces_have_as_many_bundles_as_is_said(
    cluster: Cluster, namespace: str, change: Callable[..., None]
) -> None:
    change(defaultNumberOfNamespaceBundles="7")
    with until(cluster, "defaultNumberOfNamespaceBundles", "7"):
        for number, api in enumerate(on_each(cluster)):
            path = f"/admin/v2/namespaces/t/bundles-{number}"
            assert api("PUT", path).status == 204
            assert api.get(f"{path}/bundles")["numBundles"] == 7


def test_bundles_are_split_by_the_algorithm_that_is_said(
    api: Api, cluster: Cluster, namespace: str, change: Callable[..., None]
) -> None:
    split = f"/admin/v2/namespaces/{namespace}/0x00000000_0xffffffff/split"
    assert api("GET", f"/lookup/v2/topic/persistent/{namespace}/x").status == 200
    change(defaultNamespaceBundleSplitAlgorithm="topic_count_equally_divide")
    with until(cluster, "defaultNamespaceBundleSplitAlgorithm", "topic_count_equally_divide"):
        assert api("PUT", split).status == 204
    # No topics, so by their count there is nothing to divide.
    assert api.get(f"/admin/v2/namespaces/{namespace}/bundles")["numBundles"] == 1
    change(defaultNamespaceBundleSplitAlgorithm="range_equally_divide")
    with until(cluster, "defaultNamespaceBundleSplitAlgorithm", "range_equally_divide"):
        assert api("PUT", split).status == 204
    assert api.get(f"/admin/v2/namespaces/{namespace}/bundles")["numBundles"] == 2


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("defaultNumPartitions", "0", "from 1 to 10000"),
        ("defaultNumPartitions", "1_0", "whole number"),
        ("allowAutoTopicCreation", "perhaps", "true or false"),
        ("loadBalancerLoadSheddingStrategy", "os:system", "no strategy is called"),
        ("clusterName", "x", "non-dynamic"),
    ],
)
def test_a_value_that_is_no_good_is_refused_and_changes_nothing(
    api: Api, name: str, value: str, reason: str
) -> None:
    answer = api("POST", f"{CONFIGURATION}/{name}/{value}")
    assert answer.status == 412
    assert reason in answer.reason
    assert name not in api.get(f"{CONFIGURATION}/values")


@pytest.mark.parametrize(("value", "reason"), [("x.Y", "not supported"), (EXTENSIBLE, "restart")])
def test_001_l61_004_l374_another_load_manager_is_refused_while_brokers_run(
    api: Api, value: str, reason: str
) -> None:
    name = "loadManagerClassName"
    test_a_value_that_is_no_good_is_refused_and_changes_nothing(api, name, value, reason)


def test_the_leader_sheds_by_what_is_said() -> None:
    config = {"loadBalancerSheddingEnabled": True}
    with Cluster(brokers=2, config=config) as cluster:
        api = Api(cluster.admin_url)
        leader = cluster.brokers[0].running

        def strategy() -> BalancingStrategy:
            return leader.shedding.source.strategy(leader.config.shedding)

        assert strategy().shedder.name == "ThresholdShedder"
        name = "loadBalancerLoadSheddingStrategy"
        assert api("POST", f"{CONFIGURATION}/{name}/UniformLoadShedder").status == 204
        java = "org.apache.pulsar.broker.loadbalance.impl.OverloadShedder"
        assert api("POST", f"{CONFIGURATION}/{name}/{java}").status == 204
        assert strategy().shedder.name == "OverloadShedder"
        assert api("POST", f"{CONFIGURATION}/{name}/UniformLoadShedder").status == 204
        assert api("POST", f"{CONFIGURATION}/maxUnloadPercentage/0.5").status == 204
        assert strategy().shedder.name == "UniformLoadShedder"
        assert str(strategy().options).count("0.5")
        assert api("POST", f"{CONFIGURATION}/{name}/TransferShedder").status == 204
        assert strategy().shedder.name == "ThresholdShedder", "for the extensible manager alone"
        assert api("POST", f"{CONFIGURATION}/loadBalancerSheddingEnabled/false").status == 204
        assert strategy().balance.shedding_enabled is False
        assert api("DELETE", f"{CONFIGURATION}/{name}").status == 204
        assert strategy().shedder.name == "ThresholdShedder"
