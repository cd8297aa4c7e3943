"""The end of a topic, what is noted of it, and what it stores."""

from collections.abc import Callable
from types import SimpleNamespace
from unittest.mock import AsyncMock

import pulsar
import pytest

from counterpoise import Cluster
from counterpoise.admin.rest import topic_storage
from tests.admin.conftest import Api

pytestmark = pytest.mark.client
Connect = Callable[[], pulsar.Client]


@pytest.fixture
def topic(api: Api, namespace: str) -> str:
    """A topic of one subscription ``s``, at the broker that owns it."""
    path = f"/admin/v2/persistent/{namespace}/t"
    assert api("PUT", path, {"by": "ops"}).status == 204
    assert api("PUT", f"{path}/subscription/s", "earliest").status == 204
    return path


def name_of(topic: str) -> str:
    return f"persistent://{topic.removeprefix('/admin/v2/persistent/')}"


def test_what_is_terminated_takes_nothing_more(api: Api, topic: str, connect: Connect) -> None:
    producer = connect().create_producer(name_of(topic), batching_enabled=False)
    last = [producer.send(b"%d" % number) for number in range(3)][-1]
    answer = api("POST", f"{topic}/terminate")
    expected = {"ledgerId": last.ledger_id(), "entryId": last.entry_id(), "partitionIndex": -1}
    assert (answer.status, answer.value) == (200, expected)
    with pytest.raises(pulsar.PulsarException):
        producer.send(b"too late")
    with pytest.raises(pulsar.TopicTerminated):
        connect().create_producer(name_of(topic))
    assert api("POST", f"{topic}/terminate").value == expected, "it stays where it ended"
    # What was published before is there to be read.
    consumer = connect().subscribe(name_of(topic), "s")
    for number in range(3):
        message = consumer.receive(60_000)
        assert message.data() == b"%d" % number
        consumer.acknowledge(message)


def test_the_end_outlasts_a_move(api: Api, topic: str, cluster: Cluster, connect: Connect) -> None:
    producer = connect().create_producer(name_of(topic))
    producer.send(b"before")
    ended = api("POST", f"{topic}/terminate").value
    owner = cluster.owner(name_of(topic))
    successor = next(each for each in cluster.brokers if each is not owner)
    cluster.unload(name_of(topic), successor)
    with pytest.raises(pulsar.TopicTerminated):
        connect().create_producer(name_of(topic))
    assert api("POST", f"{topic}/terminate").value == ended
    assert api.get(f"{topic}/internalStats")["state"] == "Terminated"
    assert api.get(f"{topic}/internal-info")["terminatedPosition"] == {
        "ledgerId": ended["ledgerId"],
        "entryId": ended["entryId"],
    }


def test_partitions_end_together(api: Api, topic: str, connect: Connect) -> None:
    many = f"{topic}-many"
    assert api("PUT", f"{many}/partitions", 2).status == 204
    producer = connect().create_producer(name_of(many))
    producer.send(b"one")
    assert api("POST", f"{many}/terminate").status == 405
    answer = api("POST", f"{many}/terminate/partitions").value
    assert sorted(answer) == ["0", "1"]
    assert sorted(each["entryId"] for each in answer.values()) == [-1, 0]
    assert {each["partitionIndex"] for each in answer.values()} == {-1}, "the key says which it is"
    assert api("POST", f"{topic}/terminate/partitions").status == 405
    with pytest.raises(pulsar.TopicTerminated):
        connect().create_producer(name_of(many))


def test_properties_outlive_a_change_of_owner(api: Api, topic: str, cluster: Cluster) -> None:
    path = f"{topic}/properties"
    assert api.get(path) == {"by": "ops"}
    assert api("PUT", path, {"a": "1", "b": "2"}).status == 204
    assert api("DELETE", f"{path}?key=a").status == 204
    owner = cluster.owner(name_of(topic))
    successor = next(each for each in cluster.brokers if each is not owner)
    cluster.unload(name_of(topic), successor)
    assert [Api(each.admin_url).get(path) for each in cluster.brokers] == [
        {"by": "ops", "b": "2"}
    ] * len(cluster.brokers)
    assert api("DELETE", path).status == 204
    assert api.get(path) == {}


def test_properties_of_a_partitioned_topic_are_its_own(api: Api, topic: str) -> None:
    many = f"{topic}-many"
    assert api("PUT", f"{many}/partitions", 2).status == 204
    assert api("GET", f"{many}/properties").value == "", "it has none"
    assert api("PUT", f"{many}/properties", {"a": "1"}).status == 204
    assert api("PUT", f"{many}/properties", {"b": "2"}).status == 204
    assert api.get(f"{many}/properties") == {"a": "1", "b": "2"}
    assert api.get(f"{many}/partitions")["partitions"] == 2
    assert api("PUT", f"{topic}-none/properties", {"b": "2"}).status == 404


