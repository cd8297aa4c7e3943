"""Faults by a cluster's methods, beyond what `test_faults_in_three_languages` shows over HTTP."""

import itertools
import re
from collections.abc import Iterator
from datetime import timedelta

import pulsar
import pytest

from counterpoise import Cluster
from counterpoise.app.faults.cluster_log import EventKind
from counterpoise.faults import (
    CONNECT,
    FLOW,
    LAST_MESSAGE_ID,
    LOOKUP,
    MESSAGE,
    PRODUCER,
    REDELIVER,
    SEND,
    TOPICS,
    InvalidFault,
    Operation,
)
from tests.broker.connection.raw_client import RawClient
from tests.waiting import found_soon
from tests.wire import frames
from tests.wire.frames import Type

pytestmark = pytest.mark.client
_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with Cluster(brokers=2) as started:
        yield started


@pytest.fixture
def cluster(running: Cluster) -> Iterator[Cluster]:
    yield running
    running.clear_faults()


@pytest.fixture
def topic() -> str:
    return f"orders-{next(_NUMBERS)}"


def connected(cluster: Cluster, *, within_s: int) -> Iterator[pulsar.Client]:
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    made = pulsar.Client(cluster.service_url, operation_timeout_seconds=within_s, logger=logger)
    yield made
    made.close()


@pytest.fixture
def client(cluster: Cluster) -> Iterator[pulsar.Client]:
    yield from connected(cluster, within_s=60)


@pytest.fixture
def hasty(cluster: Cluster) -> Iterator[pulsar.Client]:
    """A client that gives up what is not answered soon."""
    yield from connected(cluster, within_s=2)


def full(topic: str) -> str:
    return f"persistent://public/default/{topic}"


def received(consumer: pulsar.Consumer, count: int) -> list[bytes]:
    return [consumer.receive(60_000).data() for _ in range(count)]


def send(producer: pulsar.Producer, count: int) -> list[bytes]:
    sent = [b"%d" % n for n in range(count)]
    for each in sent:
        producer.send(each)
    return sent


def struck(cluster: Cluster, topic: str) -> list[str]:
    """What faults did to a topic, in order."""
    return [
        each.text.replace(f" of {full(topic)}", "")
        for each in cluster.events
        if each.kind is EventKind.FAULT and each.topic == full(topic)
    ]


# Publishing.


@pytest.mark.parametrize(
    ("code", "stored"),
    [("PersistenceError", []), ("NotAllowedError", [1, 2])],
    ids=["the client comes again", "that message alone"],
)
def test_what_follows_a_refused_send(
    cluster: Cluster, topic: str, code: str, stored: list[int]
) -> None:
    """Stored before the refused one came again it would have overtaken it."""
    cluster.fault(SEND, topic=topic).error(code).once()
    cluster.place(topic, cluster.brokers[0])
    with RawClient(cluster.brokers[0].service_url) as raw:
        raw.connect()
        raw.produce(full(topic))
        raw.send(b"".join(frames.send(0, number) for number in range(3)))
        answers = [raw.receive() for _ in range(3)]
    receipts = [a.send_receipt.sequence_id for a in answers if a.type == Type.SEND_RECEIPT]
    refused = [a.send_error.sequence_id for a in answers if a.type == Type.SEND_ERROR]
    assert (receipts, refused) == (stored, sorted({0, 1, 2} - set(stored)))
    assert struck(cluster, topic) == [f"SEND answered with {code}"]


