"""Which load manager a broker runs is found out, and each is read in its own way."""

import json
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from counterpoise.load.fields import LoadDataError
from counterpoise.names.load_managers import EXTENSIBLE, MODULAR
from counterpoise.pipeline.bundle_lookup import name_in
from counterpoise.pipeline.collect import extensible, modular
from counterpoise.pipeline.collect.admin import Admin, AdminOptions, RefusedError
from counterpoise.pipeline.collect.collector import Collector
from counterpoise.pipeline.collect.identity import Identity, identify
from counterpoise.pipeline.collect.poll_log import PollLog
from counterpoise.pipeline.collect.restarted import BrokerHealth, health_of
from counterpoise.pipeline.collect.serving import CHANNEL_NOT_STARTED, PROBE
from tests.pipeline.fake_cluster import FakeBroker, FakeCluster, bundle_name

RECORDED = Path(__file__).with_name("recorded")
NOW = 1_700_000_000_000
RUNTIME = "/admin/v2/brokers/configuration/runtime"
LOAD_REPORT = "/admin/v2/broker-stats/load-report"
TOPICS = "/admin/v2/broker-stats/topics"
METRICS = "/admin/v2/broker-stats/metrics"


def recorded(name: str) -> bytes:
    return (RECORDED / name).read_bytes()


def as_extensible(broker: FakeBroker) -> FakeBroker:
    """Make a broker answer as one of Apache Pulsar 4.0.7 did."""
    settings = {"loadManagerClassName": EXTENSIBLE, "statsUpdateFrequencyInSecs": "10"}
    broker.answers |= {
        RUNTIME: (200, json.dumps(settings).encode()),
        LOAD_REPORT: (500, recorded("extensible-load-report.json")),
        TOPICS: (200, recorded("extensible-topics.json")),
        METRICS: (200, recorded("extensible-metrics.json")),
        "/metrics/": (200, recorded("extensible-metrics.txt")),
        "/admin/v2/brokers/version": (200, b"4.0.7"),
    }
    return broker


def with_own_topics(broker: FakeBroker) -> None:
    """Make a broker answer so, with the bundles that it has in its cluster."""
    del as_extensible(broker).answers[TOPICS]


def collector(http: aiohttp.ClientSession, cluster: FakeCluster) -> Collector:
    return Collector(http, [cluster.admin_url], lambda: NOW)


