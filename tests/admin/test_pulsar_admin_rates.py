"""Rates set, raised, lowered, removed by Apache's own ``pulsar-admin``, without a reconnect.

Every verb that sets a limit: of namespaces, topics, subscriptions, resource groups, and dynamic
configuration. Each is set to a rate at which nothing moves while one looks, raised until everything
does, lowered, and removed; the client keeps its producer and consumer, and its connection.
"""

import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pulsar
import pytest

from counterpoise import Cluster
from tests.admin.conftest import SILENT, Api
from tests.apache_tools import AdminTool, admin_tool, needs_tools
from tests.waiting import found_soon

pytestmark = [pytest.mark.client, needs_tools]

SOON_S = 60.0
"""For what is sure to happen, on whatever machine."""
COUNT = 60
SLOW, FAST = "2", "1000000"
SLOW_BYTES, FAST_BYTES = "100", "1000000000"


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> Iterator[AdminTool]:
    with admin_tool(cluster.admin_url) as tool:
        yield tool


@dataclass(frozen=True)
class Verb:
    """How a limit is set (with ``RATE`` for the rate) and removed, and at which level it holds."""

    name: str
    level: str
    set: str
    remove: str
    bytes: bool = False

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


def dynamic(name: str, level: str, *, size: bool = False) -> Verb:
    brokers = "brokers {}-dynamic-config --config " + name
    value = brokers.format("update") + " --value RATE"
    return Verb(name, level, value, brokers.format("delete"), bytes=size)


def policy(what: str, option: str, kind: str, level: str, *, size: bool = False) -> Verb:
    where = {"namespaces": "NAMESPACE", "topicPolicies": "TOPIC"}[what]
    name = f"{what} {kind}{' bytes' if size else ''}"
    setting = f"{what} set-{kind} {option} RATE {where}"
    return Verb(name, level, setting, f"{what} remove-{kind} {where}", bytes=size)


PUBLISH = "TopicPublishRate"
PUBLISHING = [
    policy("namespaces", "-m", "publish-rate", PUBLISH),
    policy("namespaces", "-b", "publish-rate", PUBLISH, size=True),
    policy("topicPolicies", "-m", "publish-rate", PUBLISH),
    policy("topicPolicies", "-b", "publish-rate", PUBLISH, size=True),
    Verb(
        "resourcegroups publish",
        "ResourceGroupPublishRate",
        "resourcegroups update -mp RATE GROUP",
        "resourcegroups update -mp -1 GROUP",
    ),
    Verb(
        "resourcegroups publish bytes",
        "ResourceGroupPublishRate",
        "resourcegroups update -bp RATE GROUP",
        "resourcegroups update -bp -1 GROUP",
        bytes=True,
    ),
    dynamic("maxPublishRatePerTopicInMessages", PUBLISH),
    dynamic("maxPublishRatePerTopicInBytes", PUBLISH, size=True),
    dynamic("brokerPublisherThrottlingMaxMessageRate", "BrokerPublishRate"),
    dynamic("brokerPublisherThrottlingMaxByteRate", "BrokerPublishRate", size=True),
]
DISPATCHING = [
    policy("namespaces", "-md", "dispatch-rate", "TopicDispatchRate"),
    policy("namespaces", "-bd", "dispatch-rate", "TopicDispatchRate", size=True),
    policy("namespaces", "-md", "subscription-dispatch-rate", "SubscriptionDispatchRate"),
    policy("topicPolicies", "-md", "dispatch-rate", "TopicDispatchRate"),
    policy("topicPolicies", "-md", "subscription-dispatch-rate", "SubscriptionDispatchRate"),
    Verb(
        "topicPolicies one subscription",
        "SubscriptionDispatchRate",
        "topicPolicies set-subscription-dispatch-rate -s sub -md RATE TOPIC",
        "topicPolicies remove-subscription-dispatch-rate -s sub TOPIC",
    ),
    Verb(
        "resourcegroups dispatch",
        "ResourceGroupDispatchRate",
        "resourcegroups update -md RATE GROUP",
        "resourcegroups update -md -1 GROUP",
    ),
    dynamic("dispatchThrottlingRatePerTopicInMsg", "TopicDispatchRate"),
    dynamic("dispatchThrottlingRatePerSubscriptionInMsg", "SubscriptionDispatchRate"),
    dynamic("dispatchThrottlingRateInMsg", "BrokerDispatchRate"),
    dynamic("dispatchThrottlingRateInByte", "BrokerDispatchRate", size=True),
]


