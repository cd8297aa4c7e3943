"""Each figure that a broker keeps is shown under its own name, in the unit of that name."""

from collections import Counter
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from counterpoise.admin.metrics import balancing, topics
from counterpoise.admin.metrics import broker as whole
from counterpoise.admin.protected import concerns_system_topics
from counterpoise.admin.subscription_json import subscription_json
from counterpoise.admin.topic_json import log_stats_json, sum_of_stats, topic_stats_json
from counterpoise.broker.face import LimitLevel, PauseReason, PersistentTopic, SubscriptionType
from counterpoise.names.load_managers import EXTENSIBLE, MODULAR
from counterpoise.names.position import Position
from counterpoise.names.topic import TopicName


def meter(first: int) -> Any:
    """A meter whose four figures count up from a number; the average is half of it."""
    return SimpleNamespace(
        rate=first + 0.5, byte_rate=first + 1.5, messages=first + 2, bytes=first + 3,
        average_size=first / 2,
    )  # fmt: skip


def consumer(name: str, unacked: int, acked_ms: int, sent_ms: int, flow_ms: int) -> Any:
    request = SimpleNamespace(metadata={"a": "b"}, address="c:1", client_version="v")
    meters = SimpleNamespace(out=meter(100), redelivered=meter(110), acked=meter(120))
    return SimpleNamespace(
        name=name, unacked=unacked, last_acked_ms=acked_ms, last_sent_ms=sent_ms,
        last_flow_ms=flow_ms, meters=meters, request=request, permits=7, blocked=False,
        connected_since=1.5, entries_out=34,
    )  # fmt: skip


def subscription(*consumers: Any, flow: Any = None, dispatcher: object = None) -> Any:
    return SimpleNamespace(
        consumers=list(consumers), active=None, dispatcher=dispatcher, flow=flow,
        type=SubscriptionType.Shared, backlog=12, delayed=5, blocked=True, durable=True,
        meters=SimpleNamespace(out=meter(200), redelivered=meter(210), acked=meter(220)),
        acks=SimpleNamespace(range_count=lambda: 3), properties={"k": "v"},
        log=SimpleNamespace(begin=10, end=30, size=400), advanced_ms=60, expired_at=0.055,
    )  # fmt: skip


async def test_of_a_subscription() -> None:
    both = consumer("a", 3, 70, 50, 90), consumer("b", 4, 60, 80, 40)
    shown = await subscription_json(subscription(*both))
    assert shown["unackedMessages"] == 7
    of = ("Acked", "Consumed", "ConsumedFlow", "MarkDeleteAdvanced", "Expire")
    assert [shown[f"last{each}Timestamp"] for each in of] == [70, 80, 90, 60, 55]
    assert (shown["msgBacklog"], shown["msgDelayed"], shown["msgBacklogNoDelayed"]) == (12, 5, 7)
    assert shown["backlogSize"] == 12 * 400 // 20
    rates = [shown[f"{each}"] for each in ("msgRateOut", "msgThroughputOut", "msgRateRedeliver")]
    assert [*rates, shown["messageAckRate"]] == [200.5, 201.5, 210.5, 220.5]
    assert (shown["msgOutCounter"], shown["bytesOutCounter"]) == (202, 203)
    assert (shown["type"], shown["blockedSubscriptionOnUnackedMsgs"]) == ("None", True)
    [first, second] = shown["consumers"]
    assert (first["consumerName"], second["consumerName"]) == ("a", "b")
    assert (first["avgMessagesPerEntry"], first["availablePermits"]) == (3, 7)
    assert first["connectedSince"] == "1970-01-01T00:00:01.500Z"
    assert (await subscription_json(subscription()))["lastAckedTimestamp"] == 0


async def test_of_what_limits_delay() -> None:
    levels = {"Subscription": "SUBSCRIPTION", "Topic": "TOPIC", "Broker": "BROKER"}
    counts = {
        (LimitLevel[f"{level}_DISPATCH"], kind): number
        for number, (level, kind) in enumerate(
            ((level, kind) for level in levels.values() for kind in ("messages", "bytes")), 1
        )
    }
    waits = SimpleNamespace(level=LimitLevel.TOPIC_DISPATCH)
    flow = SimpleNamespace(events=counts, waits_at=waits)
    shown = await subscription_json(subscription(flow=flow, dispatcher=object()))
    for name, level in levels.items():
        for what, kind in (("Msg", "messages"), ("Bytes", "bytes")):
            counted = shown[f"dispatchThrottled{what}EventsBy{name}Limit"]
            assert counted == counts[LimitLevel[f"{level}_DISPATCH"], kind]
    assert shown["dispatchThrottledBy"] == "TopicDispatchRate"
    assert shown["type"] == "Shared"


