"""Apache's own ``pulsar-admin`` moves a bundle (``table`` has all of its commands)."""

from collections.abc import Callable, Iterator

import pulsar
import pytest

from counterpoise import Cluster
from tests.apache_tools import AdminTool, admin_tool, needs_tools

pytestmark = [pytest.mark.client, needs_tools]


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[AdminTool]:
    """Runs a command and gives what it printed; fails the test with what it complained."""
    with admin_tool(cluster.admin_url) as tool:
        yield tool


def test_it_moves_a_bundle_to_its_destination(
    admin: AdminTool, cluster: Cluster, connect: Callable[[], pulsar.Client]
) -> None:
    producer = connect().create_producer("moved")
    producer.send(b"before")
    owner = cluster.owner("moved")
    target = next(each for each in cluster.brokers if each is not owner)
    bundle = cluster.bundle("moved").rpartition("/")[2]
    where = ("--bundle", bundle, "--destinationBroker", target.id)
    assert admin("namespaces", "unload", "public/default", *where) == ""
    assert cluster.owner("moved") is target
    assert admin("topics", "lookup", "moved") == target.service_url
    producer.send(b"after")