class Place:
    """A topic in a namespace of a resource group, and a client that stays connected."""

    def __init__(self, cluster: Cluster, admin: AdminTool) -> None:
        made = uuid.uuid4().hex[:8]
        self.names = {"NAMESPACE": f"public/rates-{made}", "GROUP": f"rates-{made}"}
        self.names["TOPIC"] = f"persistent://{self.names['NAMESPACE']}/t"
        self._admin = admin
        self.cluster = cluster
        self._api = Api(cluster.admin_url)
        for words in (
            "namespaces create NAMESPACE",
            "resourcegroups create GROUP",
            "namespaces set-resource-group -rgn GROUP NAMESPACE",
        ):
            self.do(words)
        self.client = pulsar.Client(cluster.service_url, logger=SILENT)
        self.topic = self.names["TOPIC"]
        self.producer = self.client.create_producer(
            self.topic, batching_enabled=False, send_timeout_millis=0
        )
        self.consumer = self.client.subscribe(self.topic, "sub", receiver_queue_size=1000)
        self.connections = self._connections()

    def do(self, words: str, rate: str = "") -> None:
        named = {**self.names, "RATE": rate}
        self._admin(*(named.get(word, word) for word in words.split()))

    def _stats(self) -> Any:
        return self._api.get(f"/admin/v2/{self.topic.replace('://', '/')}/stats")

    def _connections(self) -> list[tuple[str, str]]:
        stats = self._stats()
        everybody = [*stats["publishers"], *stats["subscriptions"]["sub"]["consumers"]]
        return [(each["address"], each["connectedSince"]) for each in everybody]

    def limit(self, level: str) -> dict[str, Any] | None:
        """The limit at a level that holds for the topic, if there is one."""
        owner = self.cluster.owner(self.topic)
        assert owner is not None
        for limit in Api(owner.admin_url).get("/admin/v2/broker-stats/throttling"):
            ours = (self.topic, self.names["GROUP"])
            if limit["level"] == level and ("Broker" in level or limit["subject"].endswith(ours)):
                return limit  # type: ignore[no-any-return]
        return None

    def set(self, verb: Verb, rate: str) -> None:
        """Set a rate, and wait until the broker of the topic has heard of it."""
        self.do(verb.set, rate)
        what = "bytes" if verb.bytes else "messages"
        found_soon(lambda: (self.limit(verb.level) or {}).get(what) == int(rate))

    def remove(self, verb: Verb) -> None:
        self.do(verb.remove)
        found_soon(lambda: self.limit(verb.level) is None)

    def publish(self) -> threading.Event:
        """Publish; the event is set when all is acknowledged."""
        done, left = threading.Event(), [COUNT]

        def receipt(result: pulsar.Result, _: object) -> None:
            assert result == pulsar.Result.Ok
            left[0] -= 1
            if not left[0]:
                done.set()

        for _ in range(COUNT):
            self.producer.send_async(b"x" * 100, receipt)
        return done

    def consume(self) -> threading.Event:
        """Receive as many as are published; the event is set when all have come."""
        done = threading.Event()

        def receive() -> None:
            for _ in range(COUNT):
                self.consumer.acknowledge(self.consumer.receive(int(SOON_S * 1000)))
            done.set()

        threading.Thread(target=receive, daemon=True).start()
        return done

    def close(self) -> None:
        assert self._connections() == self.connections, "a client had to connect again"
        self.client.close()


@pytest.fixture(scope="module")
def place(cluster: Cluster, admin: AdminTool) -> Iterator[Place]:
    made = Place(cluster, admin)
    yield made
    made.close()


@pytest.mark.parametrize("verb", PUBLISHING, ids=str)
def test_a_publish_rate(place: Place, verb: Verb) -> None:
    slow, fast = (SLOW_BYTES, FAST_BYTES) if verb.bytes else (SLOW, FAST)
    for _ in range(2):
        place.set(verb, slow)
        done = place.publish()
        limit = found_soon(lambda: held if (held := place.limit(verb.level))["producers"] else None)
        assert limit["producers"][0]["topic"] == place.topic
        assert not done.is_set()
        place.set(verb, fast)
        assert done.wait(SOON_S), "a raised rate releases what waits"
    place.set(verb, slow)
    done = place.publish()
    found_soon(lambda: place.limit(verb.level)["producers"])
    place.remove(verb)
    assert done.wait(SOON_S), "a removed rate releases what waits"
    for _ in range(3):
        for _ in range(COUNT):
            place.consumer.acknowledge(place.consumer.receive(int(SOON_S * 1000)))


@pytest.mark.parametrize("verb", DISPATCHING, ids=str)
def test_a_dispatch_rate(place: Place, verb: Verb) -> None:
    slow, fast = (SLOW_BYTES, FAST_BYTES) if verb.bytes else (SLOW, FAST)
    place.set(verb, slow)
    done = place.consume()
    assert place.publish().wait(SOON_S), "it limits deliveries alone"
    limit = found_soon(lambda: held if (held := place.limit(verb.level))["subscriptions"] else None)
    assert (limit["subscriptions"][0]["name"], done.is_set()) == ("sub", False)
    place.set(verb, fast)
    assert done.wait(SOON_S), "a raised rate releases what waits"
    place.set(verb, slow)
    done = place.consume()
    place.publish()
    found_soon(lambda: place.limit(verb.level)["subscriptions"])
    place.remove(verb)
    assert done.wait(SOON_S), "a removed rate releases what waits"


SUBSCRIBING = [
    policy("namespaces", "-sr", "subscribe-rate", ""),
    policy("topicPolicies", "-sr", "subscribe-rate", ""),
    dynamic("subscribeThrottlingRatePerConsumer", ""),
]


@pytest.mark.parametrize("verb", SUBSCRIBING, ids=str)
def test_a_subscribe_rate(place: Place, verb: Verb) -> None:
    def admitted() -> bool:
        # A client of its own each time: within one every consumer has another id.
        client = pulsar.Client(
            place.cluster.service_url, logger=SILENT, operation_timeout_seconds=3
        )
        try:
            client.subscribe(place.topic, "often", consumer_name="c").close()
        except pulsar.PulsarException:
            return False
        finally:
            client.close()
        return True

    place.do(verb.set, "1")
    found_soon(lambda: not admitted())
    place.do(verb.set, "1000")
    found_soon(admitted)
    place.do(verb.set, "1")
    found_soon(lambda: not admitted())
    place.do(verb.remove)
    found_soon(admitted)
