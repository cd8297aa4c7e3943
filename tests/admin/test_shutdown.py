"""A broker that an administrator shuts down."""

from collections.abc import Callable

import pulsar
import pytest

from counterpoise import Cluster
from tests.admin.conftest import Api
from tests.waiting import found_soon

pytestmark = pytest.mark.client


def test_a_broker_that_is_shut_down_hands_over_and_leaves(
    cluster: Cluster, connect: Callable[[], pulsar.Client]
) -> None:
    topic = "persistent://public/default/shut-down"
    producer = connect().create_producer(topic)
    producer.send(b"before")
    owner = cluster.owner(topic)
    assert owner is not None
    others = [each for each in cluster.brokers if each is not owner]
    left = Api(others[0].admin_url)
    path = "/admin/v2/brokers/shutdown?maxConcurrentUnloadPerSec=0&forcedTerminateTopic=false"
    assert Api(owner.admin_url)("POST", path).status == 204
    there = sorted(each.id for each in others)
    found_soon(lambda: sorted(left.get("/admin/v2/brokers")) == there, "it has left the list")
    producer.send(b"after")
    # The broker leaves the list first, and serves its bundles until they are released.
    assert found_soon(lambda: cluster.owner(topic) in others, "another broker has the topic")
    assert not owner.alive
