"""The embedded cluster, used as a person's test uses it: from a synchronous thread."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import Mock

import pulsar
import pytest

import counterpoise
from counterpoise import Cluster
from counterpoise.app.clusters import embedded_brokers, loop_thread
from counterpoise.app.clusters.loop_thread import LoopThread
from counterpoise.names.options import ConfigError
from tests.app.clusters.test_shedding import is_where_it_went
from tests.ports import free_ports
from tests.waiting import found_soon

pytestmark = pytest.mark.client


@contextmanager
def client_of(cluster: Cluster) -> Iterator[pulsar.Client]:
    client = pulsar.Client(
        cluster.service_url,
        operation_timeout_seconds=60,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    try:
        yield client
    finally:
        client.close()


def read_all(client: pulsar.Client, topic: str, count: int) -> list[bytes]:
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    return [reader.read_next(timeout_millis=60_000).data() for _ in range(count)]


def test_a_client_produces_and_consumes(shared_cluster: Cluster) -> None:
    with client_of(shared_cluster) as client:
        consumer = client.subscribe("hello", "test")
        producer = client.create_producer("hello")
        for number in range(100):
            producer.send_async(b"%d" % number, lambda *_: None)
        producer.flush()
        got = [consumer.receive(timeout_millis=60_000).data() for _ in range(100)]
    assert got == [b"%d" % number for number in range(100)]


def test_three_brokers_one_leader_public_default_there(shared_cluster: Cluster) -> None:
    assert len({each.id for each in shared_cluster.brokers}) == 3
    assert [each for each in shared_cluster.brokers if each.is_leader] == [shared_cluster.leader]
    assert shared_cluster.bundle("anything").startswith("public/default/0x")
    assert shared_cluster.admin_url == shared_cluster.brokers[0].admin_url


def test_no_broker_owns_a_bundle_before_its_first_lookup() -> None:
    with Cluster(brokers=1) as cluster:
        assert cluster.owner("quiet") is None
        with pytest.raises(LookupError, match="no broker owns public/default/"):
            cluster.unload("quiet")


def test_unload_moves_a_bundle_under_a_live_producer(shared_cluster: Cluster) -> None:
    topic = "moving"
    with client_of(shared_cluster) as client:
        producer = client.create_producer(topic)
        producer.send(b"before")
        first = shared_cluster.owner(topic)
        assert first is not None
        target = next(each for each in shared_cluster.brokers if each is not first)
        assert shared_cluster.unload(topic, target) is target
        producer.send(b"after")
        assert shared_cluster.owner(topic) is target
        assert shared_cluster.bundle(topic) in target.bundles
        assert read_all(client, topic, 2) == [b"before", b"after"]


def test_unload_without_a_destination_goes_elsewhere(shared_cluster: Cluster) -> None:
    with client_of(shared_cluster) as client:
        client.create_producer("somewhere").send(b"x")
        first = shared_cluster.owner("somewhere")
        assert shared_cluster.unload("somewhere") is not first


def test_split_cuts_the_bundle_in_two() -> None:
    with Cluster(brokers=2) as cluster, client_of(cluster) as client:
        producer = client.create_producer("growing")
        producer.send(b"one")
        before = cluster.bundle("growing")
        parts = cluster.split("growing")
        assert len(parts) == 2
        assert before not in parts
        assert cluster.bundle("growing") in parts
        producer.send(b"two")
        assert read_all(client, "growing", 2) == [b"one", b"two"]


@pytest.mark.parametrize("storage", [False, True], ids=["memory", "files"])
def test_what_was_acknowledged_survives_the_owner(storage: bool, tmp_path: Path) -> None:
    storage_at = tmp_path if storage else None
    with Cluster(brokers=3, storage=storage_at) as cluster, client_of(cluster) as client:
        producer = client.create_producer("precious")
        for number in range(50):
            producer.send(b"%d" % number)
        owner = cluster.owner("precious")
        assert owner is not None
        cluster.kill(owner)
        assert not owner.alive
        assert owner.bundles == []
        producer.send(b"50")
        assert cluster.owner("precious") not in (None, owner)
        assert read_all(client, "precious", 51) == [b"%d" % number for number in range(51)]


def test_messages_in_files_are_there_for_the_next_cluster(tmp_path: Path) -> None:
    with Cluster(brokers=2, storage=tmp_path) as cluster, client_of(cluster) as client:
        client.create_producer("kept").send(b"me")
    with Cluster(brokers=2, storage=tmp_path) as cluster, client_of(cluster) as client:
        assert read_all(client, "kept", 1) == [b"me"]


def test_when_the_leader_goes_another_one_leads() -> None:
    with Cluster(brokers=3) as cluster:
        first = cluster.leader
        assert first is not None
        cluster.stop_broker(first)
        added = cluster.add_broker()
        assert cluster.leader not in (None, first)
        assert added.alive
        assert len(cluster.brokers) == 4
        live = [each for each in cluster.brokers if each is not first]
        hosts = ",".join(each.service_url.removeprefix("pulsar://") for each in live)
        assert cluster.service_url == f"pulsar://{hosts}"


def test_a_broker_with_the_port_of_one_that_ended_is_found_in_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As the system may give it, where a port is free again."""
    monkeypatch.setattr(embedded_brokers, "nth_port", lambda port, _: port)
    with Cluster(brokers=1, config={"webServicePort": free_ports()}) as cluster:
        [first] = cluster.brokers
        cluster.stop_broker(first)
        added = cluster.add_broker()
        assert added.id == first.id
        with client_of(cluster) as client:
            client.create_producer("topic").send(b"x")
        assert cluster.owner("topic") is added
        cluster.kill(added.id)
        assert not added.alive