async def test_of_a_topic_and_the_producers_that_wait() -> None:
    def producer(name: str, *, ready: bool, flow: Any = None) -> Any:
        request = SimpleNamespace(
            access_mode=SimpleNamespace(name="Shared"),
            properties={},
            address="p:1",
            client_version="v",
        )
        return SimpleNamespace(
            name=name, ready=ready, flow=flow, meter=meter(300), producer_id=1, request=request,
            connected_since=0.0, chunks=meter(400) if name == "a" else None,
        )  # fmt: skip

    waits = SimpleNamespace(level=LimitLevel.TOPIC_PUBLISH)
    flows = [SimpleNamespace(throttled_count=4, waits_at=waits)]
    flows += [SimpleNamespace(throttled_count=0, waits_at=None)]
    limits = SimpleNamespace(throttled_times=lambda _: 9, throttled_ns=lambda _: 2_500_000_000)
    producers = [producer("a", ready=True, flow=flows[0]), producer("b", ready=True, flow=flows[1])]
    producers += [producer("c", ready=False)]
    small, large = subscription(), subscription()
    small.backlog = 1
    topic = SimpleNamespace(
        subscriptions={"small": small, "large": large},
        meter_in=meter(10),
        meter_out=meter(20),
        producers=SimpleNamespace(all=lambda: iter(producers)),
        commons=SimpleNamespace(
            limits=limits, options=SimpleNamespace(sums_by_producer_name=False)
        ),
    )
    shown = await topic_stats_json(cast("Any", topic), "b:1")
    names = ("msgRateIn", "msgThroughputIn", "msgInCounter", "bytesInCounter")
    assert [shown[each] for each in names] == [10.5, 11.5, 12, 13]
    names = ("msgRateOut", "msgThroughputOut", "msgOutCounter", "bytesOutCounter")
    assert [shown[each] for each in names] == [20.5, 21.5, 22, 23]
    assert (shown["averageMsgSize"], shown["publishRateLimitedTimes"]) == (5.0, 9)
    assert shown["backlogSize"] == 240, "of the subscription with the most"
    assert (shown["waitingPublishers"], shown["ownerBroker"]) == (1, "b:1")
    limited, *others = shown["publishers"]
    assert [each["chunkedMessageRate"] for each in shown["publishers"]] == [400.5, 0.0, 0.0]
    assert (limited["rateLimitedTimes"], limited["rateLimitedSeconds"]) == (4, 2.5)
    assert limited["rateLimitedBy"] == "TopicPublishRate"
    assert not [each for each in others if "rateLimitedTimes" in each]
    more = [*shown["publishers"], {**limited, "producerName": "d"}]
    idle = {**shown, "averageMsgSize": 0.0, "publishers": more}
    total = await sum_of_stats([shown, {**shown, "averageMsgSize": 9.0}, idle])
    assert (total["averageMsgSize"], total["msgInCounter"]) == (7.0, 36)
    assert [each["producerName"] for each in total["publishers"]] == [*"abcd"]
    rates = [each["msgRateIn"] for each in (*shown["publishers"], *total["publishers"])]
    assert rates[3:] == [*(3 * each for each in rates[:3]), rates[0]]
    assert total["subscriptions"]["large"]["msgBacklog"] == 36
    topic.commons.options.sums_by_producer_name = True
    [_, b, _] = parted = (await topic_stats_json(cast("Any", topic), "b:1"))["publishers"]
    other = [b, {**b, "producerName": "d"}]
    total = await sum_of_stats([{**shown, "publishers": each} for each in (parted, other)])
    assert [each["producerName"] for each in total["publishers"]] == [*"abcd"], "by name"


def test_of_a_log() -> None:
    ledgers = [
        SimpleNamespace(ledger_id=n, entries=n + 1, size=10 * n, is_open=n == 5) for n in (4, 5)
    ]
    log: Any = SimpleNamespace(
        begin=100, end=111, size=90, ledgers=ledgers, position=lambda i: Position(5, i - 105)
    )
    shown = log_stats_json(log, 3, 1.0, "LedgerOpened")
    assert (shown["entriesAddedCounter"], shown["numberOfEntries"]) == (3, 11)
    assert (shown["totalSize"], shown["lastConfirmedEntry"]) == (90, "5:5")
    assert (shown["currentLedgerEntries"], shown["currentLedgerSize"]) == (6, 50)
    found = [(each["ledgerId"], each["entries"], each["size"]) for each in shown["ledgers"]]
    assert found == [(4, 5, 40), (5, 0, 0)]


