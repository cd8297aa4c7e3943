"""Planted trouble on clusters that answer: alerts, remedies on request, metrics, exit status."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from types import SimpleNamespace

import aiohttp
import pulsar
import pytest

from counterpoise import Cluster
from counterpoise.app.main import full_parser, main
from counterpoise.app.verbs.watchdog import _look
from counterpoise.decide.watchdog.observation import ChannelRecord, WatchdogFinding, WatchdogOptions
from counterpoise.names.load_managers import EXTENSIBLE, MODULAR
from counterpoise.pipeline.bundle_lookup import BundleLookup
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.collect.admin import Admin, AdminOptions
from counterpoise.pipeline.collect.collector import Collector
from counterpoise.pipeline.collect.owned import Ownership, could_be_harmed
from counterpoise.pipeline.watch.metrics import Metrics
from counterpoise.pipeline.watchdog.channel import Channel
from counterpoise.pipeline.watchdog.observer import Observer, ReadChannel
from counterpoise.pipeline.watchdog.records import Written, holds_after, written
from counterpoise.pipeline.watchdog.reported import Reported
from counterpoise.pipeline.watchdog.watchdog import Watchdog, alert_of
from tests.pipeline.fake_cluster import CLUSTER, FakeBroker, FakeCluster, bundle_name

A, B = bundle_name(0), bundle_name(1)


@pytest.fixture
async def two(cluster: FakeCluster) -> FakeCluster:
    first, second = [await cluster.add_broker() for _ in range(2)]
    cluster.carry(first, A, 100.0)
    cluster.carry(second, B, 100.0)
    for broker in cluster.brokers:
        leads(broker, first.name)
    return cluster


def leads(broker: FakeBroker, leader: str) -> None:
    said = json.dumps({"serviceUrl": f"http://{leader}", "brokerId": leader}).encode()
    broker.answers["/admin/v2/brokers/leaderBroker"] = (200, said)


def owns(cluster: FakeCluster, broker: FakeBroker, *bundles: str, active: bool = True) -> None:
    path = f"/admin/v2/brokers/{CLUSTER}/{broker.name}/ownedNamespaces"
    state = {"broker_assignment": "shared", "is_active": active}
    broker.answers[path] = (200, json.dumps(dict.fromkeys(bundles, state)).encode())


class Dog:
    """A watchdog of no patience, and what it said."""

    def __init__(
        self,
        cluster: FakeCluster,
        http: aiohttp.ClientSession,
        *,
        remedies: bool = False,
        channel: ReadChannel | None = None,
        clock_ms: Callable[[], int] = wall_clock_ms,
        timeout_s: float = 10.0,
    ) -> None:
        admin = Admin(http, options := AdminOptions(timeout_s=timeout_s))
        addresses = (cluster.admin_url,)
        self._collector = Collector(http, addresses, clock_ms, options=options)
        self.said: list[str] = []
        self.metrics = Metrics(wall_clock_ms, 5.0)
        looker = Observer(admin, addresses, channel)
        self.dog = Watchdog(
            http, BundleLookup(admin, "http://{}".format), looker, "http://{}".format,
            self.said.append,
            WatchdogOptions(patience_ms=0),
            remedies, self.metrics,
        )  # fmt: skip

    async def look(self) -> list[str]:
        """What is said at this look."""
        self.said.clear()
        await self.dog.judge_poll(await self._collector.poll())
        return list(self.said)


async def test_nothing_is_said_of_a_cluster_that_is_well(
    two: FakeCluster, http: aiohttp.ClientSession
) -> None:
    dog = Dog(two, http)
    assert await dog.look() == await dog.look() == []


async def test_two_owners_are_said_once_and_when_it_is_over(
    two: FakeCluster, http: aiohttp.ClientSession
) -> None:
    dog = Dog(two, http, remedies=True)
    owns(two, two.brokers[1], A, B)
    [alert] = await dog.look()
    assert alert.startswith(f"ALERT two-owners: {A} is owned by ")
    assert await dog.look() == []
    assert two.unloads == [], "only a person can say which one is to stop"
    owns(two, two.brokers[1], B)
    assert await dog.look() == [f"over: two-owners of {A}"]


async def test_an_unowned_bundle_is_looked_up_on_request(
    two: FakeCluster, http: aiohttp.ClientSession
) -> None:
    dog = Dog(two, http)
    await dog.look()
    two.owners[A] = ""
    two.report_time += 1
    [alert] = await dog.look()
    assert f"ALERT no-owner: no broker owns {A}, which carried 100 B/s" in alert
    assert two.lookups == []
    helping = Dog(two, http, remedies=True)
    helping.dog.memory = dog.dog.memory
    alert, done = await helping.look()
    assert done.startswith(f"remedy for {A}: lookup at ")
    assert two.owners[A] in two.names
    assert await helping.look() == [f"over: no-owner of {A}"]


async def test_a_bundle_that_its_owner_does_not_serve_is_unloaded_on_request(
    two: FakeCluster, http: aiohttp.ClientSession
) -> None:
    owns(two, two.brokers[0], A, active=False)
    assert len(await Dog(two, http).look()) == 1
    assert two.unloads == []
    two.lose_destination = False
    alert, done = await Dog(two, http, remedies=True).look()
    assert "ALERT in-flight" in alert
    assert f"remedy for {A}: unload at {two.names[0]} is done" in done
    assert [bundle for bundle, _ in two.unloads] == [A]


@pytest.mark.parametrize("status", [400, 409, 500])
async def test_a_remedy_that_fails_says_what_the_cluster_said(
    two: FakeCluster, http: aiohttp.ClientSession, status: int
) -> None:
    owns(two, two.brokers[0], A, active=False)
    two.refuse_unload = status
    _, done = await Dog(two, http, remedies=True).look()
    assert f"failed: HTTP {status}" in done


async def test_leaders_are_asked_for_at_every_broker(
    two: FakeCluster, http: aiohttp.ClientSession
) -> None:
    leads(two.brokers[1], two.names[1])
    [alert] = await Dog(two, http).look()
    assert "ALERT several-leaders" in alert
    for broker in two.brokers:
        broker.answers["/admin/v2/brokers/leaderBroker"] = (404, b"Couldn't find leader broker")
    [alert] = await Dog(two, http).look()
    assert "ALERT no-leader: no broker leads" in alert


@pytest.fixture
def apaches(two: FakeCluster) -> FakeCluster:
    """The same of Apache's, which could be stopped by being asked what they own."""
    two.version, two.load_manager = "4.0.7", MODULAR
    two.takes_s = 0.01
    return two


