"""Topics, partitions, subscriptions, and their figures."""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import pulsar
import pytest

from counterpoise.admin.rest import topics
from counterpoise.broker.face import BrokerError
from counterpoise.broker.topic.topics import TopicRegistry
from counterpoise.wire.errors import ServerError
from tests.admin.conftest import Api

TOPICS = "/admin/v2/persistent"
Connect = Callable[[], pulsar.Client]

pytestmark = pytest.mark.client


def produce(client: pulsar.Client, topic: str, count: int) -> pulsar.Producer:
    producer = client.create_producer(f"persistent://{topic}", batching_enabled=False)
    for number in range(count):
        producer.send(b"%d" % number)
    return producer


def test_a_topics_life(api: Api, namespace: str) -> None:
    at = f"{TOPICS}/{namespace}/one"
    assert api("PUT", at).status == 204
    assert api("PUT", at).reason == "This topic already exists"
    assert api.get(f"{TOPICS}/{namespace}") == [f"persistent://{namespace}/one"]
    assert api.get(f"{TOPICS}/{namespace}?bundle=0x00000000_0xffffffff") == [
        f"persistent://{namespace}/one"
    ]
    assert api.get(f"{at}/stats")["msgInCounter"] == 0
    assert api("PUT", f"{at}/unload").status == 204
    assert api("DELETE", at).status == 204
    assert api.get(f"{TOPICS}/{namespace}") == []
    assert api("GET", f"{at}/stats").status == 404