def broker(**more: Any) -> Any:
    usage = SimpleNamespace(percent=40.0)
    report = SimpleNamespace(
        num_topics=1, num_producers=2, num_consumers=3, msg_rate_in=4.0, msg_rate_out=5.0,
        msg_throughput_in=6.0, msg_throughput_out=7.0, start_timestamp=8_500, last_stats={},
        max_resource_usage=0.9,
        **dict.fromkeys(("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out"), usage),
    )  # fmt: skip
    listener = SimpleNamespace(
        connections=3, connections_admitted=10, bytes_in=11, bytes_out=12,
        pauses=lambda: Counter({PauseReason.REQUESTS: 13}),
    )  # fmt: skip
    failures = Counter({"load persistent://a": 1, "load non-persistent://b": 2, "sweep": 4})
    config = SimpleNamespace(
        cluster_name="c",
        advertised_address="h",
        metrics=SimpleNamespace(bundles=False),
        filters=SimpleNamespace(load_manager_class=more.pop("manager", EXTENSIBLE)),
    )
    serving = SimpleNamespace(loaded={}, publish_latency=SimpleNamespace(entries=5, seconds=0.25))
    return SimpleNamespace(
        id="h:1", config=config, listener=listener, topics=serving, load_report=lambda: report,
        background=SimpleNamespace(failures=failures), **more,
    )  # fmt: skip


def test_of_a_broker() -> None:
    found = {
        (each.name, *(value for _, value in each.labels[1:])): each.value
        for each in whole.figures(broker())
    }
    for name, value in (
        ("pulsar_broker_topics_count", 1), ("pulsar_broker_producers_count", 2),
        ("pulsar_broker_consumers_count", 3), ("pulsar_broker_rate_in", 4),
        ("pulsar_broker_rate_out", 5), ("pulsar_broker_throughput_in", 6),
        ("pulsar_broker_throughput_out", 7), ("pulsar_broker_publish_latency_count", 5),
        ("pulsar_broker_publish_latency_sum", 250), ("process_start_time_seconds", 8.5),
        ("counterpoise_connection_received_bytes_total", 11),
        ("counterpoise_connection_sent_bytes_total", 12),
    ):  # fmt: skip
        assert found[(name,)] == value, name
    connections = {name[0]: value for name, value in found.items() if name[-1] == BROKERS}
    assert connections == {
        "pulsar_active_connections": 3,
        "pulsar_connection_created_total_count": 10,
        "pulsar_connection_closed_total_count": 7,
    }
    failures = "counterpoise_background_failures_total"
    assert (found[failures, "load"], found[failures, "sweep"]) == (3, 4)
    assert found["counterpoise_connection_pauses_total", PauseReason.REQUESTS.value] == 13


BROKERS = "broker_connection"


def topic_of(name: str, *subscriptions: Any, size: int = 0) -> Any:
    """A topic with storage of this size, and its subscriptions by number."""
    made = Mock(spec=PersistentTopic)
    made.name, made.transactions = TopicName.parse(name), None
    made.log = SimpleNamespace(size=size, lost=[SimpleNamespace(entries=2)] * 3)
    made.meter_in, made.meter_out = meter(10), meter(20)
    made.producers = SimpleNamespace(all=lambda: [1, 2])
    made.commons = SimpleNamespace(limits=SimpleNamespace(throttled_times=lambda _: 9))
    made.subscriptions = {str(number): each for number, each in enumerate(subscriptions)}
    for each in subscriptions:
        each.transactions = None
    return made


def with_topics(*topics: Any, by_topic: bool = True) -> Any:
    made = broker()
    made.topics.loaded = {each.name: each for each in topics}
    made.config.metrics = SimpleNamespace(topics=by_topic, consumers=True, bundles=False)
    return made