def asked_for_all(cluster: FakeCluster) -> bool:
    return any("ownedNamespaces" in path for broker in cluster.brokers for path in broker.asked)


async def test_apaches_brokers_are_asked_bundle_by_bundle_alone(
    apaches: FakeCluster, http: aiohttp.ClientSession
) -> None:
    dog = Dog(apaches, http)
    assert await dog.look() == []
    apaches.brokers[1].usurps.add(A)
    apaches.report_time += 1
    [alert] = await dog.look()
    first, second = sorted(apaches.names)
    assert alert.startswith(f"ALERT two-owners: {A} is owned by {first} and {second} at once")
    apaches.brokers[1].usurps.clear()
    apaches.report_time += 1
    assert await dog.look() == [f"over: two-owners of {A}"]
    assert not asked_for_all(apaches)
    assert apaches.lookups == [], "a lookup would give an unowned bundle an owner"


async def test_an_old_report_makes_no_second_owner(
    apaches: FakeCluster, http: aiohttp.ClientSession
) -> None:
    dog = Dog(apaches, http)
    first, second = apaches.brokers
    first.says = first.report().to_json()  # what it goes on saying, for a minute
    apaches.carry(second, A, 100.0)
    apaches.report_time += 1
    assert await dog.look() == []
    assert await dog.look() == []


async def test_what_apaches_brokers_do_not_release_is_found_by_and_by(
    apaches: FakeCluster, http: aiohttp.ClientSession
) -> None:
    dog = Dog(apaches, http)
    await dog.look()
    apaches.unloading.add(A)
    [alert] = await dog.look()
    assert f"ALERT in-flight: {apaches.names[0]} has {A} and neither serves it" in alert
    apaches.unloading.clear()
    assert await dog.look() == [f"over: in-flight of {A}"]


