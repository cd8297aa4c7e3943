"""What a broker says of its topics, held against what an official client counted."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pulsar
import pytest
from prometheus_client.parser import text_string_to_metric_families

from counterpoise import Cluster
from tests.admin.conftest import SILENT, Api
from tests.waiting import WITHIN_S, found_soon

PAYLOAD = b"x" * 200
OVERHEAD = (10, 120)
"""What metadata adds to a payload here: at least its checksum and size, and never as much as this.
"""
BATCH = 10


class Story:
    """One client on one topic, counting, and noting when what began."""

    def __init__(self, client: pulsar.Client, api: Api, topic: str) -> None:
        self.client, self.api, self.topic = client, api, topic
        self.path = "/admin/v2/" + topic.replace("://", "/")
        self.began = time.monotonic()
        self.single = client.create_producer(topic, "single", batching_enabled=False)
        self.batched = client.create_producer(
            topic,
            "batched",
            batching_enabled=True,
            batching_max_messages=BATCH,
            batching_max_publish_delay_ms=60_000,
        )
        shared = pulsar.ConsumerType.Shared
        self.all = client.subscribe(topic, "all", consumer_name="all")
        self.some = [
            client.subscribe(topic, "some", shared, consumer_name=name) for name in ("a", "b")
        ]
        self.ready = time.monotonic()
        self.sent = {"single": 0, "batched": 0}

    def send(self, singles: int, batches: int) -> None:
        for _ in range(singles):
            self.single.send(PAYLOAD)
        for _ in range(batches * BATCH):
            self.batched.send_async(PAYLOAD, lambda *_: None)
        self.batched.flush()
        self.sent["single"] += singles
        self.sent["batched"] += batches * BATCH

    @property
    def messages(self) -> int:
        return sum(self.sent.values())

    def stats(self, of: str = "stats") -> tuple[dict[str, Any], Callable[[int], Any]]:
        """The figures, and what a rate of so many messages may be in them.

        Between the longest and the shortest time that may have passed since the topic was loaded.
        """
        asked = time.monotonic()
        figures = self.api.get(f"{self.path}/{of}")
        longest, shortest = time.monotonic() - self.began, asked - self.ready
        return figures, lambda count: Between(count / max(longest, 1.0), count / max(shortest, 1.0))


class Between:
    """Equal to any number that lies between the two."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int | float) and self.low * 0.999 <= other <= self.high * 1.001

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return f"{self.low:.3f}…{self.high:.3f}"