def test_of_what_a_broker_stores_and_its_topics_wait_for() -> None:
    one = topic_of("persistent://t/n/a", subscription(), subscription(), size=100)
    two = topic_of("persistent://t/m/b", subscription(), size=30)
    samples = [*whole.figures(with_topics(one, two))]
    found = {each.name: each.value for each in samples}
    assert found["pulsar_broker_storage_size"] == 130
    assert found["pulsar_broker_subscriptions_count"] == 3
    assert found["pulsar_broker_msg_backlog"] == 36
    counts = {dict(each.labels).get("namespace"): each.value for each in samples
              if each.name == "pulsar_topics_count"}  # fmt: skip
    assert counts == {"t/n": 1, "t/m": 1}
    labels = next(each.labels for each in samples if each.name == "pulsar_active_connections")
    assert labels == (("cluster", "c"), ("broker", "h"), ("metric", BROKERS))


def test_of_topics_their_subscriptions_and_consumers() -> None:
    both = consumer("a", 3, 70, 50, 90), consumer("b", 4, 60, 80, 40)
    for number, each in enumerate(both):
        each.request.consumer_id = number
    counts = {(level, kind): 10 * at + len(kind) for at, level in enumerate(LimitLevel)
              for kind in ("messages", "bytes")}  # fmt: skip
    flow = SimpleNamespace(events=counts, waits_at=None)
    one = topic_of("persistent://t/n/a", subscription(*both, flow=flow), subscription(), size=100)
    found = {}
    for each in (it for piece in topics.pieces(with_topics(one)) for it in piece):
        labels = dict(each.labels)
        found[
            each.name, labels.get("subscription"), labels.get("consumer_name"), labels.get("reason")
        ] = each.value
    of_topic = {name: value for (name, *more), value in found.items() if more == [None] * 3}
    assert of_topic == {
        "pulsar_rate_in": 10.5, "pulsar_throughput_in": 11.5, "pulsar_rate_out": 20.5,
        "pulsar_throughput_out": 21.5, "pulsar_in_messages_total": 12, "pulsar_in_bytes_total": 13,
        "pulsar_publish_rate_limit_times": 9, "pulsar_producers_count": 2,
        "pulsar_subscriptions_count": 2, "pulsar_consumers_count": 2, "pulsar_msg_backlog": 24,
        "pulsar_storage_size": 100, "pulsar_storage_logical_size": 100,
        "pulsar_storage_backlog_size": 240, "counterpoise_storage_lost_entries": 6,
        **{name: value for name, value in of_topic.items() if "txn" in name},
    }  # fmt: skip
    begin = "pulsar_subscription_"
    shown = {
        name.removeprefix(begin): value
        for (name, *more), value in found.items()
        if more == ["0", None, None] and name.startswith(begin)
    }
    wanted = {
        "back_log": 12, "back_log_no_delayed": 7, "delayed": 5, "msg_rate_out": 200.5,
        "msg_throughput_out": 201.5, "msg_rate_redeliver": 210.5, "msg_ack_rate": 220.5,
        "unacked_messages": 7, "blocked_on_unacked_messages": 1, "consumers_count": 2,
        "last_acked_timestamp": 70, "last_consumed_timestamp": 80,
        "last_consumed_flow_timestamp": 90,
    }  # fmt: skip
    assert {name: shown[name] for name in wanted} == wanted
    assert found["pulsar_out_messages_total", "0", None, None] == 202
    assert found["pulsar_out_bytes_total", "0", None, None] == 203
    for what, kind in (("msg", "messages"), ("bytes", "bytes")):
        events = f"pulsar_subscription_dispatch_throttled_{what}_events"
        by_reason = {more[2]: value for (name, *more), value in found.items()
                     if (name, more[0]) == (events, "0")}  # fmt: skip
        assert by_reason == {
            reason: counts[LimitLevel[f"{level}_DISPATCH"], kind]
            for reason, level in (
                ("subscription", "SUBSCRIPTION"),
                ("topic", "TOPIC"),
                ("resource_group", "GROUP"),
                ("broker", "BROKER"),
            )
        }
        assert (events, "1", None, "resource_group") not in found, "none, and not in Pulsar"
        assert found[events, "1", None, "topic"] == 0
    begin = "pulsar_consumer_"
    shown = {name.removeprefix(begin): value for (name, *more), value in found.items()
             if more[:2] == ["0", "a"]}  # fmt: skip
    assert shown == {
        "msg_rate_out": 100.5, "msg_throughput_out": 101.5, "msg_rate_redeliver": 110.5,
        "msg_ack_rate": 120.5, "unacked_messages": 3, "blocked_on_unacked_messages": 0,
        "available_permits": 7,
    }  # fmt: skip