async def test_an_unowned_bundle_is_found_at_apaches_brokers(
    apaches: FakeCluster, http: aiohttp.ClientSession
) -> None:
    dog = Dog(apaches, http, remedies=True)
    await dog.look()
    apaches.owners[A] = ""
    apaches.report_time += 1
    alert, done = await dog.look()
    assert f"ALERT no-owner: no broker owns {A}" in alert
    assert done.startswith(f"remedy for {A}: lookup at ")
    assert await dog.look() == [f"over: no-owner of {A}"]
    assert not asked_for_all(apaches)


async def test_a_look_asks_for_so_many_bundles_and_for_each_in_its_turn(
    apaches: FakeCluster, http: aiohttp.ClientSession
) -> None:
    first = apaches.brokers[0]
    for number in range(2, 7):
        apaches.carry(first, bundle_name(number), 10.0)
    apaches.unloading.add(bundle_name(6))
    now_ms = wall_clock_ms()
    collector = Collector(http, (apaches.admin_url,), wall_clock_ms)
    reported = Reported(Ownership(Admin(http, AdminOptions()), "http://{}".format), 2)
    asked = [0]
    for look in range(4):
        reported.add_poll(await collector.poll())
        owned, silent = await reported.owned(apaches.names, now_ms + look)
        asked.append(sum("/non-persistent/" in p for b in apaches.brokers for p in b.asked))
        assert not silent
        assert {bundle for each in owned.values() for bundle in each} == apaches.owners.keys()
    assert [after - before for before, after in pairwise(asked)] == [2, 2, 2, 2]
    assert not owned[first.name][bundle_name(6)].active


async def test_who_does_not_say_whose_a_bundle_is_counts_as_silent(
    apaches: FakeCluster, http: aiohttp.ClientSession
) -> None:
    path = f"/admin/v2/non-persistent/{B}"
    apaches.brokers[1].answers[path] = (503, b"not now")
    [alert] = await Dog(apaches, http).look()
    assert f"ALERT not-serving: {apaches.names[1]} " in alert
    assert "HTTP 503 not now" in alert


@pytest.mark.parametrize(
    ("manager", "version", "harmed"),
    [(MODULAR, "4.0.7", True), (MODULAR, "0.1.0", False), (EXTENSIBLE, "4.0.7", False),
     (MODULAR, "", True), ("", "4.2.4-SNAPSHOT", True), (MODULAR, '"0.1.0"', False)],
)  # fmt: skip
def test_who_is_not_known_to_bear_the_question_is_spared(
    manager: str, version: str, harmed: bool
) -> None:
    assert could_be_harmed(manager, version) is harmed


async def test_a_broker_that_does_not_answer_is_named_with_what_it_owns(
    two: FakeCluster, http: aiohttp.ClientSession
) -> None:
    dog = Dog(two, http)
    await dog.look()
    two.brokers[1].silent = True
    [alert] = await dog.look()
    assert f"ALERT not-serving: {two.names[1]} owns 1 bundles" in alert
    assert "HTTP 503 not now" in alert


async def test_a_broker_that_serves_no_lookups_is_one_finding_that_ends_with_it(
    two: FakeCluster, http: aiohttp.ClientSession
) -> None:
    """Its report and its list of brokers are as ever; it leads, and a bundle sits on it."""
    blocked = two.brokers[0]
    dog = Dog(two, http, timeout_s=0.3)
    assert await dog.look() == []
    blocked.blocked = asyncio.Event()
    [alert] = await dog.look()
    assert alert.startswith(f"ALERT not-serving: {blocked.name} owns 1 bundles")
    assert "serves no lookups" in alert
    assert "it leads" in alert
    assert "restart it" in alert
    assert await dog.look() == []
    blocked.blocked.set()
    while not (said := await dog.look()):
        pass
    assert said == [f"over: not-serving of {blocked.name}"]