async def test_a_broker_of_the_extensible_manager_is_read_by_its_topics(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    broker = as_extensible(await cluster.add_broker())
    rows = await collector(http, cluster).poll()
    assert [str(kind) for kind in rows["kind"]][:2] == ["poll", "broker"]
    assert LOAD_REPORT not in broker.asked, "it would write a stack trace into its log"
    one = rows.take(rows["kind"] == "broker")
    assert one["load_manager"][0] == EXTENSIBLE
    assert one["broker_version"][0] == "4.0.7"
    assert (one["cpu_limit"][0], one["direct_memory_usage"][0]) == (100.0, 3.125)
    assert one["load_average"][0] == 0.5858182254026324
    # By hand from the recorded answer: topics t6 and t2 are in one bundle.
    bundles = rows.take(rows["kind"] == "bundle")
    where = bundles["bundle"] == "public/default/0x50000000_0x60000000"
    hot = bundles.take(where)
    assert hot["msg_rate_in"][0] == pytest.approx(21.208 + 47.468, abs=1e-3)
    assert hot["msg_throughput_out"][0] == pytest.approx(21834.388 + 48887.922, abs=1e-2)
    assert (hot["topics"][0], hot["producers"][0], hot["consumers"][0]) == (2, 2, 2)
    assert one["msg_throughput_in"][0] == pytest.approx(float(bundles["msg_throughput_in"].sum()))
    assert one["bundles"][0] == len(bundles) == 7


async def test_where_the_configuration_is_refused_a_broker_shows_its_manager_itself(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    broker = as_extensible(await cluster.add_broker())
    broker.answers[RUNTIME] = (401, b"not for you")
    collect = collector(http, cluster)
    rows = await collect.poll()
    assert rows["load_manager"][1] == EXTENSIBLE
    await collect.poll()
    assert broker.asked.count(LOAD_REPORT) == 1, "once it is known, it is not asked for again"


async def test_the_usage_comes_from_the_metrics_page_where_json_is_not_to_be_had(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    broker = as_extensible(await cluster.add_broker())
    broker.answers[METRICS] = (403, b"")
    rows = await collector(http, cluster).poll()
    assert rows["cpu_usage"][1] == pytest.approx(68.03488)
    assert rows["memory_usage"][1] == pytest.approx(20.303642)


async def test_the_same_topics_are_one_measurement_and_cost_no_metrics(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    broker = as_extensible(await cluster.add_broker())
    collect = collector(http, cluster)
    await collect.poll()
    again = await collect.poll()
    assert [str(kind) for kind in again["kind"]] == ["poll", "broker"]
    assert not again["fresh"][1]
    assert broker.asked.count(METRICS) == 1


async def test_a_broker_that_changed_its_manager_is_read_in_the_new_way(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    broker = await cluster.add_broker()
    broker.answers[RUNTIME] = (200, json.dumps({"loadManagerClassName": MODULAR}).encode())
    collect = collector(http, cluster)
    await collect.poll()
    as_extensible(broker)
    # Its configuration misleads: it still names the manager that was there before.
    broker.answers[RUNTIME] = (200, json.dumps({"loadManagerClassName": MODULAR}).encode())
    rows = await collect.poll()
    assert rows["load_manager"][1] == EXTENSIBLE


async def test_a_cluster_with_both_managers_is_read_and_said_so(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    one, two = await cluster.add_broker(), as_extensible(await cluster.add_broker())
    cluster.carry(one, bundle_name(1), 500.0)
    one.says = {**one.report().to_json(), "loadManagerClassName": MODULAR}
    logged: list[str] = []
    seen, collect = PollLog(logged.append), collector(http, cluster)
    for _ in range(3):
        seen.log_poll(await collect.poll())
    assert len(logged) == 3, logged
    assert f"{one.name}: ModularLoadManagerImpl, read from broker-stats/load-report" in logged
    assert f"{two.name}: ExtensibleLoadManagerImpl, read from broker-stats/topics" in logged


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{", "not JSON"),
        (b"[]", "an object"),
        (b'{"a/b": {"0x0_0x1": {"persistent": {"t": {"msgRateIn": "fast"}}}}}', "msgRateIn"),
        (b'{"a/b": {"0x0_0x1": {"persistent": {"t": {"producerCount": 1.5}}}}}', "producerCount"),
        (b'{"a/b": {"0x0_0x1": {"persistent": {"t": {"subscriptions": []}}}}}', "subscriptions"),
        (b'{"a/b": {"0x0_0x1": 5}}', "0x0_0x1"),
    ],
)
def test_topics_that_make_no_sense_are_named(body: bytes, says: str) -> None:
    with pytest.raises((RefusedError, LoadDataError), match=says):
        extensible.parse(body, "b1:80", {})


def test_the_hosts_usage_is_read_from_the_metrics_of_either_kind() -> None:
    """What Apache Pulsar answered; the text is only asked for where the first is refused."""
    by_json = extensible.usage_of_json(recorded("extensible-metrics.json"))
    by_text = extensible.usage_of_text(recorded("extensible-metrics.txt"))
    assert by_json["load_average"] == 0.5858182254026324
    assert by_text["load_average"] == 0.6803488159179687
    assert by_json.keys() == by_text.keys()
    assert by_json["direct_memory_limit"] == by_text["direct_memory_limit"] > 0


@pytest.mark.parametrize("body", [b"{}", b"[5]", b"nothing", b'[{"metrics": []}]'])
def test_metrics_without_the_hosts_usage_are_refused(body: bytes) -> None:
    with pytest.raises(RefusedError):
        extensible.usage_of_json(body)


def test_a_report_with_numbers_that_json_cannot_write_is_read() -> None:
    stats = {"msgRateIn": "NaN", "msgThroughputIn": 5, "topics": 2.0, "producerCount": None}
    body = json.dumps({"lastUpdate": 7, "lastStats": {"a/b/0x0_0x1": stats}}).encode()
    bundles = modular.parse(body, "b1:80").bundles
    assert str(bundles["msg_rate_in"][0]) == "nan"
    assert (bundles["msg_throughput_in"][0], bundles["topics"][0]) == (5.0, 2)


@pytest.mark.parametrize("wrong", ["5", True, [], {}])
def test_a_rate_that_is_no_number_is_named(wrong: object) -> None:
    body = json.dumps({"lastStats": {"a/b/0x0_0x1": {"msgRateIn": wrong}}}).encode()
    with pytest.raises(LoadDataError, match="msgRateIn"):
        modular.parse(body, "b1:80")


async def test_a_broker_that_fails_to_report_is_not_taken_for_one_of_the_other_manager(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    broker = await cluster.add_broker()
    broker.answers[RUNTIME] = (200, json.dumps({"loadManagerClassName": MODULAR}).encode())
    broker.answers[LOAD_REPORT] = (500, b"out of memory")
    collect = collector(http, cluster)
    rows = await collect.poll()
    assert rows["note"].tolist() == ["", "HTTP 500 out of memory"]
    del broker.answers[LOAD_REPORT]
    rows = await collect.poll()
    assert "broker" in rows["kind"].tolist()
    assert TOPICS not in broker.asked


def test_an_average_that_no_broker_can_have_is_none() -> None:
    groups = json.loads(recorded("extensible-metrics.json"))
    [average] = [each for each in groups if each["dimensions"].get("feature") == "max_ema"]
    for said in (-0.1, "NaN", "Infinity", "much", None):
        average["metrics"]["brk_lb_resource_usage"] = said
        usage = extensible.usage_of_json(json.dumps(groups).encode())
        assert usage["load_average"] == 0.0


def test_a_subscription_without_a_list_of_consumers_has_none() -> None:
    topic = {"subscriptions": {"a": {"consumers": None}, "b": {"consumers": [{}]}, "c": {}}}
    body = {"t/n": {"0x00000000_0xffffffff": {"persistent": {"persistent://t/n/x": topic}}}}
    found = extensible.parse(json.dumps(body).encode(), "b1:80", {})
    assert found.broker["consumers"] == 1


async def test_a_broker_whose_state_channel_has_not_started_is_a_gap_until_it_has(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    """It answers lookups of its own namespaces, and would be taken for an empty destination."""
    serving, joining = [as_extensible(await cluster.add_broker()) for _ in range(2)]
    collect = collector(http, cluster)
    joining.channel_waits = True
    rows = await collect.poll()
    assert list(rows["note"][rows["broker"] == joining.name]) == [CHANNEL_NOT_STARTED]
    joining.channel_waits = False
    rows = await collect.poll()
    assert joining.name in rows["broker"][rows["kind"] == "broker"]
    in_use = next(path for path in joining.asked if PROBE in path and joining.name not in path)
    joining.answers[in_use] = (500, b"Invalid channel state:LeaderElectionServiceStarted")
    rows = await collect.poll()
    assert list(rows["note"][rows["broker"] == joining.name]) == [CHANNEL_NOT_STARTED]
    assert serving.name in rows["broker"][rows["kind"] == "broker"]
    joining.answers[in_use] = (500, b"another fault, which a report outweighs")
    rows = await collect.poll()
    assert joining.name in rows["broker"][rows["kind"] == "broker"]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"loadManagerClassName": EXTENSIBLE, "statsUpdateFrequencyInSecs": "10"},
         Identity(EXTENSIBLE, 10_000, "4.0.7")),
        ({"loadManagerClassName": MODULAR, "statsUpdateFrequencyInSecs": 7.5},
         Identity(MODULAR, 7500)),
        ({"loadManagerClassName": MODULAR}, Identity(MODULAR, 60_000)),
        ({"loadManagerClassName": MODULAR, "statsUpdateFrequencyInSecs": "often"},
         Identity(EXTENSIBLE, 60_000, "4.0.7")),
        ({}, Identity(EXTENSIBLE, 60_000, "4.0.7")),
    ],
)  # fmt: skip
async def test_a_broker_is_known_by_its_settings_or_by_what_it_refuses(
    cluster: FakeCluster, http: aiohttp.ClientSession, settings: object, expected: Identity
) -> None:
    broker = as_extensible(await cluster.add_broker())
    broker.answers[RUNTIME] = (200, json.dumps(settings).encode())
    admin = Admin(http, AdminOptions())
    assert await identify(admin, f"http://{broker.name}") == expected


async def test_a_topic_in_use_is_of_a_bundle_with_load_in_a_namespace_that_may_be_moved(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    """A lookup of another one would give its bundle an owner."""
    broker, collect = as_extensible(await cluster.add_broker()), collector(http, cluster)
    body = dict[str, object]()
    for namespace, span, rate, known in (
        ("pulsar/system", "0x00000000_0xffffffff", 9.0, ""),
        ("t/idle", "0x00000000_0xffffffff", 0.0, ""),
        ("t/n", "0x00000000_0xffffffff", 5.0, name_in("t/n/0x00000000_0xffffffff")),
    ):
        topics = {f"persistent://{namespace}/x": {"msgRateIn": rate}}
        body[namespace] = {span: {"persistent": topics}}
        broker.answers[TOPICS] = (200, json.dumps(body).encode())
        await collect.poll()
        assert collect.name_in_use() == known


@pytest.mark.parametrize(
    ("started_s", "version", "expected"),
    [
        (1_700_000_000.25, "4.0.7", BrokerHealth(1_700_000_000_250, "4.0.7")),
        (0.0, "4.0.7", BrokerHealth(0, "4.0.7")),
        (5.0, " ", BrokerHealth(5000, "", "{} does not say its version")),
    ],
)
async def test_a_broker_says_since_when_it_runs_and_why_it_gets_no_bundles(
    cluster: FakeCluster,
    http: aiohttp.ClientSession,
    started_s: float,
    version: str,
    expected: BrokerHealth,
) -> None:
    broker = await cluster.add_broker()
    broker.started_s, broker.version = started_s, version
    where = f"http://{broker.name}"
    found = await health_of(Admin(http, AdminOptions()), where, broker.name, "")
    assert found == replace(expected, trouble=expected.trouble.format(broker.name))
    assert found.answers
