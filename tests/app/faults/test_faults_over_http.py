"""Faults over HTTP, for tests in other languages: what is set, what happened, what is refused."""

from collections.abc import Iterator
from typing import Any

import pulsar
import pytest

from counterpoise import Cluster
from tests.admin.conftest import Api

pytestmark = pytest.mark.client
FAULTS = "/admin/v2/faults"


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with Cluster(brokers=2, faults_over_http=True) as started:
        yield started


@pytest.fixture
def api(running: Cluster) -> Iterator[Api]:
    asked = Api(running.admin_url)
    yield asked
    assert asked("DELETE", FAULTS).status == 204


@pytest.fixture
def client(running: Cluster) -> Iterator[pulsar.Client]:
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    connected = pulsar.Client(running.service_url, logger=logger)
    yield connected
    connected.close()


def test_a_fault_is_set_strikes_and_is_removed(api: Api, client: pulsar.Client) -> None:
    wanted = {"operation": "SEND", "topic": "t1", "effect": "error", "code": "PersistenceError"}
    made = api("POST", FAULTS, {**wanted, "times": 1})
    assert made.status == 200
    consumer = client.subscribe("t1", "s")
    client.create_producer("t1").send(b"0")
    assert consumer.receive(60_000).data() == b"0"
    [listed] = api("GET", FAULTS).value
    assert listed == {
        "number": made.value["number"],
        "fault": "SEND of topic t1 answered with PersistenceError: once",
        "matched": 1,
        "struck": 1,
    }
    [event] = [each for each in api("GET", f"{FAULTS}/events").value if each["kind"] == "fault"]
    assert event["text"].endswith("t1 answered with PersistenceError")
    body = {"what": "nothing-lost", "topic": "t1", "subscription": "s"}
    assert api("POST", f"{FAULTS}/expect", body).status == 204
    assert api("DELETE", f"{FAULTS}?number={listed['number']}").status == 204
    assert api("GET", FAULTS).value == []


def test_a_broker_is_chosen_frozen_and_thawed(
    running: Cluster, api: Api, client: pulsar.Client
) -> None:
    broker = running.brokers[1]
    body = {"topic": "t2", "broker": broker.id}
    assert api("POST", f"{FAULTS}/place", body).status == 204
    assert running.owner("t2") == broker
    hasty = client.create_producer("t2", send_timeout_millis=500)
    producer = client.create_producer("t2")
    frozen = {"broker": broker.id, "fault": "freeze"}
    assert api("POST", f"{FAULTS}/brokers", frozen).status == 204
    with pytest.raises(pulsar.Timeout):
        hasty.send(b"0")
    assert api("POST", f"{FAULTS}/brokers", {**frozen, "end": True}).status == 204
    producer.send(b"1")


@pytest.mark.parametrize(
    ("path", "body", "status", "reason"),
    [
        ("", {"operation": "SENDING", "effect": "drop"}, 400, "no operation 'SENDING'"),
        ("", {"operation": "SEND", "effect": "burn"}, 400, "one of"),
        ("", {"operation": "SEND", "effect": "error"}, 400, "no error code ''"),
        ("", {"operation": "SEND", "effect": "delay"}, 400, "a delay of 0 s"),
        ("", {"operation": "SEND", "effect": "delay", "seconds": -1}, 400, "a delay of -1 s"),
        ("", {"effect": "drop"}, 400, "operation"),
        ("", {"operation": "SEND", "effect": "drop", "broker": "x:1"}, 404, "no broker 'x:1'"),
        (
            "",
            {"operation": "SEND", "effect": "drop", "times": 1, "probability": 0.5},
            400,
            "choose chance or count",
        ),
        ("/brokers", {"broker": "x:1", "fault": "freeze"}, 404, "no broker 'x:1'"),
        ("/place", {"topic": "t3"}, 400, "broker"),
        ("/clock", {"advance_s": -1}, 400, "choose more than 0"),
        ("/expect", {"what": "moved", "topic": "t3", "within_s": 0}, 409, "t3 was moved 0 times"),
        ("/expect", {"what": "moved", "topic": "t3", "within_s": 999}, 400, "choose 0 to 60"),
        ("/expect", {"what": "nothing-lost", "topic": "t3"}, 400, "name of a subscription"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_in_a_sentence(
    api: Api, path: str, body: dict[str, Any], status: int, reason: str
) -> None:
    answer = api("POST", FAULTS + path, body)
    assert (answer.status, reason in answer.value["reason"]) == (status, True), answer.value
    assert api("GET", FAULTS).value == []


def test_a_fault_of_a_broker_that_is_unknown_names_those_there_are(
    running: Cluster, api: Api
) -> None:
    body = {"broker": running.brokers[0].id, "fault": "burn"}
    answer = api("POST", f"{FAULTS}/brokers", body)
    assert answer.status == 400
    assert "freeze, partition-from-clients" in answer.value["reason"]


def test_without_being_asked_for_the_resource_is_not_there() -> None:
    with Cluster(brokers=1) as cluster:
        assert Api(cluster.admin_url)("GET", FAULTS).status == 404


def test_only_a_superuser_sets_faults() -> None:
    with Cluster(brokers=1, faults_over_http=True, tokens=True) as cluster:
        assert Api(cluster.admin_url)("GET", FAULTS).status == 401
