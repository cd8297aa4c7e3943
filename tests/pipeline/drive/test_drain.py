"""A broker is emptied: by policies, verified, tried again, or refused in words."""

import asyncio
import itertools
import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import aiohttp
import pulsar
import pytest

from counterpoise import Cluster
from counterpoise.app.main import main
from counterpoise.decide.balancing.drain import DrainRules
from counterpoise.decide.balancing.moves import MoveStatus
from counterpoise.decide.balancing.publish_latency import LatencyLimit
from counterpoise.decide.placement.registry import PLACEMENTS
from counterpoise.names.load_managers import MODULAR
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.drive.action_trail import ActionTrail, cordoned
from counterpoise.pipeline.drive.drain import DrainRefusedError
from counterpoise.pipeline.executor import Executor
from counterpoise.pipeline.publish_latencies import LatencyWatchOptions
from counterpoise.pipeline.tables.location import open_location
from tests.pipeline.drive.drains import (
    POLICIES,
    QUICK,
    SOON,
    SlowsDown,
    drain,
    drained,
    heal,
    sheds_not,
)
from tests.pipeline.fake_cluster import FakeCluster, bundle_name


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
    options = replace(QUICK, moves=replace(QUICK.moves, at_once=1, latency=latency))
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
    found = await drained(
        drain(full, http, options=replace(options, moves=replace(options.moves, latency=unlimited)))
    )
    assert not found.left
    assert source.name not in full.owners.values()


async def test_apaches_broker_is_emptied_without_being_asked_for_all_that_it_owns(
    full: FakeCluster, http: aiohttp.ClientSession
) -> None:
    """It is given bundles meanwhile, and would stop; the bundles without topics are found too."""
    full.version, full.load_manager = "4.0.7", MODULAR
    empty = bundle_name(12)
    full.owners[empty] = full.names[0]
    # Nothing shows who has it then.
    found = await drained(drain(full, http, options=SOON))
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
    sheds_not(full)
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


async def test_the_verb_says_what_would_leave_what_did_and_what_is_left(
    full: FakeCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Consumers are sent 10, 20, … messages a second; the second broker's are not counted."""
    broker = full.names[0]
    full.carry(full.brokers[1], bundle_name(50), 1.0)
    for number, (bundle, load) in enumerate(full.loads.items(), 1):
        full.loads[bundle] = replace(load, msg_rate_out=10.0 * number)
    full.carry(full.brokers[0], own := f"pulsar/{broker}/0x00000000_0xffffffff", 1.0)

    async def verb(*words: str) -> tuple[int, str, str]:
        at = ["--admin-url", full.admin_url, "--warm-up", "0s"]
        status = await asyncio.to_thread(main, ["drain", broker, *at, *words])
        return status, *capsys.readouterr()

    # While the cluster sheds by itself it is only shown.
    for each, kind in itertools.product(full.brokers, ("runtime", "values")):
        each.answers[f"/admin/v2/brokers/configuration/{kind}"] = (200, b"{}")
    status, shown, complained = await verb()
    assert (status, complained) == (0, "")
    assert "about 78 to 780 messages" in shown
    assert "1 of the cluster's own (heartbeats, pulsar/system) are not moved" in shown
    assert f"12 bundles would leave {broker}; nothing was moved" in shown
    assert json.loads((await verb("--json"))[1])["bound"] == [own]
    status, _, complained = await verb("--execute")
    assert (status, full.unloads) == (2, [])
    assert "loadBalancerSheddingEnabled" in complained
    sheds_not(full)
    full.refuse_unload = 500
    kept = ("--execute", "--attempts", "1", "--history", str(tmp_path))
    status, shown, _ = await verb(*kept)
    assert status == 1
    assert f"{broker}: 12 attempts, 12 bundles are left on it" in shown
    assert f"{broker} is cordoned until `counterpoise refill {broker}` or --release" in shown
    full.refuse_unload = 0
    status, shown, _ = await verb("--execute")
    assert status == 0
    assert f"{broker}: 12 attempts, it is empty\nnot recorded in a history (--history)" in shown
    status, shown, _ = await verb("--execute")
    assert status == 0
    assert f"{broker}: 0 attempts, it is empty" in shown
    assert f"0 bundles would leave {broker}; " in (await verb())[1]


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
    clock_ms = itertools.count(wall_clock_ms(), 180_000).__next__
    logged: list[str] = []
    await drained(drain(cluster, http, clock_ms=clock_ms, log=logged.append))
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
    each = drain(full, http, log=lambda sentence: heal(full), options=SOON)
    found = await drained(each)
    assert not found.left
    assert MoveStatus.FAILED in {o.status for o in found.outcomes}
    assert full.names[0] not in full.owners.values()


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
    soon = replace(QUICK, moves=replace(QUICK.moves, verify_within_s=0.3))
    options = soon if full.no_topics else SOON
    found = await drained(drain(full, http, options=options, log=cut_off))
    assert len(found.outcomes) == 12
    assert set(found.left) == {stuck}
    assert found.left[stuck].startswith("it is not known who owns it: ")


@pytest.mark.parametrize(
    ("broker", "fault", "said"),
    [
        ("absent:8080", (), "absent:8080 is no broker of this cluster: it has 127"),
        ("", (0,), "does not list the bundles that it owns: HTTP 503 not now"),
        ("", (0, 1, 2), "does not list the bundles that it owns: HTTP 503 not now"),
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
            consumer.acknowledge(consumer.receive(60_000))
        client.close()
        assert main(["drain", "absent:1", "--admin-url", cluster.admin_url]) == 2
        assert "absent:1 is no broker of this cluster" in capsys.readouterr().err


async def test_a_drain_whose_reader_goes_away_comes_to_its_end(full: FakeCluster) -> None:
    """`counterpoise drain … | head` is no reason to leave a broker half empty."""
    full.takes_s = 0.1
    sheds_not(full)
    drained, pipe = full.names[0], asyncio.subprocess.PIPE
    words = ["drain", drained, "--admin-url", full.admin_url, "--execute", "--at-once", "1"]
    command = [sys.executable, "-m", "counterpoise.app.main", *words]
    verb = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    assert verb.stdout is not None
    assert verb.stderr is not None
    async with asyncio.timeout(200):
        while b"moved " not in await verb.stdout.readline():
            assert not verb.stdout.at_eof(), await verb.stderr.read()
        verb.stdout._transport.close()  # type: ignore[attr-defined]
        assert (await verb.wait(), await verb.stderr.read()) == (0, b"")
    assert drained not in full.owners.values()
