"""The embedded cluster from start to end: what a failure, a stop and a kill leave behind."""

import socket
import threading
from pathlib import Path
from unittest.mock import Mock
from urllib.parse import urlsplit

import pulsar
import pytest

from counterpoise import Cluster
from counterpoise.app.clusters import console_process
from counterpoise.broker.topic import subscription_cursor
from tests.admin.conftest import Api
from tests.ports import taken_ports
from tests.waiting import found_soon

pytestmark = pytest.mark.client
THREAD = "counterpoise-cluster"


def cluster_threads() -> int:
    return sum(each.name == THREAD and each.is_alive() for each in threading.enumerate())


def client_of(cluster: Cluster) -> pulsar.Client:
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    return pulsar.Client(cluster.service_url, operation_timeout_seconds=60, logger=logger)


def test_a_start_that_fails_leaves_no_thread_and_no_broker_and_can_be_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads, consoles = cluster_threads(), (Mock(url=f"http://{number}") for number in range(2))
    monkeypatch.setattr(console_process, "ConsoleProcess", lambda *_, **__: next(consoles))
    with taken_ports(2) as (first, (one, other)):
        one.close()
        cluster = Cluster(brokers=2, config={"brokerServicePort": first})
        with pytest.raises(OSError, match=str(first + 1)):
            cluster.start()
        assert cluster_threads() == threads
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", first), timeout=60)
        with pytest.raises(RuntimeError, match="does not run"):
            cluster.owner("x")
        other.close()
        with cluster:
            assert [each.service_url for each in cluster.brokers if each.alive] == [
                f"pulsar://127.0.0.1:{port}" for port in (first, first + 1)
            ]
            assert cluster.console_url == cluster.console_url == "http://0"
        with cluster:
            assert cluster.console_url == "http://1", "the first one has ended"
    assert cluster_threads() == threads


@pytest.mark.parametrize("orderly", [True, False])
def test_an_orderly_stop_saves_acknowledgements_and_a_fast_one_does_not_wait_for_them(
    orderly: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is redelivered after a fast stop was acknowledged after the last save of the cursor."""
    monkeypatch.setattr(subscription_cursor, "SAVE_SECONDS", 3600.0)
    cluster = Cluster(brokers=1, storage=tmp_path).start()
    client = client_of(cluster)
    consumer = client.subscribe("orders", "s")
    producer = client.create_producer("orders")
    for number in range(5):
        producer.send(b"%d" % number)
        consumer.acknowledge(consumer.receive(timeout_millis=60_000))
    stats = Api(cluster.admin_url)
    path = "/admin/v2/persistent/public/default/orders/stats"
    found_soon(lambda: not stats.get(path)["subscriptions"]["s"]["msgBacklog"])
    cluster.stop(orderly=orderly)
    client.close()
    with Cluster(brokers=1, storage=tmp_path) as again:
        client = client_of(again)
        client.create_producer("orders").send(b"last")
        first = client.subscribe("orders", "s").receive(timeout_millis=60_000).data()
        client.close()
    assert first == (b"last" if orderly else b"0")


def test_a_broker_that_stops_hands_its_bundles_over_and_a_killed_one_does_not() -> None:
    for kill in (False, True):
        with Cluster(brokers=2) as cluster:
            client = client_of(cluster)
            client.create_producer("kept").send(b"x")
            client.close()
            owner = cluster.owner("kept")
            assert owner is not None
            (cluster.kill if kill else cluster.stop_broker)(owner)
            successor = cluster.owner("kept")
            assert (successor is None) is kill
            assert successor is not owner
            assert not owner.alive


def test_a_broker_that_an_administrator_stops_is_gone_for_the_cluster_too() -> None:
    with Cluster(brokers=2) as cluster:
        stopped, other = cluster.brokers
        answer = Api(stopped.admin_url)(
            "POST", "/admin/v2/brokers/shutdown?maxConcurrentUnloadPerSec=0"
        )
        assert answer.status in (200, 204)
        found_soon(lambda: not stopped.alive)
        assert cluster.service_url == other.service_url
        assert cluster.admin_url == other.admin_url


@pytest.mark.parametrize("orderly", [True, False])
def test_a_cluster_that_ends_while_a_broker_hands_over_leaves_no_listener(orderly: bool) -> None:
    threads = cluster_threads()
    with Cluster(brokers=1, config={"defaultNumberOfNamespaceBundles": 2}) as cluster:
        stopped, api = cluster.brokers[0], Api(cluster.brokers[0].admin_url)
        for bundle in ("0x00000000_0x80000000", "0x80000000_0xffffffff"):
            topics = (f"/lookup/v2/topic/persistent/public/default/{n}" for n in range(64))
            api.get(next(each for each in topics if api.get(f"{each}/bundle") == bundle))
        path = "/admin/v2/brokers/shutdown?maxConcurrentUnloadPerSec=1"
        assert api("POST", path).status in (200, 204)
        found_soon(lambda: not stopped.alive)
        addresses = [urlsplit(stopped.service_url), urlsplit(stopped.admin_url)]
        cluster.stop(orderly=orderly)
        for each in addresses:
            with pytest.raises(OSError, match="refused"):
                socket.create_connection((str(each.hostname), each.port or 0), timeout=60)
    assert cluster_threads() == threads


def test_ports_that_are_named_count_up_from_the_first_broker() -> None:
    with taken_ports(4) as (first, held):
        for each in held:
            each.close()
        config = {"brokerServicePort": first, "webServicePort": first + 2}
        with Cluster(brokers=2, config=config) as cluster:
            assert {each.service_url for each in cluster.brokers} == {
                f"pulsar://127.0.0.1:{first}",
                f"pulsar://127.0.0.1:{first + 1}",
            }
            assert {each.admin_url for each in cluster.brokers} == {
                f"http://127.0.0.1:{first + 2}",
                f"http://127.0.0.1:{first + 3}",
            }
        for port in range(first, first + 4):  # and no admin API was ever asked
            with pytest.raises(OSError, match="refused"):
                socket.create_connection(("127.0.0.1", port), timeout=60)


@pytest.mark.parametrize("is_kept", [False, True])
def test_metadata_outlives_all_brokers_and_the_cluster_where_it_is_kept(
    is_kept: bool, tmp_path: Path
) -> None:
    with Cluster(brokers=1, data=tmp_path if is_kept else None) as cluster:
        assert Api(cluster.admin_url)("PUT", "/admin/v2/namespaces/public/mine").status == 204
        cluster.stop_broker(cluster.brokers[0])
        added = cluster.add_broker()
        assert "public/mine" in Api(added.admin_url).get("/admin/v2/namespaces/public")
    with cluster:
        found = Api(cluster.admin_url).get("/admin/v2/namespaces/public")
        assert ("public/mine" in found) is is_kept


def test_a_directory_named_as_on_windows_is_no_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Cluster(brokers=1, storage="c:messages") as cluster:
        client = client_of(cluster)
        client.create_producer("orders").send(b"kept")
        client.close()
    assert any((tmp_path / "c:messages").iterdir())