def test_it_balances_when_it_is_asked_to() -> None:
    config = {
        "loadBalancerLoadSheddingStrategy": "UniformLoadShedder",
        "loadBalancerReportUpdateMinIntervalMillis": 200,
        "minUnloadMessage": 1,
        "minUnloadMessageThroughput": 1,
        "maxUnloadPercentage": 0.5,
        "defaultNumberOfNamespaceBundles": 16,
    }
    with Cluster(2, config=config, balance_every_s=0.5) as cluster, client_of(cluster) as client:
        # Everything on one broker: the second one joins when the load is there already.
        first, second = cluster.brokers
        producers = [client.create_producer(f"t{number}") for number in range(20)]
        for number in range(20):
            if cluster.owner(f"t{number}") is second:
                cluster.unload(f"t{number}", first)
        stop = threading.Event()

        def load() -> None:
            while not stop.is_set():
                for each in producers:
                    each.send(b"x" * 100)

        loader = threading.Thread(target=load)
        loader.start()
        try:
            found_soon(lambda: any(made.moves for made in cluster.rounds), "a move")
            moved = next(made for made in cluster.rounds if made.moves).moves[0]
            assert (moved.source, moved.destination) == (first.id, second.id)
            found_soon(lambda: is_where_it_went(cluster, moved.bundle))
        finally:
            stop.set()
            loader.join()


def test_settings_go_by_pulsars_names() -> None:
    with Cluster(brokers=1, config={"defaultNumberOfNamespaceBundles": 1}) as cluster:
        assert cluster.bundle("any") == "public/default/0x00000000_0xffffffff"


def test_a_setting_that_does_not_exist_is_an_error_with_a_hint() -> None:
    with pytest.raises(ConfigError, match="did you mean defaultNumberOfNamespaceBundles"):
        Cluster(config={"defaultNumberOfNamespaceBundle": 8})


def test_a_setting_out_of_range_is_an_error() -> None:
    with pytest.raises(ConfigError, match="defaultNumberOfNamespaceBundles"):
        Cluster(config={"defaultNumberOfNamespaceBundles": 0})


def test_it_says_when_it_does_not_run() -> None:
    cluster = Cluster()
    with pytest.raises(RuntimeError, match="does not run"):
        cluster.owner("x")
    with pytest.raises(ValueError, match="at least one"):
        Cluster(brokers=0)


def test_an_unknown_broker_is_named(shared_cluster: Cluster) -> None:
    with pytest.raises(LookupError, match="no broker 'nowhere:1'"):
        shared_cluster.kill("nowhere:1")


def test_stopping_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    with Cluster(brokers=2):
        pass
    assert not [each for each in threading.enumerate() if each not in before and each.is_alive()]


async def test_it_can_be_used_from_a_coroutine() -> None:
    async with Cluster(brokers=1) as cluster:
        assert await asyncio.to_thread(cluster.owner, "x") is None


def test_two_clusters_do_not_see_each_other() -> None:
    with Cluster(brokers=1) as one, Cluster(brokers=1) as other:
        with client_of(one) as client:
            client.create_producer("mine").send(b"x")
        assert one.owner("mine") is not None
        assert other.owner("mine") is None


def test_waiting_on_the_loops_own_thread_is_refused() -> None:
    thread = LoopThread("test")

    async def inside() -> None:
        with pytest.raises(RuntimeError, match="another thread"):
            thread.run(asyncio.sleep(0))

    try:
        thread.run(inside())
        with pytest.raises(TimeoutError):
            thread.run(asyncio.Event().wait(), timeout_s=0.01)
    finally:
        thread.stop()
        thread.stop()


def test_without_a_descriptor_left_for_its_loop_a_cluster_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(brokers=1, record=tmp_path / "recording")
    with monkeypatch.context() as full:
        no_loop = Mock(side_effect=OSError(24, "Too many open files"))
        full.setattr(loop_thread, "loop_factory", lambda: no_loop)
        with pytest.raises(OSError, match="Too many open files"):
            cluster.start()
    with cluster:
        assert cluster.brokers


def test_the_package_has_no_other_lazy_names() -> None:
    assert counterpoise.Cluster is Cluster
    with pytest.raises(AttributeError, match="no attribute 'Clutser'"):
        counterpoise.Clutser  # noqa: B018
