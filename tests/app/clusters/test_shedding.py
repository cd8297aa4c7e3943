"""A skewed load in an embedded cluster is evened out by the leader itself, under both managers."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pulsar
import pytest

from counterpoise import Cluster, EmbeddedBroker
from counterpoise.decide.balancing.moves import Move
from counterpoise.names.load_managers import EXTENSIBLE, MODULAR
from tests.admin.conftest import SILENT, Api
from tests.waiting import found_soon

COMMON: Mapping[str, object] = {
    "defaultNumberOfNamespaceBundles": 16,
    "loadBalancerReportUpdateMinIntervalMillis": 100,
    "loadBalancerSheddingEnabled": True,
}
UNEVEN: Mapping[str, Mapping[str, object]] = {
    MODULAR: {
        "loadBalancerLoadSheddingStrategy": "UniformLoadShedder",
        "minUnloadMessage": 1,
        "minUnloadMessageThroughput": 1,
        "maxUnloadPercentage": 0.5,
    },
    EXTENSIBLE: {
        "loadBalancerLoadSheddingStrategy": "TransferShedder",
        "loadBalancerSheddingConditionHitCountThreshold": 0,
        "loadBalanceSheddingDelayInSeconds": 0,
        "loadBalancerBrokerLoadTargetStd": 0.001,
        "loadBalancerHistoryResourcePercentage": 0.0,
    },
}
TOPICS = [f"t{number}" for number in range(20)]


@contextmanager
def loaded(cluster: Cluster, on: EmbeddedBroker) -> Iterator[None]:
    """Publish to many topics, all of whose bundles one broker has to begin with."""
    client = pulsar.Client(cluster.service_url, logger=SILENT)
    producers = [client.create_producer(topic) for topic in TOPICS]
    for topic in TOPICS:
        if cluster.owner(topic) is not on:
            cluster.unload(topic, on)
    over = threading.Event()

    def load() -> None:
        while not over.is_set():
            for each in producers:
                each.send(b"x" * 100)

    loader = threading.Thread(target=load)
    loader.start()
    try:
        yield
    finally:
        over.set()
        loader.join()
        client.close()


def first_move(cluster: Cluster) -> Move:
    found_soon(lambda: any(made.moves for made in cluster.rounds), "a move")
    return next(made for made in cluster.rounds if made.moves).moves[0]


def is_where_it_went(cluster: Cluster, bundle: str) -> bool:
    """Whether a bundle is where the last round put it: rounds go on, and may move it again."""
    moves = [move for made in cluster.rounds for move in made.moves if move.bundle == bundle]
    owners = [each.id for each in cluster.brokers if bundle in each.bundles]
    return owners == [moves[-1].destination]


@pytest.mark.parametrize("manager", [MODULAR, EXTENSIBLE])
def test_the_leader_moves_what_is_on_another_broker(manager: str) -> None:
    config = {**COMMON, **UNEVEN[manager], "loadManagerClassName": manager}
    with Cluster(2, config=config, balance_every_s=0.3) as cluster:
        leader, other = cluster.brokers
        assert cluster.leader is leader
        with loaded(cluster, other):
            move = first_move(cluster)
            assert (move.source, move.destination) == (other.id, leader.id)
            found_soon(lambda: is_where_it_went(cluster, move.bundle))
        metrics = Api(leader.admin_url).get("/metrics")
        shed = [
            each
            for each in metrics.splitlines()
            if "unload_broker_breakdown" in each
            and 'result="Success"' in each
            and 'reason="Admin"' not in each
        ]
        assert shed
        assert float(shed[0].rpartition(" ")[2]) > 0


def test_the_next_leader_goes_on() -> None:
    with Cluster(3, config={**COMMON, **UNEVEN[MODULAR]}, balance_every_s=0.3) as cluster:
        former, _, last = cluster.brokers
        assert cluster.leader is former
        with loaded(cluster, last):
            first_move(cluster)
            cluster.kill(former)
            before = max(made.poll_id for made in cluster.rounds)
            found_soon(lambda: cluster.rounds[-1].poll_id > before, "a round of the next leader")
            assert cluster.leader is not former


def test_without_a_word_bundles_stay_where_a_test_puts_them() -> None:
    with Cluster(1) as cluster:
        said = Api(cluster.admin_url).get("/admin/v2/brokers/configuration/runtime")
        assert said["loadBalancerSheddingEnabled"] == "false"
        assert said["loadBalancerSheddingIntervalMinutes"] == "1"
