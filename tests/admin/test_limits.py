"""Limits by the admin API: set for topics and groups, and seen while they throttle a client."""

import threading
import uuid
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pulsar
import pytest

from counterpoise import Cluster
from counterpoise.admin.metrics.limits import figures
from counterpoise.app.main import main
from counterpoise.broker.face import Broker, LimitSnapshot, PauseReason
from counterpoise.broker.limits.snapshot import ThrottledProducer
from tests.admin.conftest import Api
from tests.waiting import WITHIN_S, found_soon

GROUPS = "/admin/v2/resourcegroups"
NAMESPACES = "/admin/v2/namespaces"
MANY = 500
"""Messages: at five a second more than a busy machine can look at them for."""


def test_a_resource_groups_life(api: Api) -> None:
    group = f"{GROUPS}/of-life"
    assert api("GET", group).status == 404
    assert api("PUT", group, {"publishRateInMsgs": 10, "dispatchRateInBytes": 2**40}).status == 204
    assert api("PUT", group, {"publishRateInMsgs": 20, "publishRateInBytes": None}).status == 204
    assert api.get(group) == {
        "publishRateInMsgs": 20,
        "publishRateInBytes": -1,
        "dispatchRateInMsgs": -1,
        "dispatchRateInBytes": 2**40,
    }
    assert "of-life" in api.get(GROUPS)
    api("PUT", f"{NAMESPACES}/public/grouped")
    assert api("POST", f"{NAMESPACES}/public/grouped/resourcegroup/none").status == 412
    assert api("POST", f"{NAMESPACES}/public/grouped/resourcegroup/of-life").status == 204
    assert api.get(f"{NAMESPACES}/public/grouped/resourcegroup") == "of-life"
    assert "in use by public/grouped" in api("DELETE", group).reason
    assert api("DELETE", f"{NAMESPACES}/public/grouped/resourcegroup").status == 204
    assert api("DELETE", group).status == 204
    assert api("DELETE", group).status == 404


@pytest.mark.parametrize("body", [{"publishRateInMsgs": "ten"}, {"publishRateInMsgs": 2**40}, []])
def test_what_is_no_resource_group_is_refused(api: Api, body: object) -> None:
    assert api("PUT", f"{GROUPS}/odd", body).status == 400
    assert api("GET", f"{GROUPS}/odd").status == 404


def test_a_topics_own_rate(api: Api) -> None:
    topic = "/admin/v2/persistent/public/default/of-its-own/publishRate"
    assert api("GET", topic).status == 404
    assert api("PUT", topic.removesuffix("/publishRate")).status == 204
    assert api("GET", topic).value in ("", None)
    rate = {"publishThrottlingRateInMsg": 5, "publishThrottlingRateInByte": -1}
    assert api("POST", topic, rate).status == 204
    assert api.get(topic) == rate
    assert api("POST", topic, {"publishThrottlingRateInMsg": "5"}).status == 400
    assert api("DELETE", topic).status == 204
    assert api("GET", topic).value in ("", None)
    unknown = "/admin/v2/persistent/public/unknown/t/publishRate"
    assert api("POST", unknown, rate).status == 404


@pytest.fixture
def flood(cluster: Cluster) -> Iterator[Callable[[str], threading.Event]]:
    """Publish a thousand messages; the event is set when all are acknowledged."""
    client = pulsar.Client(
        cluster.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    )

    def start(topic: str) -> threading.Event:
        producer = client.create_producer(
            topic, producer_name="flood", batching_enabled=False, send_timeout_millis=0
        )
        done, left = threading.Event(), [1000]

        def receipt(*_: object) -> None:
            left[0] -= 1
            if not left[0]:
                done.set()

        for _ in range(1000):
            producer.send_async(b"x", receipt)
        return done

    yield start
    client.close()