async def test_a_deleted_namespace_is_not_missed(
    two: FakeCluster, http: aiohttp.ClientSession
) -> None:
    dog = Dog(two, http)
    other = [bundle_name(number, "public/other") for number in range(18)]
    for bundle in other:
        two.carry(two.brokers[0], bundle, 10.0)
    two.report_time += 1
    assert await dog.look() == []
    for bundle in other:
        del two.owners[bundle], two.loads[bundle]
    two.report_time += 1
    assert await dog.look() == await dog.look() == []


async def test_the_state_channel_is_held_against_the_brokers(
    two: FakeCluster, http: aiohttp.ClientSession
) -> None:
    stuck = ChannelRecord("Releasing", two.names[0], wall_clock_ms() - 90_000)
    ghost = ChannelRecord("Owned", two.names[0], 1)
    good = ChannelRecord("Owned", two.names[0], 1)
    records = {A: good, B: stuck, bundle_name(7): ghost}
    said = await Dog(two, http, channel=lambda: records).look()
    assert [each.split(":")[0] for each in said] == ["ALERT in-flight", "ALERT not-serving"]


async def test_metrics_count_what_is_wrong_by_kind(
    two: FakeCluster, http: aiohttp.ClientSession
) -> None:
    dog = Dog(two, http)
    owns(two, two.brokers[1], A, B)
    await dog.look()
    text = dog.metrics.text().decode()
    assert 'counterpoise_balancer_watchdog_findings{kind="two-owners"} 1.0' in text
    assert 'counterpoise_balancer_watchdog_findings{kind="no-owner"} 0.0' in text


@pytest.mark.parametrize(
    ("data", "record"),
    [
        (b'{"state":"Owned","dstBroker":"b:1","timestamp":7}', ChannelRecord("Owned", "b:1", 7)),
        (b'{"state":"Free","sourceBroker":"b:1"}', ChannelRecord("Free", "b:1", 0)),
        (b'{"state":"Releasing","dstBroker":"b:2","sourceBroker":"b:1","timestamp":7}',
         ChannelRecord("Releasing", "b:2", 7)),
        (b"", None),
        (b"null", None),
        (b'{"dstBroker":"b:1"}', None),
        (b'{"state":"Owned","timestamp":"x"}', None),
        (b"\xff", None),
    ],
)  # fmt: skip
def test_a_record_of_the_channel_is_read_or_left(data: bytes, record: ChannelRecord | None) -> None:
    read = written(data)
    assert (read.seen if read is not None else None) == record


ASSIGNED = Written("Assigning", "b:1", version=1)
OWNED = Written("Owned", "b:1", version=2)
LEFT = Written("Releasing", "b:2", "b:1", version=3)


@pytest.mark.parametrize(
    ("before", "record", "holds"),
    [
        (None, ASSIGNED, True),
        (ASSIGNED, OWNED, True),
        (OWNED, LEFT, True),
        # Two brokers assigned it at once: as a real Pulsar's channel had them, in this order.
        (OWNED, Written("Assigning", "b:2", version=1), False),
        (OWNED, Written("Assigning", "b:1", version=1), False),
        (OWNED, Written("Owned", "b:2", version=2, force=True), False),
        # What lies between was compacted away.
        (ASSIGNED, Written("Assigning", "b:2", "b:1", version=9), True),
        (Written("Owned", "b:1", version=(1 << 63) - 1), replace(LEFT, version=-(1 << 63)), True),
        (OWNED, Written("Assigning", "b:2", version=3), False),
        (OWNED, Written("Assigning", "b:2", version=3, force=True), True),
        (ASSIGNED, Written("Owned", "b:2", version=2), False),
        (OWNED, Written("Releasing", "b:2", "b:3", version=3), False),
        (OWNED, Written("Releasing", "b:1", "b:1", version=3), False),
        (OWNED, Written("Splitting", "", "b:1", version=3), True),
        (OWNED, Written("Splitting", "b:2", "b:1", version=3), False),
        (LEFT, Written("Assigning", "b:2", "b:1", version=4), True),
        (LEFT, Written("Assigning", "b:3", "b:1", version=4), False),
        (Written("Free", "", "b:1", version=4), Written("Assigning", "b:2", version=5), True),
        (Written("Free", "", "b:1", version=4), Written("Assigning", "", "b:1", 5), False),
        (Written("Free", "", "b:1", 4), Written("Assigning", "b:2", "b:1", 5), False),
        (Written("Releasing", "", "b:1", 3), Written("Assigning", "", "b:1", 4), False),
        (Written("Releasing", "", "b:1", 3), Written("Free", "", "b:1", 4), True),
        (Written("Releasing", "", "b:1", 3), Written("Free", "", "b:2", 4), False),
        (Written("Splitting", "", "b:1", 3), Written("Deleted", "", "b:1", 4), True),
        (Written("Splitting", "", "b:1", 3), Written("Deleted", "", "b:2", 4), False),
        (Written("Deleted", "", "b:1", 4), Written("Init", version=5), True),
        (Written("Unheard", "b:1", version=1), OWNED, False),
    ],
)
def test_a_record_holds_or_was_never_the_bundle_s(
    before: Written | None, record: Written, holds: bool
) -> None:
    assert holds_after(before, record) is holds


