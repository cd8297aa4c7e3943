"""Apache's own ``pulsar-admin`` on our cluster."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pulsar
import pytest

from counterpoise import Cluster
from tests.apache_tools import ADMIN, needs_tools, run_tool

pytestmark = [pytest.mark.client, needs_tools]
Admin = Callable[..., str]


@pytest.fixture
def admin(cluster: Cluster, tmp_path: Path) -> Admin:
    """Runs one command and gives what it printed; fails the test with what it complained."""
    return partial(run_tool, ADMIN, tmp_path, cluster.service_url, cluster.admin_url)


def test_it_lists_creates_and_deletes(admin: Admin) -> None:
    # Few commands: each one starts a JVM.
    assert admin("namespaces", "create", "public/a", "--bundles", "8") == ""
    assert '"numBundles" : 8' in admin("namespaces", "bundles", "public/a")
    assert admin("topics", "create-partitioned-topic", "public/a/many", "-p", "2") == ""
    assert admin("topics", "list-partitioned-topics", "public/a") == "persistent://public/a/many"
    assert admin("topics", "delete-partitioned-topic", "public/a/many") == ""
    assert admin("namespaces", "delete", "public/a") == ""


def test_it_moves_a_bundle_where_it_is_told(
    admin: Admin, cluster: Cluster, connect: Callable[[], pulsar.Client]
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
