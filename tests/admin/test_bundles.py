"""Lookups, unloads and splits: asked of any broker, done by the right one."""

from collections.abc import Callable
from urllib.parse import urlsplit

import pulsar
import pytest

from counterpoise import Cluster
from tests.admin.conftest import Api

Connect = Callable[[], pulsar.Client]
FULL = "0x00000000_0xffffffff"

pytestmark = pytest.mark.client


def owned_topic(cluster: Cluster, client: pulsar.Client, namespace: str) -> pulsar.Producer:
    """A producer on ``namespace/topic``, so that its bundle has an owner."""
    return client.create_producer(f"persistent://{namespace}/topic")


def elsewhere(cluster: Cluster, topic: str) -> str:
    """A broker that does not own the topic."""
    owner = cluster.owner(topic)
    return next(each.id for each in cluster.brokers if each is not owner)


def test_lookup_names_the_owner(
    api: Api, cluster: Cluster, namespace: str, connect: Connect
) -> None:
    owned_topic(cluster, connect(), namespace)
    owner = cluster.owner(f"{namespace}/topic")
    assert owner is not None
    for broker in cluster.brokers:
        answer = Api(broker.admin_url).get(f"/lookup/v2/topic/persistent/{namespace}/topic")
        assert answer["brokerUrl"] == answer["nativeUrl"] == owner.service_url
        assert answer["httpUrl"] == owner.admin_url
    assert api.get(f"/lookup/v2/topic/persistent/{namespace}/topic/bundle") == FULL
    assert api("GET", "/lookup/v2/topic/persistent/no/where/x").status == 404


def test_unload_hands_the_bundle_to_the_destination(
    api: Api, cluster: Cluster, namespace: str, connect: Connect
) -> None:
    producer = owned_topic(cluster, connect(), namespace)
    producer.send(b"before")
    destination = elsewhere(cluster, f"{namespace}/topic")
    path = f"/admin/v2/namespaces/{namespace}/{FULL}/unload?destinationBroker={destination}"
    assert api("PUT", path).status == 204
    owner = cluster.owner(f"{namespace}/topic")
    assert owner is not None
    assert owner.id == destination
    producer.send(b"after")


def test_another_brokers_bundle_is_a_redirect_that_keeps_the_request(
    cluster: Cluster, namespace: str, connect: Connect
) -> None:
    owned_topic(cluster, connect(), namespace)
    owner = cluster.owner(f"{namespace}/topic")
    assert owner is not None
    other = next(each for each in cluster.brokers if each is not owner)
    path = f"/admin/v2/namespaces/{namespace}/{FULL}/unload?destinationBroker={other.id}"
    answer = Api(other.admin_url)("PUT", path, follow=False)
    assert answer.status == 307
    target = urlsplit(answer.location or "")
    assert f"{target.scheme}://{target.netloc}" == owner.admin_url
    assert f"destinationBroker={other.id}" in target.query.replace("%3A", ":")
    # Nothing has happened yet.
    assert cluster.owner(f"{namespace}/topic") is owner


def test_an_unowned_bundle_goes_to_its_destination_at_the_next_lookup(
    api: Api, cluster: Cluster, namespace: str, connect: Connect
) -> None:
    destination = cluster.brokers[2].id
    path = f"/admin/v2/namespaces/{namespace}/{FULL}/unload"
    assert api("PUT", path).status == 204
    assert api("PUT", f"{path}?destinationBroker={destination}").status == 204
    owned_topic(cluster, connect(), namespace)
    owner = cluster.owner(f"{namespace}/topic")
    assert owner is not None
    assert owner.id == destination


@pytest.mark.parametrize("written", ["absent:1", "http://absent:1", "https://absent:1/%20"])
def test_an_inactive_destination_is_refused(api: Api, written: str) -> None:
    path = "/admin/v2/namespaces/public/default/0x00000000_0x40000000/unload"
    answer = api("PUT", f"{path}?destinationBroker={written}")
    assert answer.status == 409
    assert "inactive destination broker absent:1" in answer.reason


def test_unloading_a_namespace_unloads_all_its_bundles(
    api: Api, cluster: Cluster, connect: Connect
) -> None:
    producers = [connect().create_producer(f"public/default/t{index}") for index in range(8)]
    before = {index: cluster.owner(f"t{index}") for index in range(8)}
    assert api("PUT", "/admin/v2/namespaces/public/default/unload").status == 204
    for index, producer in enumerate(producers):
        producer.send(b"x")
        assert cluster.owner(f"t{index}") is not before[index]


