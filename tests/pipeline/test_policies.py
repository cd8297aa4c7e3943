"""Rounds and plans heed the cluster's policies, as they are now, or do not happen at all."""

import asyncio
import json
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import cast

import aiohttp
import numpy as np
import pulsar
import pytest

from counterpoise import Cluster
from counterpoise.app.main import main
from counterpoise.app.strategies import strategy_from
from counterpoise.decide.balancing.moves import Round
from counterpoise.decide.balancing.round import BalancingStrategy
from counterpoise.decide.filters.facts import BrokerFacts
from counterpoise.load.fold import Batch, FoldState, fold
from counterpoise.names.load_managers import MODULAR
from counterpoise.names.properties import Properties
from counterpoise.pipeline.balancer import Balancer
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.collect.admin import Admin, RefusedError
from counterpoise.pipeline.collect.collector import Collector
from counterpoise.pipeline.drive.action_trail import ActionTrail
from counterpoise.pipeline.drive.roll_state import new_roll
from counterpoise.pipeline.executor import Executor, ExecutorOptions
from counterpoise.pipeline.notify.notice import BalancerNotices, Notice
from counterpoise.pipeline.policies import (
    GROUPS_FOR,
    CannotSeeError,
    PolicyReader,
    RoundPolicies,
    facts_of,
)
from counterpoise.pipeline.tables.journal import JournalWriter
from counterpoise.pipeline.tables.location import open_location
from tests.decide.balancing.test_round import strategy
from tests.pipeline.drive.drains import POLICIES, policy
from tests.pipeline.fake_cluster import CLUSTER, FakeCluster, bundle_name
from tests.pipeline.histories import journal_of
from tests.pipeline.rounds import LogLines, made_of, seen

DRY = ExecutorOptions(execute=False)
GROUP = "/admin/v2/namespaces/{}/antiAffinity"
RUNTIME = "/admin/v2/brokers/configuration/runtime"
NOBODYS = ["no-such-host"]
SET = [
    "--strategy",
    "ThresholdShedder",
    "--set",
    "loadBalancerBundleUnloadMinThroughputThreshold=0.001",
]


def answer(cluster: FakeCluster, path: str, status: int, body: bytes) -> None:
    for each in cluster.brokers:
        each.answers[path] = (status, body)


def balancer(
    http: aiohttp.ClientSession,
    urls: list[str],
    history: JournalWriter,
    logged: LogLines,
    by: BalancingStrategy | None = None,
    trail: ActionTrail | None = None,
    notices: list[Notice] | None = None,
) -> Balancer:
    executor = Executor(http, wall_clock_ms, DRY)
    return Balancer(
        by or strategy(interval_ms=1),
        history,
        executor,
        logged.append,
        policies=RoundPolicies(http, urls),
        trail=trail,
        notices=None if notices is None else BalancerNotices(notices.append, wall_clock_ms),
    )


async def test_a_round_heeds_the_policies_of_its_moment(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter
) -> None:
    logged = LogLines()
    one = balancer(http, [uneven.admin_url], history, logged)
    answer(uneven, POLICIES, 200, policy(["public/.*"], NOBODYS))
    made = await made_of(one, seen(uneven, 0))
    assert not made.moves
    assert "is no broker of isolation policy 'theirs'" in logged
    answer(uneven, POLICIES, 200, b"{}")
    made = await made_of(one, seen(uneven, 1))
    assert made.moves


@pytest.mark.parametrize(
    ("path", "status"), [(POLICIES, 403), (GROUP.format("public/default"), 500), (RUNTIME, 401)]
)
async def test_no_round_is_made_while_policies_cannot_be_read(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter, path: str, status: int
) -> None:
    logged = LogLines()
    one = balancer(http, [uneven.admin_url], history, logged)
    answer(uneven, path, status, b"no metadata")
    for number in range(3):
        assert await one.step(seen(uneven, number)) is None
    [said] = logged
    assert said.startswith("no round is made: policies cannot be read")
    assert "no metadata" in said
    uneven.brokers[1].answers[path] = (404, b"")
    assert await one.step(seen(uneven, 3)) is not None, "another broker answers"
    assert logged[1] == "rounds are made again: policies can be read"


@pytest.mark.parametrize(
    ("status", "body"),
    [(200, b'{"loadBalancerDistributeBundlesEvenlyEnabled": "true"}'), (404, b"")],
)
async def test_bundles_need_not_be_even_by_number_whatever_brokers_say_of_it(
    uneven: FakeCluster, http: aiohttp.ClientSession, status: int, body: bytes
) -> None:
    """A round evens out their load."""
    answer(uneven, RUNTIME, status, body)
    found = await RoundPolicies(http, [uneven.admin_url]).read(seen(uneven))
    assert not found.filters.distribute_evenly