def test_a_delayed_send_keeps_its_place(
    cluster: Cluster, client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    cluster.fault(SEND, topic=topic).delay(0.2).once()
    for n in range(20):
        producer.send_async(b"%d" % n, None)
    producer.flush()
    assert received(consumer, 20) == [b"%d" % n for n in range(20)]
    assert struck(cluster, topic) == ["SEND delayed by 0.2 s"]


# Opening.


def test_a_refused_producer(cluster: Cluster, client: pulsar.Client, topic: str) -> None:
    cluster.fault(PRODUCER, topic=topic, client="till-*").error("ProducerBusy").once()
    client.create_producer(topic, producer_name="desk-1").send(b"0")
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer(topic, producer_name="till-1")
    client.create_producer(topic, producer_name="till-1").send(b"1")


@pytest.mark.parametrize("operation", [LOOKUP, PRODUCER])
def test_a_producer_whose_request_is_lost_opens_later(
    cluster: Cluster, hasty: pulsar.Client, topic: str, operation: Operation
) -> None:
    with cluster.fault(operation, topic=topic).drop(), pytest.raises(pulsar.Timeout):
        hasty.create_producer(topic)

    def opens() -> bool:
        # The client may join a next attempt to the lookup of the first, which is still to time out.
        try:
            hasty.create_producer(topic).send(b"0")
        except pulsar.Timeout:
            return False
        return True

    assert found_soon(opens)


def test_a_producer_that_is_closed_while_it_opens_late(
    cluster: Cluster, client: pulsar.Client, hasty: pulsar.Client, topic: str
) -> None:
    late = cluster.fault(PRODUCER, topic=topic).delay(60).once()
    with pytest.raises(pulsar.Timeout):
        hasty.create_producer(topic)
    assert late.struck == 1
    assert len(send(client.create_producer(topic), 2)) == 2


def test_a_refused_list_of_topics(cluster: Cluster, client: pulsar.Client, topic: str) -> None:
    cluster.fault(TOPICS).error("MetadataError").once()
    client.create_producer(topic)
    with pytest.raises(pulsar.PulsarException):
        client.subscribe(re.compile(full(topic) + ".*"), "s")


def test_a_client_that_is_not_let_in(cluster: Cluster, hasty: pulsar.Client, topic: str) -> None:
    cluster.fault(CONNECT, client="Pulsar-CPP*").error("AuthenticationError")
    with pytest.raises(pulsar.PulsarException):
        hasty.create_producer(topic)


# Consuming.


def test_a_lost_message_is_named_by_its_number(
    cluster: Cluster, client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s")
    cluster.fault(MESSAGE, topic=topic).drop().every(2).times(1)
    send(client.create_producer(topic, batching_enabled=False), 3)
    assert received(consumer, 2) == [b"0", b"2"]
    with pytest.raises(AssertionError) as failed:
        cluster.assert_nothing_lost(topic, "s", within_s=0.2)
    head, *happened = str(failed.value).splitlines()
    assert head.startswith(f"1 of the 3 messages of {full(topic)} that were stored were never")
    assert "to subscription s: 2. What happened" in head
    assert any(f"MESSAGE of {full(topic)} dropped" in line for line in happened)
    consumer.redeliver_unacknowledged_messages()
    cluster.assert_nothing_lost(topic, "s")
    cluster.assert_redelivered(topic)


def test_without_permits_nothing_is_delivered(
    cluster: Cluster, client: pulsar.Client, topic: str
) -> None:
    with cluster.fault(FLOW, topic=topic).drop() as fault:
        consumer = client.subscribe(topic, "s")
        send(client.create_producer(topic), 1)
        fault.wait()
        with pytest.raises(pulsar.Timeout):
            consumer.receive(200)
    cluster.drop_connections(cluster.owner(topic) or "")
    assert received(consumer, 1) == [b"0"]
    assert EventKind.DISCONNECTED in {each.kind for each in cluster.events}


def test_a_refused_last_message_id(cluster: Cluster, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    cluster.fault(LAST_MESSAGE_ID, topic=topic).error("MetadataError").once()
    with pytest.raises(pulsar.PulsarException):
        consumer.get_last_message_id()


def test_a_lost_redelivery(cluster: Cluster, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
    send(client.create_producer(topic), 1)
    consumer.receive(60_000)
    lost = cluster.fault(REDELIVER, topic=topic).drop().once()
    consumer.redeliver_unacknowledged_messages()
    lost.wait()
    with pytest.raises(pulsar.Timeout):
        consumer.receive(100)
    consumer.redeliver_unacknowledged_messages()
    assert received(consumer, 1) == [b"0"]


# Brokers.


def test_a_topic_is_placed_before_and_after_it_has_an_owner(
    cluster: Cluster, client: pulsar.Client, topic: str
) -> None:
    first, second = cluster.brokers
    cluster.place(topic, second)
    assert cluster.owner(topic) == second
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    cluster.watch()
    send(producer, 1)
    cluster.place(topic, first.id)
    assert cluster.owner(topic) == first
    send(producer, 1)
    cluster.assert_moved(topic)
    assert received(consumer, 2) == [b"0", b"0"]


def test_a_frozen_broker_answers_when_it_thaws(
    cluster: Cluster, client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s")
    hasty = client.create_producer(topic, send_timeout_millis=500)
    producer = client.create_producer(topic)
    owner = cluster.owner(topic)
    assert owner is not None
    with cluster.freeze(owner):
        with pytest.raises(pulsar.Timeout):
            hasty.send(b"slow")
        with pytest.raises(pulsar.Timeout):
            consumer.receive(100)
    producer.send(b"fast")
    cluster.thaw(owner)
    assert received(consumer, 2) == [b"slow", b"fast"]


def test_a_full_disk_refuses_messages_until_it_has_room(
    cluster: Cluster, client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    owner = cluster.owner(topic)
    assert owner is not None
    with cluster.disk_full(owner):
        # The official client sends it again until the broker takes it.
        producer.send_async(b"0", lambda *_: None)
        with pytest.raises(pulsar.Timeout):
            consumer.receive(500)
    producer.send(b"1")
    assert received(consumer, 2) == [b"0", b"1"]


def test_a_slow_disk_makes_receipts_late(
    cluster: Cluster, client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, send_timeout_millis=200)
    owner = cluster.owner(topic)
    assert owner is not None
    with cluster.slow_disk(owner, 2.0), pytest.raises(pulsar.Timeout):
        producer.send(b"0")
    assert received(consumer, 1) == [b"0"]


@pytest.mark.parametrize("for_good", [False, True])
def test_a_broker_that_loses_its_session_goes_on(
    cluster: Cluster, client: pulsar.Client, topic: str, for_good: bool
) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    send(producer, 1)
    owner = cluster.owner(topic)
    assert owner is not None
    if for_good:
        with cluster.partition(owner, from_="metadata"):
            send(producer, 1)
    else:
        cluster.lose_session(owner)
        send(producer, 1)
    assert received(consumer, 2) == [b"0", b"0"]


# The clock.


def test_a_delayed_message_is_due_when_it_is_later(
    cluster: Cluster, client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
    client.create_producer(topic).send(b"0", deliver_after=timedelta(hours=1))
    with pytest.raises(pulsar.Timeout):
        consumer.receive(100)
    cluster.clock.advance(1800)
    with pytest.raises(pulsar.Timeout):
        consumer.receive(100)
    cluster.clock.advance(1801)
    assert received(consumer, 1) == [b"0"]


def test_messages_expire_when_it_is_later() -> None:
    settings = {"ttlDurationDefaultInSeconds": 3600}
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    with Cluster(brokers=1, config=settings) as cluster:
        client = pulsar.Client(cluster.service_url, logger=logger)
        client.subscribe("old", "s").close()
        producer = client.create_producer("old")
        producer.send(b"expires")
        cluster.clock.advance(3601)
        # A message published now is of the client's own time: it would expire at once, if asked.
        producer.send(b"stays")
        assert received(client.subscribe("old", "s"), 1) == [b"stays"]
        client.close()


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_time_goes_forward_only(cluster: Cluster, seconds: float) -> None:
    with pytest.raises(InvalidFault, match="s later: choose more than 0"):
        cluster.clock.advance(seconds)


def test_what_cannot_be_is_refused_before_anything_is_set(cluster: Cluster, topic: str) -> None:
    with pytest.raises(InvalidFault, match="no operation"):
        cluster.fault("SENDING")
    with pytest.raises(LookupError, match="no broker"):
        cluster.fault(SEND, broker="elsewhere:1")
    with pytest.raises(InvalidFault, match="choose chance or count"):
        cluster.fault(SEND, topic=topic).once().probability(0.5, seed=1)
    with pytest.raises(InvalidFault, match="no partition from 'others'"):
        cluster.partition(cluster.brokers[0], from_="others")
    with pytest.raises(InvalidFault, match="slower by -1 s"):
        cluster.slow_disk(cluster.brokers[0], -1)
    with pytest.raises(AssertionError, match="was stored while the cluster was watched"):
        cluster.assert_nothing_lost(topic, "s", within_s=0)
    assert struck(cluster, topic) == []