def test_the_figures_of_a_large_topic_are_made_for_all_who_ask(
    api: Api, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of thousands of subscriptions take megabytes: once for each who asks would be many."""
    at, asking = f"{TOPICS}/{namespace}/large", 5
    assert api("PUT", at).status == 204
    everybody, running, made = asyncio.Event(), list[int](), list[int]()
    # Private: that a request has come is in no answer before all have.
    make, answer = topics.topic_stats_json, topics._answer
    asked: list[None] = []

    async def noted(*args: Any) -> Any:
        asked.append(None)
        if len(asked) == asking:
            everybody.set()
        return await answer(*args)

    async def slowly(*args: Any) -> Any:
        running.append(1)
        made.append(len(running))
        await everybody.wait()
        try:
            return await make(*args)
        finally:
            running.pop()

    monkeypatch.setattr(topics, "_MANY", 0)
    monkeypatch.setattr(topics, "_answer", noted)
    monkeypatch.setattr(topics, "topic_stats_json", slowly)
    with ThreadPoolExecutor(asking) as pool:
        found = list(pool.map(api.get, [f"{at}/stats"] * asking))
    assert [each["msgInCounter"] for each in found] == [0] * asking
    assert set(made) == {1}, "one at a time"
    assert len(made) <= 2, "those who asked while one was made share the next"


def test_a_topic_in_use_is_deleted_only_by_force(
    api: Api, namespace: str, connect: Connect
) -> None:
    client = connect()
    client.subscribe(f"persistent://{namespace}/busy", "s")
    at = f"{TOPICS}/{namespace}/busy"
    refused = api("DELETE", at)
    assert refused.status == 412
    assert "connected" in refused.reason
    client.close()
    assert api("DELETE", f"{at}?force=true").status == 204


@pytest.mark.parametrize(
    ("code", "status"),
    [("PersistenceError", 500), ("TopicNotFound", 412), ("NotAllowedError", 412)],
)
def test_what_a_broker_does_not_allow_is_a_failed_precondition_and_its_own_failure_is_not(
    api: Api, code: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuses(*_: object, force: bool) -> None:
        assert force
        raise BrokerError(ServerError[code], "no disk")

    at = f"{TOPICS}/public/default/kept"
    assert api("PUT", at).status in (204, 409)
    monkeypatch.setattr(TopicRegistry, "delete", refuses)
    refused = api("DELETE", f"{at}?force=true")
    assert (refused.status, refused.reason) == (status, "no disk")


def test_names_with_unusual_letters(api: Api, namespace: str) -> None:
    for path, name in (("a%20b", "a b"), ("%C3%A9t%C3%A9", "été"), ("50%25", "50%")):
        assert api("PUT", f"{TOPICS}/{namespace}/{path}").status == 204
        assert f"persistent://{namespace}/{name}" in api.get(f"{TOPICS}/{namespace}")
        assert api.get(f"{TOPICS}/{namespace}/{path}/stats")["msgInCounter"] == 0


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "reason"),
    [
        ("PUT", "t/missing/x", None, 404, "Namespace not found"),
        ("GET", "public/default/none/stats", None, 404, "none not found"),
        ("GET", "public/default/none/partitioned-stats", None, 404, "Partitioned Topic"),
        ("DELETE", "public/default/none", None, 404, "none not found"),
        ("PUT", "public/default/none/unload", None, 404, "none not found"),
        ("PUT", "public/default/x-partition-1", None, 412, "partition"),
        ("PUT", "public/default/x-s__transaction_pending_ack", None, 400, "system topic format"),
        ("PUT", "public/default/s__transaction_pending_ack/partitions", 2, 400, "system topic"),
        ("PUT", "public/default/x/partitions", 0, 406, "more than 0"),
        ("PUT", "public/default/x/partitions", "3", 406, "more than 0"),
        ("PUT", "public/default/x-partition-0/partitions", 2, 412, "should not contain"),
        ("POST", "public/default/x/partitions", 2, 409, "not the partitioned topic"),
        ("DELETE", "public/default/x/partitions", None, 404, "Topic persistent://public/default/x"),
        ("GET", "public/default/none/subscriptions", None, 404, "none not found"),
        ("DELETE", "public/default/none/subscription/s", None, 404, "none not found"),
        ("GET", "t/missing", None, 404, "Namespace does not exist"),
    ],
)
def test_refusals_carry_pulsars_status_and_a_reason(
    api: Api, method: str, path: str, body: object, status: int, reason: str
) -> None:
    answer = api(method, f"{TOPICS}/{path}", body)
    assert answer.status == status, answer
    assert reason in answer.reason


def test_figures_of_a_topic(api: Api, namespace: str, connect: Connect) -> None:
    client = connect()
    topic = f"persistent://{namespace}/busy"
    consumer = client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared)
    producer = produce(client, f"{namespace}/busy", 10)
    for _ in range(4):
        consumer.acknowledge(consumer.receive(timeout_millis=20_000))
    # The acknowledgements are on their way; asking for the last message id is behind them.
    consumer.get_last_message_id()
    stats = api.get(f"{TOPICS}/{namespace}/busy/stats")
    assert stats["msgInCounter"] == 10
    assert stats["storageSize"] == stats["bytesInCounter"] > 0
    assert [each["producerName"] for each in stats["publishers"]] == [producer.producer_name()]
    subscription = stats["subscriptions"]["s"]
    assert subscription["type"] == "Shared"
    assert subscription["msgOutCounter"] == 10
    assert len(subscription["consumers"]) == 1
    internal = api.get(f"{TOPICS}/{namespace}/busy/internalStats")
    assert internal["numberOfEntries"] == 10
    assert internal["cursors"]["s"]["active"] is True
    last = api.get(f"{TOPICS}/{namespace}/busy/lastMessageId")
    assert internal["lastConfirmedEntry"] == f"{last['ledgerId']}:{last['entryId']}"
    assert last["entryId"] == 9


def test_a_refusal_has_its_reason_in_the_status_line_too(api: Api) -> None:
    """Java's lookups show a person nothing else; Pulsar's server has 1,024 characters at most."""
    names = {"none": "none", "n\u00fcne": "n?ne", "n{1}ne": "n{1}ne"}
    for name, shown in names.items():
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{api.url}{TOPICS}/public/default/{quote(name)}/stats")
        with refused.value as error:
            assert error.reason == f"Topic persistent://public/default/{shown} not found"
            whole = {"reason": f"Topic persistent://public/default/{name} not found"}
            assert json.loads(error.read()) == whole
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{api.url}{TOPICS}/public/default/{'x' * 1000}/stats")
    with refused.value as error:
        assert error.reason == f"Topic persistent://public/default/{'x' * 1000} not found"[:1024]


def test_a_partitioned_topic_is_made_widened_summed_deleted(
    api: Api, namespace: str, connect: Connect
) -> None:
    at = f"{TOPICS}/{namespace}/many"
    with_properties = {"partitions": 2, "properties": {"of": "a test"}}
    assert api("PUT", f"{at}/partitions", with_properties).status == 204
    assert api("PUT", f"{at}/partitions", 2).status == 409
    assert api("PUT", at).status == 409
    assert api.get(f"{at}/partitions") == {**with_properties, "deleted": False}
    assert api("POST", f"{at}/partitions", 1).status == 422
    for _ in range(2):
        assert api("POST", f"{at}/partitions", 4).status == 204, "also as many as there are"
    assert api.get(f"{at}/partitions") == {**with_properties, "partitions": 4, "deleted": False}
    assert api("POST", f"{at}/maxConsumers", 7).status == 204
    partitions = [f"persistent://{namespace}/many-partition-{index}" for index in range(4)]
    assert api.get(f"{TOPICS}/{namespace}") == partitions
    assert api.get(f"{TOPICS}/{namespace}/partitioned") == [f"persistent://{namespace}/many"]
    client = connect()
    client.subscribe(f"persistent://{namespace}/many", "s")
    produce(client, f"{namespace}/many", 8)
    stats = api.get(f"{at}/partitioned-stats")
    assert stats["metadata"]["partitions"] == 4
    assert sorted(stats["partitions"]) == partitions
    assert stats["msgInCounter"] == 8
    assert sum(each["msgInCounter"] for each in stats["partitions"].values()) == 8
    assert stats["subscriptions"]["s"]["msgBacklog"] == 8
    [consumer] = stats["subscriptions"]["s"]["consumers"]
    assert consumer["msgOutCounter"] == 8
    assert sorted(api.get(f"{at}/partitioned-internalStats")["partitions"]) == partitions
    assert api.get(f"{at}/subscriptions") == ["s"]
    assert api("DELETE", at).status == 409
    of_one = f"{at}-partition-1/subscription/s/properties"
    assert api("PUT", of_one, {"of": "one"}).status == 204
    assert api.get(f"{at}/subscription/s/properties") == {"of": "one"}
    in_use = api("DELETE", f"{at}/partitions")
    assert in_use.status == 412
    assert in_use.reason.startswith("Topic has active producers/subscriptions: Topic has ")
    client.close()
    assert api("DELETE", f"{at}/partitions?force=true").status == 204
    assert api.get(f"{TOPICS}/{namespace}") == []
    assert api("PUT", f"{at}/partitions", 1).status == 204
    assert not api("GET", f"{at}/maxConsumers").value, "its policies went with the topic before"


def test_a_subscription_of_some_partitions_is_made_on_the_others(api: Api, namespace: str) -> None:
    at = f"{TOPICS}/{namespace}/some"
    assert api("PUT", f"{at}/partitions", 2).status == 204
    assert api("PUT", f"{at}-partition-0/subscription/s").status == 204
    assert api("PUT", f"{at}/subscription/s").status == 204
    assert api.get(f"{at}-partition-1/subscriptions") == ["s"]
    assert api("PUT", f"{at}/subscription/s").status == 409


def test_a_new_partition_has_the_subscriptions_of_the_first(
    api: Api, namespace: str, connect: Connect
) -> None:
    """A consumer that learns of it late misses nothing, as on Pulsar 4.0.7."""
    at = f"{TOPICS}/{namespace}/wider"
    assert api("PUT", f"{at}/partitions", 2).status == 204
    client = connect()
    client.create_reader(f"persistent://{namespace}/wider-partition-0", pulsar.MessageId.latest)
    start = {"ledgerId": -1, "entryId": -1, "properties": {"of": "a test"}}
    assert api("PUT", f"{at}-partition-0/subscription/a%2Fb", start).status == 204
    assert api("POST", f"{at}/partitions", 3).status == 204
    for index in (1, 2):
        partition = api.get(f"{at}-partition-{index}/stats")
        assert list(partition["subscriptions"]) == ["a/b"], "a reader's is not copied"
        assert partition["subscriptions"]["a/b"]["subscriptionProperties"] == {"of": "a test"}
    producer = client.create_producer(f"persistent://{namespace}/wider-partition-2")
    producer.send(b"early")
    assert api("POST", f"{at}/partitions", 3).status == 204
    consumer = client.subscribe(f"persistent://{namespace}/wider-partition-2", "a/b")
    assert consumer.receive(60_000).data() == b"early"


def test_partition_count_of_an_ordinary_topic_is_zero(api: Api, namespace: str) -> None:
    assert api("PUT", f"{TOPICS}/{namespace}/plain").status == 204
    answer = api.get(f"{TOPICS}/{namespace}/plain/partitions?checkAllowAutoCreation=true")
    assert answer["partitions"] == 0
    refused = api("DELETE", f"{TOPICS}/{namespace}/plain/partitions")
    assert refused.status == 409
    assert "Instead of calling delete-partitioned-topic please call delete." in refused.reason
    assert api("DELETE", f"{TOPICS}/{namespace}/none/partitions").status == 404


def backlog(api: Api, namespace: str, name: str) -> int:
    stats = api.get(f"{TOPICS}/{namespace}/log/stats")
    return int(stats["subscriptions"][name]["msgBacklog"])


def test_subscriptions_are_made_skipped_moved_deleted(
    api: Api, namespace: str, connect: Connect
) -> None:
    produce(connect(), f"{namespace}/log", 10)
    at = f"{TOPICS}/{namespace}/log/subscription"
    assert api("PUT", f"{at}/end").status == 204
    assert api("PUT", f"{at}/end").status == 409
    assert api("PUT", f"{at}/start", {"ledgerId": -1, "entryId": -1}).status == 204
    last = api.get(f"{TOPICS}/{namespace}/log/lastMessageId")
    middle = {"ledgerId": last["ledgerId"], "entryId": 6}
    assert api("PUT", f"{at}/middle", middle).status == 204
    assert api.get(f"{TOPICS}/{namespace}/log/subscriptions") == ["end", "middle", "start"]
    assert [backlog(api, namespace, each) for each in ("end", "middle", "start")] == [0, 4, 10]
    assert api("POST", f"{at}/start/skip/3").status == 204
    assert backlog(api, namespace, "start") == 7
    assert api("POST", f"{at}/start/skip_all").status == 204
    assert backlog(api, namespace, "start") == 0
    assert api("POST", f"{at}/start/resetcursor/0").status == 204
    assert backlog(api, namespace, "start") == 10
    for name, excluded, left in (
        ("isExcluded", False, 4),
        ("isExcluded", True, 3),
        ("excluded", False, 4),
        ("excluded", True, 3),
    ):
        reset = api("POST", f"{at}/start/resetcursor", {**middle, name: excluded})
        assert (reset.status, backlog(api, namespace, "start")) == (204, left)
    assert api("POST", f"{at}/start/resetcursor", {"ledgerId": 0}).status == 400
    producer = connect().create_producer(
        f"persistent://{namespace}/log", batching_enabled=True, batching_max_publish_delay_ms=60_000
    )
    for _ in range(3):
        producer.send_async(b"of a batch", None)
    producer.flush()
    batch = {"ledgerId": last["ledgerId"], "entryId": 10, "excluded": True}
    for index, left in ((0, 1), (1, 1), (2, 0), (-1, 0)):
        reset = api("POST", f"{at}/start/resetcursor", {**batch, "batchIndex": index})
        assert (reset.status, backlog(api, namespace, "start")) == (204, left), "none is skipped"
    assert api("DELETE", f"{at}/start").status == 204
    assert api("DELETE", f"{at}/start").status == 404


@pytest.mark.parametrize("what", ["stats", "partitioned-stats"])
def test_publishers_and_consumers_are_left_out_of_stats(
    api: Api, namespace: str, connect: Connect, what: str
) -> None:
    client, name = connect(), f"{namespace}/some"
    if what == "partitioned-stats":
        assert api("PUT", f"{TOPICS}/{name}/partitions", 3).status == 204
    client.create_producer(name)
    client.subscribe(name, "s")
    at = f"{TOPICS}/{name}/{what}"
    for without in ("", "?excludePublishers=true", "?excludeConsumers=true"):
        found = api.get(at + without)
        for each in (found, *found.get("partitions", {}).values()):
            assert bool(each["publishers"]) is ("Publishers" not in without)
            consumers = each["subscriptions"]["s"]["consumers"]
            assert bool(consumers) is ("Consumers" not in without)


def test_a_client_makes_the_topic_where_it_may(api: Api, namespace: str, connect: Connect) -> None:
    at = f"/admin/v2/namespaces/{namespace}/autoTopicCreation"
    rule = {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 2}
    assert api("PUT", f"{TOPICS}/{namespace}/plain/subscription/s", "latest").status == 204
    assert api.get(f"{TOPICS}/{namespace}/plain/subscriptions") == ["s"]
    assert api("POST", at, rule).status == 204
    assert api("PUT", f"{TOPICS}/{namespace}/cut/subscription/s", "latest").status == 204
    assert api.get(f"{TOPICS}/{namespace}/cut-partition-1/subscriptions") == ["s"]
    assert api("POST", at, {"allowAutoTopicCreation": False}).status == 204
    for name, status in (("plain", 200), ("cut", 200), ("cut-partition-1", 200), ("none", 404)):
        assert api("GET", f"/lookup/v2/topic/persistent/{namespace}/{name}").status == status
    refused = api("PUT", f"{TOPICS}/{namespace}/none/subscription/s", "latest")
    assert refused.status == 412
    assert refused.reason == "Topic does not exist and cannot be auto-created"
    with pytest.raises(pulsar.TopicNotFound):
        connect().create_producer(f"non-persistent://{namespace}/np")
    assert api("PUT", f"/admin/v2/non-persistent/{namespace}/np").status == 204
    connect().create_producer(f"non-persistent://{namespace}/np")


def test_a_subscription_in_use_is_deleted_only_by_force(
    api: Api, namespace: str, connect: Connect
) -> None:
    connect().subscribe(f"persistent://{namespace}/log", "mine")
    at = f"{TOPICS}/{namespace}/log/subscription/mine"
    refused = api("DELETE", at)
    assert (refused.status, refused.reason) == (412, "Subscription has active connected consumers")
    assert api("DELETE", f"{at}?force=true").status == 204


def test_non_persistent_topics_are_found_wherever_they_are(
    api: Api, namespace: str, connect: Connect
) -> None:
    client = connect()
    names = [f"non-persistent://{namespace}/np{index}" for index in range(3)]
    producers = [client.create_producer(each) for each in names]
    assert api.get(f"/admin/v2/non-persistent/{namespace}") == names
    assert api.get(f"/admin/v2/namespaces/{namespace}/topics") == []
    assert api.get(f"/admin/v2/namespaces/{namespace}/topics?mode=ALL") == names
    refused = api("GET", f"/admin/v2/non-persistent/{namespace}/np0/lastMessageId")
    assert (refused.status, refused.reason[-14:]) == (405, "is not allowed")
    assert api("PUT", f"/admin/v2/non-persistent/{namespace}/parts/partitions", 2).status == 204
    assert api.get(f"/admin/v2/non-persistent/{namespace}/parts/subscriptions") == []
    assert len(producers) == 3


def test_cursors_are_named_as_in_the_managed_ledger(
    api: Api, namespace: str, connect: Connect
) -> None:
    """Recorded of Pulsar 4.0.7 for a durable subscription; a reader's cursor has its plain name."""
    client, name = connect(), f"{namespace}/cursors"
    subscription = client.subscribe(f"persistent://{name}", "holes/of it~")
    reader = client.create_reader(
        f"persistent://{name}", pulsar.MessageId.earliest, subscription_role_prefix="a/b"
    )
    internal = api.get(f"{TOPICS}/{name}/internalStats")["cursors"]
    stats = api.get(f"{TOPICS}/{name}/stats")["subscriptions"]
    [of_reader] = {*stats} - {"holes/of it~"}
    assert of_reader.startswith("a/b")
    assert set(internal) == {"holes%2Fof+it%7E", of_reader}
    assert set(api.get(f"{TOPICS}/{name}/internal-info")["cursors"]) == {"holes%2Fof+it%7E"}
    for each in (subscription, reader):
        each.close()


def test_chunks_of_large_messages_are_counted(api: Api, namespace: str, connect: Connect) -> None:
    name = f"{namespace}/large"
    chunked, plain = (
        connect().create_producer(
            f"persistent://{name}", chunking_enabled=chunks, batching_enabled=False
        )
        for chunks in (True, False)
    )
    plain.send(b"small")
    chunked.send(b"small")
    publishers = api.get(f"{TOPICS}/{name}/stats")["publishers"]
    assert [each["chunkedMessageRate"] for each in publishers] == [0.0, 0.0]
    chunked.send(b"x" * (6 << 20))
    rates = {
        each["producerName"]: each["chunkedMessageRate"]
        for each in api.get(f"{TOPICS}/{name}/stats")["publishers"]
    }
    assert rates[plain.producer_name()] == 0.0
    assert 0.0 < rates[chunked.producer_name()] <= 2.0