@pytest.mark.parametrize("which", [FULL, "LARGEST"])
def test_split_in_the_middle(
    api: Api, cluster: Cluster, namespace: str, connect: Connect, which: str
) -> None:
    producer = owned_topic(cluster, connect(), namespace)
    producer.send(b"before")
    assert api("PUT", f"/admin/v2/namespaces/{namespace}/{which}/split").status == 204
    answer = api.get(f"/admin/v2/namespaces/{namespace}/bundles")
    assert answer["boundaries"] == ["0x00000000", "0x7fffffff", "0xffffffff"]
    producer.send(b"after")


def test_split_at_given_boundaries(
    api: Api, cluster: Cluster, namespace: str, connect: Connect
) -> None:
    client = connect()
    producers = [client.create_producer(f"persistent://{namespace}/t{i}") for i in range(2)]
    path = (
        f"/admin/v2/namespaces/{namespace}/{FULL}/split"
        "?unload=true&splitAlgorithmName=specified_positions_divide"
    )
    assert api("PUT", path, [0x10000000, 0x20000000]).status == 204
    answer = api.get(f"/admin/v2/namespaces/{namespace}/bundles")
    assert answer["boundaries"] == ["0x00000000", "0x10000000", "0x20000000", "0xffffffff"]
    for producer in producers:
        producer.send(b"still here")


def test_positions_of_topics_on_the_ring(api: Api, namespace: str) -> None:
    for name in ("a", "b"):
        assert api("PUT", f"/admin/v2/persistent/{namespace}/{name}").status == 204
    path = f"/admin/v2/namespaces/{namespace}/{FULL}/topicHashPositions"
    answer = api.get(path)
    assert sorted(answer["topicHashPositions"]) == [
        f"persistent://{namespace}/a",
        f"persistent://{namespace}/b",
    ]
    one = api.get(f"{path}?topics=persistent://{namespace}/b")["topicHashPositions"]
    assert list(one) == [f"persistent://{namespace}/b"]
    assert api("PUT", f"/admin/v2/persistent/{namespace}/p/partitions", 2).status == 204
    some = api.get(f"{path}?topics=persistent://{namespace}/p")["topicHashPositions"]
    assert sorted(some) == [f"persistent://{namespace}/p-partition-{n}" for n in range(2)]


def test_owned_bundles_of_a_broker(
    api: Api, cluster: Cluster, namespace: str, connect: Connect
) -> None:
    owned_topic(cluster, connect(), namespace)
    owner = cluster.owner(f"{namespace}/topic")
    for each in cluster.brokers:
        answer = api.get(f"/admin/v2/brokers/standalone/{each.id}/ownedNamespaces")
        assert (f"{namespace}/{FULL}" in answer) == (each is owner)


def test_the_non_persistent_topics_of_a_bundle_are_its_owners_and_asking_takes_nothing(
    cluster: Cluster, namespace: str, connect: Connect
) -> None:
    path = f"/admin/v2/non-persistent/{namespace}/{FULL}"
    brokers = [Api(each.admin_url) for each in cluster.brokers]
    for _ in range(2):  # no broker owns it yet
        assert [each("GET", path, follow=False).status for each in brokers] == [204] * len(brokers)
    topic = f"non-persistent://{namespace}/topic"
    producer = connect().create_producer(topic)
    owner = cluster.owner(topic)
    for broker, each in zip(cluster.brokers, brokers, strict=True):
        answer = each("GET", path, follow=False)
        assert answer.status == (200 if broker is owner else 307)
        assert each.get(path) == [topic]
    producer.close()


def test_an_empty_bundle_can_be_deleted(
    api: Api, cluster: Cluster, namespace: str, connect: Connect
) -> None:
    path = f"/admin/v2/namespaces/{namespace}/{FULL}"
    client = connect()
    producer = owned_topic(cluster, client, namespace)
    assert api("DELETE", path).reason == "Cannot delete non empty bundle"
    producer.close()
    assert api("DELETE", f"/admin/v2/persistent/{namespace}/topic?force=true").status == 204
    assert api("DELETE", path).status == 204