async def test_of_two_reasons_the_last_one_is_over_when_rounds_are_made_again(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter, tmp_path: Path
) -> None:
    logged, trail = LogLines(), ActionTrail(open_location(tmp_path))
    notices = list[Notice]()
    one = balancer(http, [uneven.admin_url], history, logged, trail=trail, notices=notices)
    roll = new_roll(tuple(uneven.names), 1, "ann", "")
    trail.keep_roll(roll)
    assert await one.step(seen(uneven, 0)) is None
    trail.keep_roll(replace(roll, ended_ms=1))
    answer(uneven, POLICIES, 500, b"no metadata")
    assert await one.step(seen(uneven, 1)) is None
    answer(uneven, POLICIES, 200, b"{}")
    assert await one.step(seen(uneven, 2)) is not None
    again = [said for said in logged if said.startswith("rounds are made again")]
    assert again == ["rounds are made again: policies can be read"]
    assert [(each.subject, each.is_over) for each in notices[:2]] == [
        ("rounds", False),
        ("rounds", True),
    ]


class Members:
    """An admin API that answers every request alike."""

    def __init__(self, body: bytes, status: int = 200) -> None:
        self._body, self._status = body, status
        self.asked: list[str] = []

    async def get(self, url: str) -> bytes:
        self.asked.append(url)
        if self._status != 200:
            raise RefusedError("refused", self._status)
        return self._body


@pytest.mark.parametrize(
    ("body", "status", "members"),
    [(b'["t/a", "t/b"]', 200, {"t/a", "t/b"}), (b"[]", 200, {"t/a"}), (b"", 200, {"t/a"}),
     (b"", 204, {"t/a"}), (b"", 404, {"t/a"})],
)  # fmt: skip
async def test_a_group_has_at_least_the_member_that_is_known(
    body: bytes, status: int, members: set[str]
) -> None:
    admin = Members(body, status)
    found = await PolicyReader(cast("Admin", admin)).members("http://b", "c 1", "g 1", "t/a")
    assert found == members
    assert admin.asked == ["http://b/namespaces/c%201/antiAffinity/g%201?tenant=t"]


async def test_a_group_whose_members_are_refused_cannot_be_read() -> None:
    reader = PolicyReader(cast("Admin", Members(b"", 503)))
    with pytest.raises(CannotSeeError, match="antiAffinity/g"):
        await reader.members("http://b", "c", "g", "t/a")


async def test_groups_are_believed_for_some_rounds_and_new_namespaces_asked_for_at_once(
    uneven: FakeCluster, http: aiohttp.ClientSession
) -> None:
    policies = RoundPolicies(http, [uneven.admin_url])
    at, new = GROUP.format("public/default"), GROUP.format("t/new")
    answer(uneven, at, 200, b"group")
    own = f"pulsar/{uneven.names[0]}/0x00000000_0xffffffff"
    uneven.carry(uneven.brokers[0], own, 1.0)

    def asked(path: str) -> int:
        return sum(each.asked.count(path) for each in uneven.brokers)

    assert (await policies.read(seen(uneven))).groups == {"public/default": "group"}
    answer(uneven, at, 200, b"other")
    answer(uneven, new, 200, b"group")
    uneven.carry(uneven.brokers[1], bundle_name(1, "t/new"), 5.0)
    for number in range(1, GROUPS_FOR):
        groups = (await policies.read(seen(uneven, number))).groups
        assert groups == {"public/default": "group", "t/new": "group"}
    assert (asked(at), asked(new)) == (1, 1)
    assert (await policies.read(seen(uneven, 20))).groups["public/default"] == "other"
    assert (asked(at), asked(new)) == (2, 1)
    assert not any("127.0.0.1" in path for each in uneven.brokers for path in each.asked)


