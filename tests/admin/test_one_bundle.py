"""What is asked of one bundle concerns its topics, and none of the bundle beside it."""

from collections.abc import Callable, Iterator

import pulsar
import pytest

from counterpoise import Cluster
from counterpoise.names.hashing import topic_hash
from tests.admin.conftest import Api, namespace_of_test

HALVES = ("0x00000000_0x80000000", "0x80000000_0xffffffff")
Connect = Callable[[], pulsar.Client]

pytestmark = pytest.mark.client


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=1) as running:
        yield running


@pytest.fixture
def halved(api: Api, request: pytest.FixtureRequest) -> str:
    return namespace_of_test(api, request, bundles=2)


def topics(namespace: str, half: int, count: int, domain: str = "persistent") -> list[str]:
    """So many topics whose hashes are in that half of all."""
    names = (f"{domain}://{namespace}/t{number}" for number in range(100))
    found = [each for each in names if (topic_hash(each) >= 0x80000000) == bool(half)]
    return sorted(found[:count])


def path(topic: str) -> str:
    return f"/admin/v2/{topic.replace('://', '/')}"


def test_the_topics_of_a_bundle(api: Api, halved: str) -> None:
    for domain in ("persistent", "non-persistent"):
        for half, bundle in enumerate(HALVES):
            made = topics(halved, half, 1 + half, domain)
            assert [api("PUT", path(each)).status for each in made] == [204] * len(made)
            assert api.get(f"/admin/v2/{domain}/{halved}?bundle={bundle}") == made
    for half, bundle in enumerate(HALVES):
        made = topics(halved, half, 1 + half, "non-persistent")
        assert api.get(f"/admin/v2/non-persistent/{halved}/{bundle}") == made
        positions = api.get(f"/admin/v2/namespaces/{halved}/{bundle}/topicHashPositions")
        found = [*made, *topics(halved, half, 1 + half)]
        assert positions["topicHashPositions"] == {each: topic_hash(each) for each in found}
        assert (positions["namespace"], positions["bundle"]) == (halved, bundle)


def test_one_bundle_forgets(api: Api, halved: str, connect: Connect) -> None:
    client, base = connect(), f"/admin/v2/namespaces/{halved}"
    (here,), (there,) = topics(halved, 0, 1), topics(halved, 1, 1)
    for topic in (here, there):
        producer = client.create_producer(topic)
        producer.send(b"x")
        for name in ("one", "other"):
            assert api("PUT", f"{path(topic)}/subscription/{name}", "earliest").status == 204

    def backlogs() -> list[dict[str, int]]:
        found = [api.get(f"{path(each)}/stats")["subscriptions"] for each in (here, there)]
        return [{name: each["msgBacklog"] for name, each in one.items()} for one in found]

    full = {"one": 1, "other": 1}
    assert api("POST", f"{base}/{HALVES[0]}/clearBacklog/one").status == 204
    assert backlogs() == [{"one": 0, "other": 1}, full]
    assert api("POST", f"{base}/{HALVES[0]}/clearBacklog").status == 204
    assert backlogs() == [{"one": 0, "other": 0}, full]
    assert api("POST", f"{base}/{HALVES[1]}/unsubscribe/one").status == 204
    assert backlogs() == [{"one": 0, "other": 0}, {"other": 1}]
    consumer = client.subscribe(there, "other")
    in_use = api("POST", f"{base}/unsubscribe/other")
    assert (in_use.status, in_use.reason) == (412, "Subscription has active connected consumers")
    consumer.close()


def test_a_bundle_is_deleted_whatever_is_in_the_other(api: Api, halved: str) -> None:
    (there,) = topics(halved, 1, 1)
    assert api("PUT", path(there)).status == 204
    first, second = (f"/admin/v2/namespaces/{halved}/{bundle}" for bundle in HALVES)
    (absent,) = topics(halved, 0, 1)
    assert api.get(f"/lookup/v2/topic/{absent.replace('://', '/')}")["brokerUrl"], "it has an owner"
    assert api("DELETE", first).status == 204
    assert api("DELETE", second).reason == "Cannot delete non empty bundle"


def test_the_largest_bundle_is_split(api: Api, cluster: Cluster, halved: str) -> None:
    for each in (*topics(halved, 0, 1), *topics(halved, 1, 3)):
        assert api("PUT", path(each)).status == 204
    base, broker = f"/admin/v2/namespaces/{halved}", cluster.brokers[0].id

    def owned() -> list[str]:
        found = api.get(f"/admin/v2/brokers/standalone/{broker}/ownedNamespaces")
        return sorted(each for each in found if each.startswith(f"{halved}/"))

    assert owned() == [f"{halved}/{each}" for each in HALVES]
    assert api("PUT", f"{base}/LARGEST/split").status == 204
    first, middle, cut, last = api.get(f"{base}/bundles")["boundaries"]
    assert (first, middle, last) == ("0x00000000", "0x80000000", "0xffffffff")
    children = [f"{halved}/{middle}_{cut}", f"{halved}/{cut}_{last}"]
    assert owned() == [f"{halved}/{HALVES[0]}", *children]


def test_each_partition_of_a_topic_is_unloaded(api: Api, halved: str) -> None:
    topic = f"/admin/v2/persistent/{halved}/parted"
    assert api("PUT", f"{topic}/partitions", 3).status == 204

    def loaded() -> list[str]:
        of_namespace = api.get("/admin/v2/broker-stats/topics").get(halved, {})
        return sorted(
            topic
            for of_bundle in of_namespace.values()
            for of_domain in of_bundle.values()
            for topic in of_domain
        )

    names = [f"persistent://{halved}/parted-partition-{number}" for number in range(3)]
    for each in names:
        assert api("GET", f"{path(each)}/stats").status == 200
    assert loaded() == names
    assert api("PUT", f"{topic}/unload").status == 204
    assert loaded() == []