@pytest.mark.parametrize(("value", "force"), [("true", True), ("false", False), ('"true"', False)])
def test_a_record_is_forced_where_it_says_so(value: str, force: bool) -> None:
    read = written(b'{"state":"Owned","force":%s}' % value.encode())
    assert read is not None
    assert read.force is force


class ScriptedClient:
    """Stands for a cluster: its channel's messages, or why it cannot be read."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, str]] = []
        self.trouble: Exception | None = None

    def create_reader(self, *_: object, **__: object) -> SimpleNamespace:
        left = [
            SimpleNamespace(partition_key=partial(str, key), data=text.encode)
            for key, text in self.messages
        ]
        return SimpleNamespace(
            has_message_available=lambda: self.answer(bool(left)), read_next=lambda _: left.pop(0)
        )

    def answer(self, value: bool) -> bool:
        if self.trouble is not None:
            raise self.trouble
        return value


def test_a_channel_that_could_not_be_read_is_read_from_its_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And that it cannot is said once each time."""
    client, said = ScriptedClient(), list[str]()
    monkeypatch.setattr(pulsar, "Client", lambda *_, **__: client)
    channel = Channel("pulsar://b:1", said.append)
    owned = '{"state":"Owned","dstBroker":"b:%d","timestamp":2,"versionId":2}'
    client.messages = [(A, owned % 1), (B, owned % 1)]
    assert channel.read() == dict.fromkeys((A, B), ChannelRecord("Owned", "b:1", 2))
    for outage in range(1, 3):
        client.trouble = pulsar.PulsarException("gone")
        assert channel.read() is channel.read() is None
        assert said == ["the bundle state channel cannot be read: gone"] * outage
        client.messages, client.trouble = [(B, owned % 7)], None
        assert channel.read() == {B: ChannelRecord("Owned", "b:7", 2)}, "A was deleted meanwhile"


def test_the_channel_shows_the_last_record_that_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """As three bundles of a real Pulsar: `Owned`, and then an `Assigning` that came second."""

    def message(key: str, text: str) -> SimpleNamespace:
        return SimpleNamespace(partition_key=lambda: key, data=text.encode)

    written_records = [
        ("n/a", '{"state":"Assigning","dstBroker":"b:1","timestamp":1,"versionId":1}'),
        ("n/a", '{"state":"Owned","dstBroker":"b:1","timestamp":2,"versionId":2}'),
        ("n/a", '{"state":"Assigning","dstBroker":"b:2","timestamp":3,"versionId":1}'),
        ("n/b", '{"state":"Assigning","dstBroker":"b:2","timestamp":4,"versionId":1}'),
        ("n/c", '{"state":"Owned","dstBroker":"b:2","timestamp":4,"versionId":7}'),
        ("n/c", ""),
    ]
    left = [message(*each) for each in written_records]
    reader = SimpleNamespace(
        has_message_available=lambda: bool(left), read_next=lambda _: left.pop(0)
    )
    client = SimpleNamespace(create_reader=lambda *_, **__: reader)
    monkeypatch.setattr(pulsar, "Client", lambda *_, **__: client)
    channel = Channel("pulsar://b1:6650", pytest.fail)
    assert channel.read() == {
        "n/a": ChannelRecord("Owned", "b:1", 2),
        "n/b": ChannelRecord("Assigning", "b:2", 4),
    }


