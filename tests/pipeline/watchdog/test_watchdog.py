"""Planted trouble on clusters that answer: alerts, remedies on request, metrics, exit status."""

import asyncio
import json
from collections.abc import Callable
from itertools import pairwise
from typing import Protocol

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
from counterpoise.pipeline.watchdog.observer import Observer, ReadChannel
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


class Asked(Protocol):
    """A cluster or a broker, with the address of its admin API."""

    @property
    def admin_url(self) -> str: ...


class Dog:
    """A watchdog of no patience, and what it said."""

    def __init__(
        self,
        cluster: Asked,
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


@pytest.mark.parametrize("status", [300, 307, 400, 409, 500])
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
    assert not owned[first.name][bundle_name(6)]


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
        dog, said = Dog(successor, http, remedies=True), list[str]()
        while not dog.dog.memory.carried_at_ms.get(bundle):
            producer.send(b"x" * 1000)
            await dog.look()
        assert not dog.dog.findings
        client.close()
        await asyncio.to_thread(cluster.kill, owner)
        while not any("remedy" in each for each in said):
            said += await dog.look()
        assert any(f"ALERT no-owner: no broker owns {bundle}" in each for each in said)
        said += await dog.look()
        assert cluster.owner("busy") is successor
        assert f"over: no-owner of {bundle}" in said
