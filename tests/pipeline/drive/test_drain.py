"""A broker is emptied: by policies, verified, tried again, or refused in words."""

import asyncio
import itertools
import json
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import aiohttp
import pulsar
import pytest

from counterpoise import Cluster
from counterpoise.app.main import main
from counterpoise.app.verbs.drain import _json, _show
from counterpoise.decide.balancing.drain import DrainRules
from counterpoise.decide.balancing.moves import MoveStatus
from counterpoise.decide.balancing.publish_latency import LatencyLimit
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.decide.placement.registry import PLACEMENTS
from counterpoise.load.report import NamespaceBundleStats
from counterpoise.names.load_managers import MODULAR
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.collect.admin import AdminOptions
from counterpoise.pipeline.collect.serving import CHANNEL_NOT_STARTED, SERVES_NO_LOOKUPS
from counterpoise.pipeline.drive.action_trail import ActionTrail, cordoned
from counterpoise.pipeline.drive.drain import (
    BrokerDrain,
    DrainOptions,
    DrainRefusedError,
    DrainResult,
)
from counterpoise.pipeline.drive.snapshot import SnapshotReader
from counterpoise.pipeline.executor import Executor
from counterpoise.pipeline.policies import CannotSeeError
from counterpoise.pipeline.publish_latencies import LatencyWatchOptions
from counterpoise.pipeline.tables.location import open_location
from tests.pipeline.fake_cluster import CLUSTER, FakeBroker, FakeCluster, bundle_name
from tests.pipeline.test_collect_managers import with_own_topics

QUICK = DrainOptions(verify_within_s=1.0, again_after_s=0.01, warm_up_s=0.0)
POLICIES = f"/admin/v2/clusters/{CLUSTER}/namespaceIsolationPolicies"


@pytest.fixture
async def full(cluster: FakeCluster) -> FakeCluster:
    """Three brokers; the first has twelve bundles, half of them without load."""
    first, _, _ = [await cluster.add_broker() for _ in range(3)]
    for index in range(12):
        cluster.carry(first, bundle_name(index), 1000.0 * (index % 2))
    return cluster


def drain(
    cluster: FakeCluster,
    http: aiohttp.ClientSession,
    broker: str = "",
    rules: DrainRules | None = None,
    options: DrainOptions = QUICK,
    log: Callable[[str], None] = lambda sentence: None,
) -> BrokerDrain:
    reader = SnapshotReader(http, [cluster.admin_url], wall_clock_ms)
    broker = broker or cluster.names[0]
    return BrokerDrain(http, reader, broker, rules or DrainRules(), wall_clock_ms, log, options)


def heal(cluster: FakeCluster) -> None:
    cluster.forget_unload = False


async def drained(each: BrokerDrain) -> DrainResult:
    return await each.carry_out(await each.plan())


