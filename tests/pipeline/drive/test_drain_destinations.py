"""Which brokers take what a drained one had: by readiness, policies, groups and caps."""

import asyncio
import json
from dataclasses import replace

import aiohttp
import pytest

from counterpoise.app.verbs.drain import _json, _show
from counterpoise.decide.balancing.drain import DrainRules
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.load.report import NamespaceBundleStats
from counterpoise.names.load_managers import MODULAR
from counterpoise.pipeline.collect.admin import AdminOptions
from counterpoise.pipeline.collect.serving import CHANNEL_NOT_STARTED, SERVES_NO_LOOKUPS
from counterpoise.pipeline.drive.drain import DrainRefusedError
from counterpoise.pipeline.policies import CannotSeeError
from tests.pipeline.drive.drains import POLICIES, QUICK, SOON, drain, drained, heal, policy
from tests.pipeline.fake_cluster import CLUSTER, FakeCluster, bundle_name
from tests.pipeline.test_collect_managers import with_own_topics


async def test_a_broker_new_to_a_namespace_serves_one_bundle_before_it_gets_more(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    first, _, _ = [await cluster.add_broker() for _ in range(3)]
    for index in range(8):
        cluster.carry(first, bundle_name(index), 1000.0 * index)
    ends: list[float] = []
    clock = asyncio.get_running_loop().time
    options = replace(QUICK, moves=replace(QUICK.moves, at_once=1, warm_up_s=0.2))
    each = drain(cluster, http, options=options, log=lambda _: ends.append(clock()))
    plan = await each.plan()
    await each.carry_out(plan)
    lightest = {
        destination: min(
            (m for m in plan.moves if m.destination == destination and m.part > 0),
            key=lambda m: m.part,
        )
        for destination in cluster.names[1:]
    }
    assert {bundle for bundle, _ in cluster.unloads[:2]} == {m.bundle for m in lightest.values()}
    assert len(cluster.unloads) == len(plan.moves)
    assert ends[2] - ends[1] >= options.moves.warm_up_s


@pytest.mark.parametrize(
    "why", [SERVES_NO_LOOKUPS, CHANNEL_NOT_STARTED], ids=["no lookups", "no channel"]
)
async def test_a_broker_that_is_not_ready_gets_nothing(
    full: FakeCluster, http: aiohttp.ClientSession, why: str
) -> None:
    """It reports the least load of all, and would keep every client waiting.

    Before the first poll no bundle is known to have load, and a drain polls once.
    """
    if why == SERVES_NO_LOOKUPS:
        full.brokers[1].blocked = asyncio.Event()
    else:
        for broker in full.brokers:
            with_own_topics(broker)
        full.brokers[1].channel_waits = True
    each = drain(full, http, asked=AdminOptions(timeout_s=0.3))
    plan = await each.plan()
    assert {move.destination for move in plan.moves} == {full.names[2]}
    assert each.snapshot is not None
    assert each.snapshot.silent == {full.names[1]: why}


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


async def test_a_destination_that_dies_in_between_is_replaced(
    full: FakeCluster, http: aiohttp.ClientSession
) -> None:
    each = drain(full, http)
    plan = await each.plan()
    lost = full.brokers[2]
    await full.remove_broker(lost)
    full.forget_unload = True  # no broker can take what is given to a dead one
    found = await drain(full, http, log=lambda _: heal(full), options=SOON).carry_out(plan)
    assert not found.left
    last = {o.bundle: o.owner for o in found.outcomes}
    assert full.names[1] in last.values()


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
            200,
            b'["t/a", "t/b"]',
        )
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