def test_an_alert_says_what_helps() -> None:
    found = WatchdogFinding("in-flight", A, 1, "it is stuck", "lookup", "b1:80")
    assert alert_of(found) == "ALERT in-flight: it is stuck (--remedy: lookup at b1:80)"


QUICK = ["--patience", "0", "--interval", "100ms"]


async def test_a_look_that_takes_longer_than_the_patience_is_not_the_last_one(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """A broker that hangs holds up the first look, and nothing has lasted by then."""
    slow, silent = await cluster.add_broker(), await cluster.add_broker()
    slow.hangs, silent.silent = asyncio.Event(), True
    words = ["watchdog", "--admin-url", f"http://{slow.name}", "--patience", "50ms"]
    args = full_parser().parse_args([*words, "--interval", "20ms"])
    asyncio.get_running_loop().call_later(0.3, slow.hangs.set)
    assert await _look(args, asyncio.Event()) == 1
    assert f"ALERT not-serving: {silent.name} is listed" in capsys.readouterr().out


_READS = """
import sys
from counterpoise.pipeline.watchdog.channel import Channel
said = []
channel = Channel(sys.argv[1], said.append)
missing = Channel("pulsar://127.0.0.1:1", said.append, answers_within_s=1)
try:
    assert channel.read() == {}
    assert missing.read() is None
    assert missing.read() is None
finally:
    channel.close()
    missing.close()
print(*said, sep="\\n")
"""


def test_a_channel_that_cannot_be_read_is_said_once() -> None:
    with Cluster(1) as cluster:
        # A process keeps the logger of its first client: this one's may be of another test.
        words = [sys.executable, "-c", _READS, cluster.service_url]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    [sentence] = (done.stdout + done.stderr).splitlines()
    assert sentence.startswith("the bundle state channel cannot be read: ")


def test_real_brokers_are_well(capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(2) as cluster:
        words = ["watchdog", "--admin-url", cluster.admin_url, *QUICK]
        assert main(words) == 0
        assert "nothing is wrong" in capsys.readouterr().out
        assert main([*words, "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == []


async def test_what_a_dead_broker_leaves_unowned_is_found_and_repaired(
    http: aiohttp.ClientSession,
) -> None:
    """Its clients are gone as well, so no lookup gives the bundle an owner."""
    with Cluster(2, config={"loadBalancerReportUpdateMinIntervalMillis": 100}) as cluster:
        client = pulsar.Client(cluster.service_url)
        producer = client.create_producer("busy")
        owner = cluster.owner("busy")
        assert owner is not None
        bundle = cluster.bundle("busy")
        successor = next(broker for broker in cluster.brokers if broker is not owner)
        addresses = [f"http://{successor.id}"]
        admin, said = Admin(http, AdminOptions()), list[str]()
        collector = Collector(http, addresses, wall_clock_ms)
        looker = Observer(admin, addresses)
        options = WatchdogOptions(patience_ms=0)
        dog = Watchdog(
            http,
            BundleLookup(admin, "http://{}".format),
            looker,
            "http://{}".format,
            said.append,
            options,
            remedies=True,
        )
        while not dog.memory.carried_at_ms.get(bundle):
            producer.send(b"x" * 1000)
            await dog.judge_poll(await collector.poll())
        assert not dog.findings
        client.close()
        await asyncio.to_thread(cluster.kill, owner)
        while not any("remedy" in each for each in said):
            await dog.judge_poll(await collector.poll())
        assert any(f"ALERT no-owner: no broker owns {bundle}" in each for each in said)
        await dog.judge_poll(await collector.poll())
        assert cluster.owner("busy") is successor
        assert f"over: no-owner of {bundle}" in said