def bytes_of(messages: int, entries: int) -> Between:
    return Between(
        messages * len(PAYLOAD) + entries * OVERHEAD[0],
        messages * (len(PAYLOAD) + OVERHEAD[1]) + entries * OVERHEAD[1],
    )


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    # One window for the whole story: rates are taken over a topic's age.
    with Cluster(brokers=2, config={"statsUpdateFrequencyInSecs": 3600}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> Iterator[pulsar.Client]:
    client = pulsar.Client(cluster.service_url, logger=SILENT)
    yield client
    client.close()


def receive(consumer: pulsar.Consumer, count: int) -> list[pulsar.Message]:
    return [consumer.receive(60_000) for _ in range(count)]


def receive_from(consumers: list[pulsar.Consumer], count: int) -> dict[str, list[pulsar.Message]]:
    got: dict[str, list[pulsar.Message]] = {"a": [], "b": []}
    deadline = time.monotonic() + WITHIN_S
    while sum(map(len, got.values())) < count:
        assert time.monotonic() < deadline, "messages are missing"
        for name, consumer in zip(got, consumers, strict=True):
            try:
                got[name].append(consumer.receive(50))
            except pulsar.Timeout:
                continue
    return got


def test_every_figure_of_a_topic(cluster: Cluster, client: pulsar.Client) -> None:
    api = Api(cluster.admin_url)
    story = Story(client, api, "persistent://public/default/figures")
    story.send(singles=40, batches=6)
    for message in receive(story.all, story.messages)[:30]:
        story.all.acknowledge(message)
    got = receive_from(story.some, story.messages)
    acknowledged = [m for m in got["a"] if m.message_id().batch_index() < 0]
    for message in acknowledged:
        story.some[0].acknowledge(message)
    entries = 40 + 6
    assert api.get(f"{story.path}/stats")["msgInCounter"] == story.messages == 100

    def settled() -> bool:
        stats = api.get(f"{story.path}/stats")["subscriptions"]
        return stats["all"]["msgBacklog"] == entries - 30 and stats["some"][
            "msgBacklog"
        ] == entries - len(acknowledged)

    found_soon(settled)
    stats, rate = story.stats()
    size = stats["bytesInCounter"]
    assert size == bytes_of(100, entries)
    assert stats["storageSize"] == size
    assert stats["msgRateIn"] == rate(100)
    assert stats["msgThroughputIn"] == rate(size)
    assert stats["averageMsgSize"] == pytest.approx(size / 100)
    assert (stats["msgOutCounter"], stats["bytesOutCounter"]) == (200, 2 * size)
    assert stats["msgRateOut"] == rate(200)
    assert stats["msgThroughputOut"] == rate(2 * size)
    publishers = {each["producerName"]: each for each in stats["publishers"]}
    for name, sent in story.sent.items():
        assert publishers[name]["msgRateIn"] == rate(sent)
        assert publishers[name]["averageMsgSize"] == Between(
            len(PAYLOAD), len(PAYLOAD) + OVERHEAD[1]
        )
    check_subscriptions(stats["subscriptions"], rate, got, acknowledged, size)
    check_metrics(cluster, story, rate)


def check_subscriptions(
    subscriptions: dict[str, Any],
    rate: Callable[[int], Any],
    got: dict[str, list[pulsar.Message]],
    acknowledged: list[pulsar.Message],
    size: int,
) -> None:
    everything, some = subscriptions["all"], subscriptions["some"]
    assert (everything["type"], everything["activeConsumerName"]) == ("Exclusive", "all")
    assert (everything["msgOutCounter"], everything["bytesOutCounter"]) == (100, size)
    assert everything["msgRateOut"] == rate(100)
    assert everything["messageAckRate"] == rate(30)
    assert everything["backlogSize"] == Between(0, size)
    assert (some["type"], some["msgOutCounter"]) == ("Shared", 100)
    assert some["messageAckRate"] == rate(len(acknowledged))
    consumers = {each["consumerName"]: each for each in some["consumers"]}
    for name, messages in got.items():
        stats = consumers[name]
        assert stats["msgOutCounter"] == len(messages), name
        assert stats["msgRateOut"] == rate(len(messages))
        held = len(messages) - (len(acknowledged) if name == "a" else 0)
        assert stats["unackedMessages"] == held
        assert stats["msgRateRedeliver"] == 0
    assert some["unackedMessages"] == 100 - len(acknowledged)
    assert sum(each["bytesOutCounter"] for each in consumers.values()) == size


def check_metrics(cluster: Cluster, story: Story, rate: Callable[[int], Any]) -> None:
    owner = owner_of(cluster, story.topic)
    totals: Counter[str] = Counter()
    for family in text_string_to_metric_families(owner.get("/metrics/")):
        for sample in family.samples:
            if sample.labels.get("topic") == story.topic:
                totals[sample.name] += sample.value
    assert totals["pulsar_in_messages_total"] == 100
    assert totals["pulsar_out_messages_total"] == 200
    # Asked a moment later than the figures that these bounds were made for.
    assert totals["pulsar_rate_in"] == Between(rate(100).low / 2, rate(100).high)
    assert totals["pulsar_throughput_out"] > totals["pulsar_throughput_in"] > 0


def owner_of(cluster: Cluster, topic: str) -> Api:
    path = topic.replace("://", "/")
    return Api(Api(cluster.admin_url).get(f"/lookup/v2/topic/{path}")["httpUrl"])


def test_partitions_add_up(cluster: Cluster, client: pulsar.Client) -> None:
    api = Api(cluster.admin_url)
    topic = "persistent://public/default/parted"
    path = "/admin/v2/" + topic.replace("://", "/")
    assert api("PUT", f"{path}/partitions", 3).status == 204
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(
        topic,
        batching_enabled=False,
        message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution,
    )
    for _ in range(30):
        producer.send(PAYLOAD)
    for message in receive(consumer, 30)[:12]:
        consumer.acknowledge(message)
    found_soon(
        lambda: api.get(f"{path}/partitioned-stats")["subscriptions"]["s"]["msgBacklog"] == 18
    )
    total = api.get(f"{path}/partitioned-stats?perPartition=true")
    parts = total["partitions"].values()
    assert (total["msgInCounter"], total["msgOutCounter"]) == (30, 30)
    assert total["bytesInCounter"] == total["storageSize"] == total["bytesOutCounter"]
    assert [each["msgInCounter"] for each in parts] == [10, 10, 10]
    assert total["msgRateIn"] > 0
    assert total["averageMsgSize"] == pytest.approx(total["bytesInCounter"] / 30)


def test_a_move_keeps_what_is_stored_and_restarts_the_counters(
    cluster: Cluster, client: pulsar.Client
) -> None:
    api = Api(cluster.admin_url)
    story = Story(client, api, "persistent://public/default/moving")
    story.send(singles=20, batches=0)
    for message in receive(story.all, 20)[:5]:
        story.all.acknowledge(message)
    found_soon(lambda: api.get(f"{story.path}/stats")["subscriptions"]["all"]["msgBacklog"] == 15)
    before = api.get(f"{story.path}/stats")
    story.began = time.monotonic()
    assert api("PUT", f"{story.path}/unload").status == 204
    story.send(singles=10, batches=0)
    story.ready = time.monotonic()
    found_soon(lambda: bool(api.get(f"{story.path}/stats")["subscriptions"]["all"]["consumers"]))
    stats, rate = story.stats()
    assert stats["msgInCounter"] == 10
    assert stats["msgRateIn"] == rate(10)
    assert stats["subscriptions"]["all"]["msgBacklog"] == 25
    assert stats["storageSize"] == before["storageSize"] + stats["bytesInCounter"]


def test_rates_end_with_the_traffic() -> None:
    with Cluster(brokers=1, config={"statsUpdateFrequencyInSecs": 1}) as quick:
        client = pulsar.Client(quick.service_url, logger=SILENT)
        story = Story(client, Api(quick.admin_url), "persistent://public/default/ending")
        seen = threading.Event()

        def send() -> None:
            # Until the rate is seen: on a busy machine an answer takes longer than a window.
            while not seen.wait(0.02):
                story.send(singles=1, batches=0)

        sending = threading.Thread(target=send)
        sending.start()
        try:
            found_soon(lambda: story.stats()[0]["msgRateIn"] > 0)
        finally:
            seen.set()
            sending.join()
        found_soon(lambda: story.stats()[0]["msgRateIn"] == 0)
        stats = story.stats()[0]
        assert stats["msgInCounter"] == story.messages
        assert stats["msgThroughputIn"] == stats["averageMsgSize"] == 0
        client.close()
