"""What policies of namespaces and topics allow, as an official client meets it.

Each is set on the namespace or on the topic, refuses, and is removed again.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pulsar
import pytest
from pulsar.schema import JsonSchema, Record, String

from tests.client.conftest import SOON, Target

SHARED = pulsar.ConsumerType.Shared
LEVELS = ("namespace", "topic")


@dataclass(frozen=True)
class Limited:
    """A topic in a namespace of its own, and where its policies are set."""

    target: Target
    client: pulsar.Client
    hasty: pulsar.Client
    """One for what is refused: it tries that again until its time is up."""
    topic: str
    level: str

    def set(self, of_namespace: str, of_topic: str, value: object, method: str = "POST") -> None:
        self.target.admin(method, f"{self._at}/{self._name(of_namespace, of_topic)}", value)

    def remove(self, of_namespace: str, of_topic: str) -> None:
        self.target.admin("DELETE", f"{self._at}/{self._name(of_namespace, of_topic)}")

    def _name(self, of_namespace: str, of_topic: str) -> str:
        return of_namespace if self.level == "namespace" else of_topic

    @property
    def _at(self) -> str:
        path = self.topic.replace("://", "/")
        return path if self.level == "topic" else f"namespaces/{path.split('/', 1)[1][:-2]}"


@pytest.fixture(params=LEVELS)
def limited(request: pytest.FixtureRequest, target: Target, namespace: str) -> Iterator[Limited]:
    silent = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client, hasty = (
        pulsar.Client(target.service_url, operation_timeout_seconds=within_s, logger=silent)
        for within_s in (60, 1)
    )
    topic = f"persistent://{namespace}/t"
    target.admin("PUT", topic.replace("://", "/"))
    yield Limited(target, client, hasty, topic, request.param)
    client.close()
    hasty.close()


def test_producers_and_consumers(limited: Limited) -> None:
    client, topic = limited.client, limited.topic
    first = client.create_producer(topic)
    limited.set("maxProducersPerTopic", "maxProducers", 1)
    with pytest.raises(pulsar.ProducerBusy):
        limited.hasty.create_producer(topic)
    first.close()
    client.create_producer(topic)
    limited.set("maxConsumersPerSubscription", "maxConsumersPerSubscription", 1)
    client.subscribe(topic, "s", SHARED)
    with pytest.raises(pulsar.ConsumerBusy):
        limited.hasty.subscribe(topic, "s", SHARED)
    limited.remove("maxConsumersPerSubscription", "maxConsumersPerSubscription")
    client.subscribe(topic, "s", SHARED)
    limited.set("maxConsumersPerTopic", "maxConsumers", 2)
    with pytest.raises(pulsar.ConsumerBusy):
        limited.hasty.subscribe(topic, "another", SHARED)


def test_subscriptions_and_their_types(limited: Limited) -> None:
    client, topic = limited.client, limited.topic
    client.subscribe(topic, "one", SHARED)
    limited.set("subscriptionTypesEnabled", "subscriptionTypesEnabled", ["Shared", "Exclusive"])
    with pytest.raises(pulsar.PulsarException, match="NotAllowed"):
        limited.hasty.subscribe(topic, "two", pulsar.ConsumerType.Failover)
    limited.set("maxSubscriptionsPerTopic", "maxSubscriptionsPerTopic", 1)
    with pytest.raises(pulsar.PulsarException, match="NotAllowed"):
        limited.hasty.subscribe(topic, "two", SHARED)
    client.subscribe(topic, "one", SHARED)
    limited.remove("maxSubscriptionsPerTopic", "maxSubscriptionsPerTopic")
    limited.set(
        "autoSubscriptionCreation",
        "autoSubscriptionCreation",
        {"allowAutoSubscriptionCreation": False},
    )
    with pytest.raises(pulsar.PulsarException):
        limited.hasty.subscribe(topic, "two", SHARED)
    path = topic.replace("://", "/")
    limited.target.admin("PUT", f"{path}/subscription/two", "latest")
    client.subscribe(topic, "two", SHARED)
    client.create_reader(topic, pulsar.MessageId.earliest).close()


def test_unacknowledged_messages_of_a_consumer_that_is_there(limited: Limited) -> None:
    client, topic = limited.client, limited.topic
    limited.set("maxUnackedMessagesPerConsumer", "maxUnackedMessagesOnConsumer", 2)
    consumer = client.subscribe(topic, "s", SHARED)
    producer = client.create_producer(topic, batching_enabled=False)
    for number in range(4):
        producer.send(b"%d" % number)
    assert [consumer.receive(SOON).data() for _ in range(2)] == [b"0", b"1"]
    with pytest.raises(pulsar.Timeout):
        consumer.receive(300)
    limited.set("maxUnackedMessagesPerConsumer", "maxUnackedMessagesOnConsumer", 9)
    assert [consumer.receive(SOON).data() for _ in range(2)] == [b"2", b"3"]


@pytest.mark.parametrize("limited", ["namespace"], indirect=True)
def test_encryption(limited: Limited) -> None:
    client, topic = limited.client, limited.topic
    limited.set("encryptionRequired", "", True)
    with pytest.raises(pulsar.PulsarException):
        limited.hasty.create_producer(topic)
    limited.set("encryptionRequired", "", False)
    client.create_producer(topic).send(b"plain again")


def test_deduplication(limited: Limited) -> None:
    client, topic = limited.client, limited.topic
    limited.set("deduplication", "deduplicationEnabled", True)
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, producer_name="p", batching_enabled=False)
    for number in (1, 2, 1, 2, 3):
        producer.send(b"%d" % number, sequence_id=number)
    producer.close()
    producer = client.create_producer(topic, producer_name="p", batching_enabled=False)
    assert producer.last_sequence_id() == 3
    producer.send(b"again", sequence_id=3)
    producer.send(b"4", sequence_id=4)
    assert [consumer.receive(SOON).data() for _ in range(4)] == [b"1", b"2", b"3", b"4"]


def test_backlog_quotas(limited: Limited) -> None:
    client, topic = limited.client, limited.topic
    consumer = client.subscribe(topic, "s", SHARED)
    producer = client.create_producer(topic)
    for _ in range(10):
        producer.send(b"x" * 1024)
    quota = {"limit": "8192", "policy": "producer_exception"}
    limited.set("backlogQuota", "backlogQuota", quota)
    with pytest.raises(pulsar.PulsarException):
        limited.hasty.create_producer(topic)
    for _ in range(10):
        consumer.acknowledge(consumer.receive(SOON))
    consumer.close()
    client.create_producer(topic).send(b"again")


class _Old(Record):  # type: ignore[misc]
    a = String()


class _New(Record):  # type: ignore[misc]
    """With a field that the old one has not, and no default: only FORWARD admits it."""

    a = String()
    b = String(required=True)


def test_schema_compatibility(limited: Limited) -> None:
    client, topic = limited.client, limited.topic
    old, new = JsonSchema(_Old), JsonSchema(_New)
    client.create_producer(topic, schema=old)
    with pytest.raises(pulsar.PulsarException):
        limited.hasty.create_producer(topic, schema=new)
    strategy = "schemaCompatibilityStrategy"
    limited.set(strategy, strategy, "BACKWARD", "PUT")
    with pytest.raises(pulsar.PulsarException):
        limited.hasty.create_producer(topic, schema=new)
    limited.set(strategy, strategy, "FORWARD", "PUT")
    client.create_producer(topic, schema=new)
    client.create_producer(topic).close()
    limited.set("schemaValidationEnforced", "schemaValidationEnforced", True)
    with pytest.raises(pulsar.PulsarException):
        limited.hasty.create_producer(topic)