def throttled(cluster: Cluster) -> list[dict[str, Any]]:
    """Every limit at which a client waits, on whichever broker."""
    limits = [
        limit
        for broker in cluster.brokers
        for limit in Api(broker.admin_url).get("/admin/v2/broker-stats/throttling")
    ]
    return [limit for limit in limits if limit["producers"]]


@pytest.mark.parametrize("level", ["topic", "namespace", "group", "broker"])
def test_a_limit_is_seen_at_work_and_removed(
    cluster: Cluster,
    api: Api,
    flood: Callable[[str], threading.Event],
    level: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    namespace = f"public/limits-{uuid.uuid4().hex[:8]}"
    api("PUT", f"{NAMESPACES}/{namespace}")
    topic = f"persistent://{namespace}/t"
    rate = {"publishThrottlingRateInMsg": 5, "publishThrottlingRateInByte": 0}
    dynamic = "/admin/v2/brokers/configuration/brokerPublisherThrottlingMaxMessageRate"
    if level == "topic":
        path = f"/admin/v2/persistent/{namespace}/t/publishRate"
        assert api("PUT", path.removesuffix("/publishRate")).status == 204
        assert api("POST", path, rate).status == 204
    elif level == "namespace":
        path = f"{NAMESPACES}/{namespace}/publishRate"
        assert api("POST", path, rate).status == 204
    elif level == "group":
        path = f"{NAMESPACES}/{namespace}/resourcegroup"
        api("PUT", f"{GROUPS}/seen", {"publishRateInMsgs": 5})
        assert api("POST", f"{path}/seen").status == 204
    else:
        path = dynamic
        assert api("POST", f"{dynamic}/5").status == 204
        # No broker reads it before the broker that is asked next has.
        found_soon(
            lambda: all(
                Api(each.admin_url).get("/admin/v2/broker-stats/throttling")
                for each in cluster.brokers
            )
        )
    done = flood(topic)
    (limit,) = found_soon(lambda: throttled(cluster))
    names = {"topic": "Topic", "namespace": "Topic", "group": "ResourceGroup", "broker": "Broker"}
    assert limit["level"] == f"{names[level]}PublishRate"
    assert 0 < limit["messages"] <= 5
    (producer,) = limit["producers"]
    assert (producer["name"], producer["topic"]) == ("flood", topic)
    assert producer["held_entries"] > 0
    stats = api.get(f"/admin/v2/persistent/{namespace}/t/stats")
    assert stats["publishRateLimitedTimes"] >= 1
    owner = cluster.owner(topic)
    assert owner is not None
    metrics = Api(owner.admin_url)("GET", "/metrics").value
    assert "pulsar_broker_throttled_connections" in metrics
    waiting = 'counterpoise_publish_limit_waiting_producers{cluster="standalone",level='
    assert f'{waiting}"{limit["level"]}"' in metrics
    capsys.readouterr()
    assert main(["top", "--admin-url", cluster.admin_url, "--once"]) == 0
    shown = capsys.readouterr().out
    assert names[level] in shown
    assert f"on {topic}: " in shown
    api("DELETE", path)
    assert done.wait(WITHIN_S), "a client that waited at a removed limit goes on"
    assert found_soon(lambda: not throttled(cluster))
    assert main(["top", "--admin-url", cluster.admin_url, "--once"]) == 0
    assert "no client waits at a limit" in capsys.readouterr().out


@pytest.mark.parametrize("level", ["subscription", "topic", "group", "broker"])
def test_a_dispatch_limit_is_seen_at_work_and_removed(
    cluster: Cluster, api: Api, level: str, capsys: pytest.CaptureFixture[str]
) -> None:
    namespace = f"public/limits-{uuid.uuid4().hex[:8]}"
    api("PUT", f"{NAMESPACES}/{namespace}")
    topic = f"persistent://{namespace}/t"
    rate = {"dispatchThrottlingRateInMsg": 5, "dispatchThrottlingRateInByte": 0}
    if level in ("subscription", "topic"):
        policy = {"subscription": "subscriptionDispatchRate", "topic": "dispatchRate"}[level]
        path = f"{NAMESPACES}/{namespace}/{policy}"
        assert api("POST", path, rate).status == 204
    elif level == "group":
        path = f"{NAMESPACES}/{namespace}/resourcegroup"
        api("PUT", f"{GROUPS}/dispatching", {"dispatchRateInMsgs": 5})
        assert api("POST", f"{path}/dispatching").status == 204
    else:
        path = "/admin/v2/brokers/configuration/dispatchThrottlingRateInMsg"
        assert api("POST", f"{path}/5").status == 204
        found_soon(
            lambda: all(
                Api(each.admin_url).get("/admin/v2/broker-stats/throttling")
                for each in cluster.brokers
            )
        )
    client = pulsar.Client(
        cluster.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    )
    consumer = client.subscribe(topic, "slow")
    producer = client.create_producer(topic, batching_enabled=False)
    for _ in range(MANY):
        producer.send_async(b"x", None)
    producer.flush()

    def waiting() -> list[dict[str, Any]]:
        return [
            limit
            for broker in cluster.brokers
            for limit in Api(broker.admin_url).get("/admin/v2/broker-stats/throttling")
            if limit["subscriptions"]
        ]

    (limit,) = found_soon(waiting)
    names = {"group": "ResourceGroup"}
    assert limit["level"] == f"{names.get(level, level.title())}DispatchRate"
    assert 0 < limit["messages"] <= 5
    (subscription,) = limit["subscriptions"]
    assert (subscription["name"], subscription["topic"]) == ("slow", topic)
    assert 0 < subscription["behind"] <= MANY
    stats = api.get(f"/admin/v2/persistent/{namespace}/t/stats")["subscriptions"]["slow"]
    if level != "group":
        assert stats[f"dispatchThrottledMsgEventsBy{level.title()}Limit"] >= 1
    owner = cluster.owner(topic)
    assert owner is not None
    metrics = Api(owner.admin_url)("GET", "/metrics").value
    assert (
        'counterpoise_dispatch_limit_waiting_subscriptions{cluster="standalone",level='
        + (f'"{limit["level"]}"')
        in metrics
    )
    reason = names.get(level, level) if level != "group" else "resource_group"
    (events,) = [
        line
        for line in metrics.splitlines()
        if line.startswith("pulsar_subscription_dispatch_throttled_msg_events{")
        and f'reason="{reason}"' in line
        and topic in line
    ]
    assert float(events.rpartition(" ")[2]) >= 1
    capsys.readouterr()
    assert main(["top", "--admin-url", cluster.admin_url, "--once"]) == 0
    shown = capsys.readouterr().out
    assert limit["level"].removesuffix("Rate") in shown
    assert f"of {topic}: " in shown
    api("DELETE", path)
    for _ in range(MANY):
        consumer.acknowledge(consumer.receive(30_000))
    assert found_soon(lambda: not waiting())
    client.close()


def test_a_connection_is_throttled_once_by_what_it_published_whether_it_is_read_or_not() -> None:
    """Not by what it has not read, nor while others have their turn."""
    producers = tuple(
        ThrottledProducer("p", address, "t", 3, 100, 1.0, 1) for address in ("read:1", "paused:1")
    )
    limit = LimitSnapshot("topicPublishRate", "t", 5, 0, 1, 9, 900, 2, 1.5, producers)
    paused = {reason: [f"{reason}:1"] for reason in PauseReason}
    paused[PauseReason.PUBLISH_RATE] = ["paused:1"]
    broker = SimpleNamespace(
        config=SimpleNamespace(cluster_name="c"),
        limits=lambda: [limit],
        listener=SimpleNamespace(paused=lambda: paused),
    )
    found = {each.name: each.value for each in figures(cast("Broker", broker))}
    assert found["pulsar_broker_throttled_connections"] == 3.0
    assert found["counterpoise_publish_limit_held_entries"] == 6
    assert found["counterpoise_publish_limit_held_bytes"] == 200