def test_properties_of_a_subscription_outlast_a_move(
    api: Api, topic: str, cluster: Cluster
) -> None:
    path = f"{topic}/subscription/s/properties"
    assert api.get(path) == {}
    assert api("PUT", path, {"a": "1"}).status == 204
    owner = cluster.owner(name_of(topic))
    successor = next(each for each in cluster.brokers if each is not owner)
    cluster.unload(name_of(topic), successor)
    assert api.get(path) == {"a": "1"}
    assert api.get(f"{topic}/stats")["subscriptions"]["s"]["subscriptionProperties"] == {"a": "1"}


def test_the_backlog_is_counted(
    api: Api, topic: str, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = connect().create_producer(name_of(topic), batching_enabled=False)
    ids = [producer.send(b"x" * 100) for _ in range(10)]
    size = api("PUT", f"{topic}/backlogSize", None).value
    half = {"ledgerId": ids[4].ledger_id(), "entryId": ids[4].entry_id(), "partitionIndex": -1}
    assert size > 1000
    assert api("PUT", f"{topic}/backlogSize", half).value == size // 2
    consumer = connect().subscribe(name_of(topic), "s")
    consumer.acknowledge(consumer.receive(60_000))
    consumer.close()
    answer = api("POST", f"{topic}/subscription/s/analyzeBacklog").value
    assert (answer["entries"], answer["messages"], answer["aborted"]) == (9, 9, False)
    first = SimpleNamespace(begin=0, end=10, size=1000, index_after=lambda at: at[1] + 1)
    monkeypatch.setattr(topic_storage, "stored", AsyncMock(return_value=SimpleNamespace(log=first)))
    of_ledger_0 = api("PUT", f"{topic}/backlogSize", {"ledgerId": 0, "entryId": 3})
    assert of_ledger_0.value == 600


def test_what_is_acknowledged_of_an_empty_topic_is_before_its_ledgers_first_entry(
    api: Api, topic: str
) -> None:
    """As of the topic itself; recorded of Pulsar 4.0.7: ``6:-1``."""
    internal = api.get(f"{topic}/internalStats")
    [ledger] = internal["ledgers"]
    assert internal["lastConfirmedEntry"] == f"{ledger['ledgerId']}:-1"
    assert internal["cursors"]["s"]["markDeletePosition"] == internal["lastConfirmedEntry"]


def test_the_offload_of_a_topic_has_not_run(api: Api, topic: str) -> None:
    """The expected values are what Pulsar's class of this status becomes as JSON, not yet run."""
    nothing = dict.fromkeys(("ledgerId", "entryId", "partitionIndex", "batchIndex"), -1)
    assert api.get(f"{topic}/offload") == {
        "status": "NOT_RUN",
        "lastError": "",
        "firstUnoffloadedMessage": {**nothing, "batchSize": 0},
    }
    missing = api("GET", f"{topic}-missing/offload")
    assert missing.status == 404
    assert missing.value == {"reason": f"Topic {name_of(topic)}-missing not found"}


def test_an_offload_fails_without_an_offloader(api: Api, topic: str) -> None:
    """As an unconfigured Pulsar 4.0.7 answers, recorded of it."""
    refused = api("PUT", f"{topic}/offload")
    assert (refused.status, refused.reason) == (400, "messageId is null")
    assert api.get(f"{topic}/offload")["status"] == "NOT_RUN"
    position = {"ledgerId": 99_999, "entryId": 99}
    assert [api("PUT", f"{topic}/offload", position).status for _ in range(2)] == [204, 204]
    status = api.get(f"{topic}/offload")
    assert (status["status"], status["lastError"]) == (
        "ERROR",
        "org.apache.bookkeeper.mledger.ManagedLedgerException: "
        "[NullLedgerOffloader] does not support offload",
    )
    missing = api("PUT", f"{topic}-missing/offload", position)
    assert (missing.status, missing.reason) == (404, f"Topic {name_of(topic)}-missing not found")


def test_trimming_deletes_what_no_subscription_needs(
    api: Api, topic: str, connect: Connect
) -> None:
    producer = connect().create_producer(name_of(topic), batching_enabled=False)
    producer.send(b"x")
    assert api("PUT", f"{topic}/unload").status == 204
    assert api("POST", f"{topic}/subscription/s/skip_all").status == 204
    assert api("POST", f"{topic}/trim").status == 200
    assert len(api.get(f"{topic}/internalStats")["ledgers"]) == 1


def test_backlog_quotas_of_a_topic_are_kept(
    api: Api, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    quota = {"limit": 1000, "limitSize": 1000, "limitTime": -1, "policy": "producer_exception"}
    assert api("POST", f"{topic}/backlogQuota", quota).status == 204
    assert "read by nothing" not in caplog.text
    assert api.get(f"{topic}/backlogQuotaMap") == {"destination_storage": quota}
    kind = "backlogQuotaType=message_age"
    assert api("POST", f"{topic}/backlogQuota?{kind}", quota).status == 204
    assert api("DELETE", f"{topic}/backlogQuota").status == 204
    assert api.get(f"{topic}/backlogQuotaMap") == {"message_age": quota}