async def test_a_broker_new_to_a_namespace_serves_one_bundle_before_it_gets_more(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    first, _, _ = [await cluster.add_broker() for _ in range(3)]
    for index in range(8):
        cluster.carry(first, bundle_name(index), 1000.0 * index)
    ends: list[float] = []
    clock = asyncio.get_running_loop().time
    options = replace(QUICK, at_once=1, warm_up_s=0.2)
    each = drain(cluster, http, options=options, log=lambda _: ends.append(clock()))
    plan = await each.plan()
    await each.carry_out(plan)
    lightest = {
        destination: min((m for m in plan.moves if m.destination == destination and m.part > 0),
                         key=lambda m: m.part)
        for destination in cluster.names[1:]
    }  # fmt: skip
    assert {bundle for bundle, _ in cluster.unloads[:2]} == {m.bundle for m in lightest.values()}
    assert len(cluster.unloads) == len(plan.moves)
    assert ends[2] - ends[1] >= options.warm_up_s


@pytest.mark.parametrize("placement", [*PLACEMENTS])
async def test_a_broker_is_emptied_evenly_and_every_owner_verified(
    full: FakeCluster, http: aiohttp.ClientSession, placement: str
) -> None:
    each = drain(full, http, rules=DrainRules(PLACEMENTS.find(placement)))
    plan = await each.plan()
    assert full.unloads == [], "a plan touches nothing"
    found = await each.carry_out(plan)
    assert not found.left
    assert {o.status for o in found.outcomes} == {MoveStatus.MOVED}
    assert {m.bundle: m.destination for m in plan.moves} == full.owners
    # Bundles of a namespace are distributed evenly, whatever the strategy would have liked.
    assert Counter(full.owners.values()) == {full.names[1]: 6, full.names[2]: 6}


class SlowsDown(list[tuple[str, str]]):
    """The unloads of a cluster one of whose brokers is slow from the first on."""

    def __init__(self, broker: FakeBroker) -> None:
        super().__init__()
        self._broker = broker

    def append(self, each: tuple[str, str]) -> None:
        self._broker.latency_ms = 80.0
        super().append(each)


async def test_a_drain_stops_once_publishing_is_slow_and_says_what_is_left_and_why(
    full: FakeCluster, http: aiohttp.ClientSession
) -> None:
    """The second broker is slow from the first bundle on that it takes."""
    source, slow, other = full.brokers
    source.latency_ms, slow.latency_ms, other.latency_ms = 5.0, 5.0, 6.0
    full.takes_s = 0.05

    full.unloads = SlowsDown(slow)
    log: list[str] = []
    latency = LatencyWatchOptions(every_s=0.01, first_s=0.01)
    options = replace(QUICK, at_once=1, latency=latency)
    found = await drained(drain(full, http, log=log.append, options=options))
    ends = Counter(each.status for each in found.outcomes)
    assert ends.keys() == {MoveStatus.MOVED, MoveStatus.WITHHELD}
    assert len(full.unloads) == ends[MoveStatus.MOVED], "and no further one was begun"
    assert sum(ends.values()) == 12, "nor tried again"
    assert len(found.left) == ends[MoveStatus.WITHHELD]
    reason = (
        f"publish latency of {slow.name} rose from 5.0 ms to 80.0 ms while bundles moved: no "
        "further move is begun (--stop-at-latency x2)"
    )
    assert set(found.left.values()) == {reason}
    assert f"withheld {min(found.left)}: {reason}" in log

    full.unloads = []
    unlimited = replace(latency, limit=LatencyLimit(times=0.0))
    found = await drained(drain(full, http, options=replace(options, latency=unlimited)))
    assert not found.left
    assert source.name not in full.owners.values()


async def test_apaches_broker_is_emptied_without_being_asked_for_all_that_it_owns(
    full: FakeCluster, http: aiohttp.ClientSession
) -> None:
    """It is given bundles meanwhile, and would stop; the bundles without topics are found too."""
    full.version, full.load_manager = "4.0.7", MODULAR
    empty = bundle_name(12)
    full.owners[empty] = full.names[0]
    found = await drained(drain(full, http))
    assert not found.left
    assert full.names[0] not in full.owners.values()
    assert len(found.outcomes) == 13
    asked = [path for broker in full.brokers for path in broker.asked]
    assert not [path for path in asked if "ownedNamespaces" in path]


async def test_a_drain_may_begin_a_history_and_the_next_one_goes_by_it(
    full: FakeCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A broker's preStop hook drains it whether or not a balancer has run there before."""
    broker, history = full.names[0], tmp_path / "new"
    own = b'{"loadBalancerSheddingEnabled": "false"}'
    for each in full.brokers:
        for kind in ("runtime", "values"):
            each.answers[f"/admin/v2/brokers/configuration/{kind}"] = (200, own)
    words = ["drain", broker, "--admin-url", full.admin_url, "--history", str(history)]
    assert await asyncio.to_thread(main, [*words, "--execute"]) == 0
    assert broker not in full.owners.values()
    assert [*cordoned(ActionTrail(open_location(str(history))).actions())] == [broker]
    said = capsys.readouterr()
    assert said.err.count("nothing is kept in") == 1
    assert "no move of this cluster is recorded" in said.out
    words[1] = full.names[1]
    assert await asyncio.to_thread(main, words) == 0
    text = capsys.readouterr().out
    assert f"{broker} is cordoned: " in text
    assert f"-> {full.names[2]}" in text
    assert f"-> {broker}" not in text
    assert "moves of a drain seen here" in text


async def test_a_broker_that_serves_no_lookups_gets_nothing(
    full: FakeCluster, http: aiohttp.ClientSession
) -> None:
    """It reports the least load of all, and would keep every client waiting."""
    full.brokers[1].blocked = asyncio.Event()
    options = AdminOptions(timeout_s=0.3)
    reader = SnapshotReader(http, [full.admin_url], wall_clock_ms, options=options)
    each = BrokerDrain(
        http, reader, full.names[0], DrainRules(), wall_clock_ms, lambda _: None, QUICK
    )
    plan = await each.plan()
    assert {move.destination for move in plan.moves} == {full.names[2]}
    assert each.snapshot is not None
    assert each.snapshot.silent == {full.names[1]: SERVES_NO_LOOKUPS}


async def test_a_broker_whose_state_channel_has_not_started_gets_nothing(
    full: FakeCluster, http: aiohttp.ClientSession
) -> None:
    """Before the first poll no bundle is known to have load, and a drain polls once."""
    for broker in full.brokers:
        with_own_topics(broker)
    full.brokers[1].channel_waits = True
    each = drain(full, http)
    plan = await each.plan()
    assert {move.destination for move in plan.moves} == {full.names[2]}
    assert each.snapshot is not None
    assert each.snapshot.silent == {full.names[1]: CHANNEL_NOT_STARTED}


async def test_who_does_not_say_whose_a_bundle_is_gets_nothing(
    full: FakeCluster, http: aiohttp.ClientSession
) -> None:
    full.version, full.load_manager = "4.0.7", MODULAR
    full.carry(full.brokers[2], bundle_name(12), 1.0)
    path = f"/admin/v2/non-persistent/{bundle_name(12)}"
    full.brokers[2].answers[path] = (503, b"not now")
    each = drain(full, http)
    plan = await each.plan()
    assert {move.destination for move in plan.moves} == {full.names[1]}
    assert each.snapshot is not None
    assert set(each.snapshot.silent) == {full.names[2]}
    for broker in full.brokers:
        broker.answers[path] = (503, b"not now")
    unowned = f"no broker says who owns {bundle_name(12)}: HTTP 503"
    with pytest.raises(CannotSeeError, match=unowned):
        await drain(full, http).plan()


async def test_the_brokers_own_bundles_stay(full: FakeCluster, http: aiohttp.ClientSession) -> None:
    own = f"pulsar/{full.names[0]}/0x00000000_0xffffffff"
    full.carry(full.brokers[0], own, 1.0)
    each = drain(full, http)
    plan = await each.plan()
    assert each.snapshot is not None
    assert each.goal.bound(each.snapshot) == (own,)
    assert not (await each.carry_out(plan)).left
    assert full.owners[own] == full.names[0]


async def test_what_fails_is_tried_again_and_given_up_with_its_reason(
    full: FakeCluster, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    full.refuse_unload = 503
    logged: list[str] = []
    paused: list[int] = []
    pause = Executor.pause_before

    async def pause_before(self: Executor, attempt: int) -> None:
        paused.append(attempt)
        await pause(self, attempt)

    monkeypatch.setattr(Executor, "pause_before", pause_before)
    found = await drained(drain(full, http, options=replace(QUICK, attempts=2), log=logged.append))
    assert set(found.left) == set(full.owners)
    assert all("given up after attempt 2: unload: HTTP 503" in why for why in found.left.values())
    assert len(found.outcomes) == 24
    assert paused == [1, 2], "longer before each attempt"
    assert sum("tried again" in each for each in logged) == 12


async def test_how_long_each_move_took_is_logged(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    """By a clock that goes on by three minutes whenever it is read: a drain does not grow old."""
    first, _ = [await cluster.add_broker() for _ in range(2)]
    cluster.carry(first, bundle_name(1), 10.0)
    reads = itertools.count(wall_clock_ms(), 180_000)
    logged: list[str] = []
    reader = SnapshotReader(http, [cluster.admin_url], wall_clock_ms)
    clock = lambda: next(reads)  # noqa: E731
    await drained(BrokerDrain(http, reader, first.name, DrainRules(), clock, logged.append, QUICK))
    [sentence] = [each for each in logged if each.startswith("moved ")]
    assert f"moved {bundle_name(1)} after 180.0 s, " in sentence


async def test_what_comes_to_a_broker_while_it_is_drained_leaves_it_too(
    full: FakeCluster, http: aiohttp.ClientSession
) -> None:
    late = bundle_name(50)

    def log(_: str) -> None:
        if late not in full.owners:
            full.carry(full.brokers[0], late, 1000.0)

    found = await drained(drain(full, http, log=log))
    assert not found.left
    assert late in {one.bundle for one in found.outcomes}
    assert full.names[0] not in full.owners.values()


async def test_an_unload_that_works_the_second_time_leaves_nothing(
    full: FakeCluster, http: aiohttp.ClientSession
) -> None:
    full.forget_unload = True
    each = drain(full, http, log=lambda sentence: heal(full))
    found = await drained(each)
    assert not found.left
    assert MoveStatus.FAILED in {o.status for o in found.outcomes}
    assert full.names[0] not in full.owners.values()


async def test_a_destination_that_dies_in_between_is_replaced(
    full: FakeCluster, http: aiohttp.ClientSession
) -> None:
    each = drain(full, http)
    plan = await each.plan()
    lost = full.brokers[2]
    await full.remove_broker(lost)
    full.forget_unload = True  # no broker can take what is given to a dead one
    found = await drain(full, http, log=lambda sentence: heal(full)).carry_out(plan)
    assert not found.left
    last = {o.bundle: o.owner for o in found.outcomes}
    assert full.names[1] in last.values()


@pytest.mark.parametrize("fault", ["", "lose_destination", "no_topics", "policies"])
async def test_of_a_drain_that_is_cut_off_what_went_is_not_called_unknown(
    full: FakeCluster, http: aiohttp.ClientSession, fault: str
) -> None:
    """Wherever it went, to another broker than was asked for or to none; whatever cut it off."""
    if fault in ("lose_destination", "no_topics"):
        setattr(full, fault, True)
        full.creates = not full.no_topics
    stuck = bundle_name(3)

    class OneStays(list[tuple[str, str]]):
        def append(self, each: tuple[str, str]) -> None:
            full.forget_unload = each[0] == stuck
            super().append(each)

    def cut_off(sentence: str) -> None:
        if sentence.startswith("failed"):
            for broker in full.brokers:
                if fault == "policies":
                    broker.answers[POLICIES] = (500, b"no metadata")
                broker.silent = fault != "policies"

    full.unloads = OneStays()
    options = replace(QUICK, verify_within_s=0.3) if full.no_topics else QUICK
    found = await drained(drain(full, http, options=options, log=cut_off))
    assert len(found.outcomes) == 12
    assert set(found.left) == {stuck}
    assert found.left[stuck].startswith("it is not known who owns it: ")


def policy(namespaces: list[str], primary: list[str]) -> bytes:
    failover = {"policy_type": "min_available", "parameters": {"min_limit": "1"}}
    data = {
        "namespaces": namespaces, "primary": primary, "secondary": [],
        "auto_failover_policy": failover,
    }  # fmt: skip
    return json.dumps({"theirs": data}).encode()


async def test_isolation_policies_hold_and_what_can_go_nowhere_is_refused_first(
    full: FakeCluster, http: aiohttp.ClientSession
) -> None:
    for index in (50, 51):
        full.carry(full.brokers[0], bundle_name(index, "secret/ns"), 5.0)
    for each in full.brokers:
        each.answers[POLICIES] = (200, policy(["secret/.*"], ["no-such-host"]))
    with pytest.raises(DrainRefusedError, match="2 of the bundles can go nowhere") as refused:
        await drained(drain(full, http))
    assert "no broker of isolation policy 'theirs'" in str(refused.value)
    assert full.unloads == []
    found = await drained(drain(full, http, options=replace(QUICK, partial=True)))
    assert set(found.left) == {bundle_name(index, "secret/ns") for index in (50, 51)}
    assert len(full.unloads) == 12


async def test_a_policy_that_cannot_be_read_is_not_taken_for_none(
    full: FakeCluster, http: aiohttp.ClientSession
) -> None:
    for each in full.brokers:
        each.answers[POLICIES] = (500, b"no metadata")
    with pytest.raises(CannotSeeError, match="HTTP 500 no metadata"):
        await drain(full, http).plan()


@pytest.mark.parametrize("domains", [False, True])
async def test_anti_affinity_spreads_namespaces_of_a_group(
    cluster: FakeCluster, http: aiohttp.ClientSession, domains: bool
) -> None:
    """Over brokers, and over failure domains where there are some."""
    first, second, third, fourth = [await cluster.add_broker() for _ in range(4)]
    cluster.carry(first, bundle_name(1, "t/a"), 10.0)
    cluster.carry(second, bundle_name(1, "t/b"), 10.0)
    cluster.carry(third, bundle_name(2, "t/other"), 99.0)
    cluster.carry(fourth, bundle_name(3, "t/other"), 999.0)
    east = {"east": {"brokers": [second.name, third.name]}, "west": {"brokers": [fourth.name]}}
    for each in cluster.brokers:
        said = json.dumps(east if domains else {}).encode()
        each.answers["/admin/v2/clusters/fake/failureDomains"] = (200, said)
        each.answers["/admin/v2/namespaces/t/a/antiAffinity"] = (200, b"group")
        each.answers[f"/admin/v2/namespaces/{CLUSTER}/antiAffinity/group"] = (
            200, b'["t/a", "t/b"]',
        )  # fmt: skip
    rules = DrainRules(filters=FilterOptions(failure_domains=domains))
    [move] = (await drain(cluster, http, rules=rules).plan()).moves
    other = fourth if domains else third
    assert move.destination == other.name, "the second has the group already, though less load"


async def test_a_broker_at_its_topic_cap_is_given_nothing(
    full: FakeCluster, http: aiohttp.ClientSession
) -> None:
    full.carry(full.brokers[1], bundle_name(90, "t/x"), 0.0)
    full.loads[bundle_name(90, "t/x")] = NamespaceBundleStats(topics=5000)
    rules = DrainRules(filters=FilterOptions(max_topics=100))
    plan = await drain(full, http, rules=rules).plan()
    assert {move.destination for move in plan.moves} == {full.names[2]}


@pytest.mark.parametrize(
    ("broker", "fault", "said"),
    [
        ("absent:8080", (), "absent:8080 is no broker of this cluster: it has 127"),
        ("", (0,), "does not list the bundles that it owns: HTTP 503 not now"),
        ("", (1, 2), "cannot be emptied: no other broker answers"),
    ],
)
async def test_what_cannot_be_emptied_is_refused(
    full: FakeCluster, http: aiohttp.ClientSession, broker: str, fault: tuple[int, ...], said: str
) -> None:
    for index in fault:
        full.brokers[index].silent = True
    with pytest.raises(DrainRefusedError, match=said):
        await drain(full, http, broker).plan()


def test_a_real_broker_is_emptied_under_a_client_and_nothing_is_lost(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Cluster(3, config={"defaultNumberOfNamespaceBundles": 8}) as cluster:
        client = pulsar.Client(cluster.service_url)
        topics = [f"persistent://public/default/t{number}" for number in range(12)]
        consumer = client.subscribe(topics, "all")
        producers = [client.create_producer(topic) for topic in topics]
        for each in producers:
            each.send(b"before")
        broker = next(each for each in cluster.brokers if each.bundles)
        mine = [bundle for bundle in broker.bundles if not bundle.startswith(f"pulsar/{broker.id}")]
        words = ["drain", broker.id, "--admin-url", cluster.admin_url]
        assert main(words) == 0
        plan = capsys.readouterr().out
        assert all(bundle in plan for bundle in mine)
        what = "1 bundle" if len(mine) == 1 else f"{len(mine)} bundles"
        assert f"{what} would leave {broker.id}; nothing was moved" in plan
        assert set(mine) <= set(broker.bundles)
        assert main([*words, "--execute", "--json"]) == 0
        logged = json.loads(capsys.readouterr().out)
        assert not logged["left"]
        assert {each["status"] for each in logged["outcomes"]} == {"moved"}
        assert not set(mine) & set(broker.bundles)
        owned = {bundle: each.id for each in cluster.brokers for bundle in each.bundles}
        assert {b["bundle"]: b["owner"] for b in logged["outcomes"]}.items() <= owned.items()
        for each in producers:
            each.send(b"after")
        for _ in range(2 * len(topics)):
            consumer.acknowledge(consumer.receive(10_000))
        client.close()
        assert main(["drain", "absent:1", "--admin-url", cluster.admin_url]) == 2
        assert "absent:1 is no broker of this cluster" in capsys.readouterr().err


async def test_who_is_given_nothing_as_it_does_not_answer_is_named(
    full: FakeCluster, http: aiohttp.ClientSession, capsys: pytest.CaptureFixture[str]
) -> None:
    full.brokers[1].silent = True
    emptied = drain(full, http)
    plan = await emptied.plan()
    _show(emptied, plan, execute=False)
    [first, *moves, costs, _] = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{full.names[1]} is given nothing: HTTP 503")
    assert len(moves) == len(plan.moves) == 12
    assert "by then are delivered again" in costs
    assert not [each for each in moves if f"-> {full.names[1]}" in each]
    assert set(_json(emptied, plan, None)["silent"]) == {full.names[1]}  # type: ignore[call-overload]


async def test_a_drain_whose_reader_goes_away_comes_to_its_end(full: FakeCluster) -> None:
    """`counterpoise drain … | head` is no reason to leave a broker half empty."""
    full.takes_s = 0.1
    runs_with = {"runtime": b'{"loadBalancerSheddingEnabled": "false"}', "values": b"{}"}
    for name, logged in runs_with.items():
        for broker in full.brokers:
            broker.answers[f"/admin/v2/brokers/configuration/{name}"] = (200, logged)
    drained, pipe = full.names[0], asyncio.subprocess.PIPE
    words = ["drain", drained, "--admin-url", full.admin_url, "--execute", "--at-once", "1"]
    command = [sys.executable, "-m", "counterpoise.app.main", *words]
    verb = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    assert verb.stdout is not None
    assert verb.stderr is not None
    async with asyncio.timeout(60):
        while b"moved " not in await verb.stdout.readline():
            assert not verb.stdout.at_eof(), await verb.stderr.read()
        verb.stdout._transport.close()  # type: ignore[attr-defined]
        assert (await verb.wait(), await verb.stderr.read()) == (0, b"")
    assert drained not in full.owners.values()