async def test_a_plan_heeds_them_too(
    uneven: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["advise", "--admin-url", uneven.admin_url, *SET]
    answer(uneven, POLICIES, 200, policy(["public/.*"], NOBODYS))
    assert await asyncio.to_thread(main, words) == 0
    said = capsys.readouterr().out
    assert "0 moves" in said
    assert "is no broker of isolation policy 'theirs'" in said
    answer(uneven, POLICIES, 500, b"no metadata")
    assert await asyncio.to_thread(main, words) == 2
    assert "nothing is planned without policies" in capsys.readouterr().err


async def test_what_a_namespace_of_the_group_is_on_is_no_place_for_another(
    cluster: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter
) -> None:
    first, second, _ = [await cluster.add_broker() for _ in range(3)]
    for index in range(4):
        cluster.carry(first, bundle_name(index, f"t/n{index}"), 9000.0)
        answer(cluster, GROUP.format(f"t/n{index}"), 200, b"group")
    cluster.carry(second, bundle_name(9, "t/there"), 1.0)
    answer(cluster, GROUP.format("t/there"), 200, b'"Group"')
    one = balancer(http, [cluster.admin_url], history, LogLines())
    made = await made_of(one, seen(cluster))
    assert made.moves[0].destination == cluster.names[2], "the second has one of them"
    assert f"/admin/v2/namespaces/{CLUSTER}/antiAffinity/group" not in first.asked


async def test_of_several_clusters_it_is_the_one_that_lists_the_broker(
    uneven: FakeCluster, http: aiohttp.ClientSession
) -> None:
    listed = json.dumps(uneven.names).encode()
    answer(uneven, "/admin/v2/clusters", 200, b'["far", "global", "fake"]')
    answer(uneven, "/admin/v2/brokers/far", 500, b"out of reach")
    answer(uneven, f"/admin/v2/brokers/{CLUSTER}", 200, listed)
    answer(uneven, POLICIES, 200, policy(["public/.*"], NOBODYS))
    policies = RoundPolicies(http, [uneven.admin_url])
    assert "theirs" in (await policies.read(seen(uneven))).isolation
    answer(uneven, f"/admin/v2/brokers/{CLUSTER}", 200, b"[]")
    with pytest.raises(CannotSeeError, match=r"of which cluster it is \(far: HTTP 500"):
        await policies.read(seen(uneven))


def test_what_brokers_report_of_themselves_is_what_filters_go_by() -> None:
    said = {name: np.array(value) for name, value in {
        "broker": ["a:1", "b:1"], "load_manager": ["", "x.Extensible"],
        "broker_version": ["4.0.7", ""], "persistent_topics": [True, False],
        "non_persistent_topics": [False, True], "topics": [3, 4],
    }.items()}  # fmt: skip
    assert facts_of(said) == {
        "a:1": BrokerFacts(MODULAR, "4.0.7", True, False, 3),
        "b:1": BrokerFacts("x.Extensible", None, False, True, 4),
    }


async def test_of_many_brokers_three_are_asked_before_policies_cannot_be_read(
    uneven: FakeCluster, http: aiohttp.ClientSession
) -> None:
    for _ in range(2):
        await uneven.add_broker()
    answer(uneven, POLICIES, 500, b"no metadata")
    with pytest.raises(CannotSeeError, match="no metadata"):
        await RoundPolicies(http, [uneven.admin_url]).read(seen(uneven))
    assert sum(POLICIES in each.asked for each in uneven.brokers) == 3


def put(url: str, value: object) -> None:
    body = json.dumps(value).encode()
    asked = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method="POST")
    urllib.request.urlopen(asked).close()


LEAST_MOVED = 1
"""Messages/s of a bundle, below which no round moves it."""


async def looked(
    http: aiohttp.ClientSession, url: str, producers: list[pulsar.Producer]
) -> FoldState:
    """A state in which bundles carry enough to be moved, of looks while messages are sent.

    The first rate that a busy machine reports may be far below one message/s.
    """
    collector, state = Collector(http, [url], wall_clock_ms), FoldState.empty()
    while (state.averages["short_msg_rate_in"] >= 2 * LEAST_MOVED).sum() < 2:
        for each in producers:
            for _ in range(10):
                await asyncio.to_thread(each.send, b"x" * 100)
        state = fold(state, Batch.of(await collector.poll()))
    return state


async def test_on_real_brokers_no_round_goes_against_a_policy(
    http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    config = {
        "loadBalancerReportUpdateMinIntervalMillis": 100,
        "minUnloadMessage": LEAST_MOVED,
        "minUnloadMessageThroughput": 1,
    }
    # As operators have it who leave balancing to us.
    conf = {name: str(value) for name, value in config.items()}
    conf["loadBalancerSheddingEnabled"] = "false"
    by = strategy_from(Properties(conf), shedder="UniformLoadShedder", decide_every_s=0.001)
    topics = [f"persistent://public/default/t{number}" for number in range(4)]
    with Cluster(2, config={**config, "defaultNumberOfNamespaceBundles": 8}) as cluster:
        first = cluster.brokers[0]
        client = pulsar.Client(cluster.service_url)
        try:
            producers = [await asyncio.to_thread(client.create_producer, each) for each in topics]
            for topic in topics:
                if cluster.owner(topic) is not first:
                    await asyncio.to_thread(cluster.unload, topic, first)
            state = await looked(http, cluster.admin_url, producers)

            async def round_(name: str) -> tuple[Round, LogLines]:
                logged, urls = LogLines(), [cluster.admin_url]
                history = journal_of(tmp_path / name)
                made = await balancer(http, urls, history, logged, by).step(state)
                assert made is not None
                return made, logged

            made, logged = await round_("before")
            assert made.moves, logged
            base = f"{cluster.admin_url}/admin/v2/clusters/standalone"
            rules = json.loads(policy(["public/default"], NOBODYS))["theirs"]
            await asyncio.to_thread(put, f"{base}/namespaceIsolationPolicies/apart", rules)
            made, logged = await round_("after")
            assert not made.moves
            assert "is no broker of isolation policy 'apart'" in logged
        finally:
            await asyncio.to_thread(client.close)