def test_of_namespaces_is_the_sum_of_their_topics() -> None:
    names = ("persistent://t/n/a", "persistent://t/n/b", "persistent://t/m/c")
    whole_of = with_topics(*(topic_of(each, subscription()) for each in names), by_topic=False)
    found = {
        (each.name, dict(each.labels)["namespace"]): each.value
        for piece in topics.pieces(whole_of)
        for each in piece
    }
    for name, one in (("pulsar_in_messages_total", 12), ("pulsar_out_bytes_total", 23),
                      ("pulsar_out_messages_total", 22), ("pulsar_msg_backlog", 12)):  # fmt: skip
        assert (found[name, "t/n"], found[name, "t/m"]) == (2 * one, one)


def tally() -> Any:
    return SimpleNamespace(
        shed_brokers=2, unloaded=Counter(Success=10, Failure=1), split=Counter(Success=5),
        ordered=6, shed=Counter({("Success", "Overloaded"): 6}), split_for=Counter(Topics=3),
        assigned=Counter(Success=7, Skip=1), orphans=8, lookups=Counter(), published=Counter(),
        records_read=Counter(), cleanups=Counter(), tombstones=9,
    )  # fmt: skip


@pytest.mark.parametrize("leads", [True, False])
@pytest.mark.parametrize("manager", [EXTENSIBLE, MODULAR])
def test_of_balancing(leads: bool, manager: str) -> None:
    data = SimpleNamespace(usage_ema=lambda: {"h:1": 0.2, "h:2": 0.6, "h:3": 0.4})
    owned = SimpleNamespace(owned=lambda: ["x", "y"])
    one = broker(tally=tally(), is_leader=leads, load_data=data, namespaces=owned, manager=manager)
    found = {}
    for each in balancing.figures(one):
        labels = [value for name, value in each.labels if name not in ("cluster", "broker")]
        found[each.name, *labels[1:]] = each.value
    assert found["pulsar_lb_cpu_usage",] == 40.0
    assert found["pulsar_lb_unload_broker_total",] == 2
    assert found["pulsar_lb_unload_bundle_total",] == 10
    unloads, splits = "pulsar_lb_unload_broker_breakdown_total", "pulsar_lb_bundles_split_breakdown"
    assert found[unloads, "Success", "Admin"] == 4, "without what the leader ordered"
    assert found[unloads, "Success", "Overloaded"] == 6
    assert found[unloads, "Failure", "Unknown"] == 1
    assert found[f"{splits}_total", "Success", "Admin"] == 2
    assert found[f"{splits}_total", "Success", "Topics"] == 3
    assert found["pulsar_lb_assign_broker_breakdown_total", "Failure"] == 0
    assert found["counterpoise_owned_bundles",] == 2
    assert found["counterpoise_ownership_repairs_total",] == 8
    assert found["counterpoise_leader",] == leads
    stats = "pulsar_lb_resource_usage_stats"
    if manager == EXTENSIBLE:
        assert found["pulsar_lb_resource_usage", "max_ema"] == 0.2
        assert found["pulsar_lb_resource_usage", "max"] == 0.9
        assert found["pulsar_sunit_state_chn_su_tombstone_cleanup_ops_total",] == 9
    shown = manager == EXTENSIBLE and leads
    assert ((stats, "max_ema", "avg") in found) is shown
    if shown:
        assert found[stats, "max_ema", "avg"] == pytest.approx(0.4)
        assert found[stats, "max_ema", "std"] == pytest.approx(0.1633, abs=1e-4)


@pytest.mark.parametrize(
    ("method", "path", "names", "concerned"),
    [
        ("DELETE", "/x", {"tenant": "pulsar"}, True),
        ("DELETE", "/x", {"tenant": "pulsar", "namespace": "system"}, True),
        ("DELETE", "/x", {"tenant": "pulsar", "namespace": "other"}, False),
        ("DELETE", "/x", {"tenant": "public", "namespace": "system"}, False),
        ("DELETE", "/x", {}, False),
        ("GET", "/x", {"tenant": "pulsar", "namespace": "system"}, False),
        ("PUT", "/x/unload", {"tenant": "pulsar", "namespace": "system"}, False),
        ("PUT", "/x/split", {"tenant": "pulsar", "namespace": "system"}, False),
    ],
)
def test_which_requests_change_the_brokers_own_topics(
    method: str, path: str, names: dict[str, str], concerned: bool
) -> None:
    assert concerns_system_topics(method, path, names) is concerned
