"""A drain of a cluster that is its API, and what may hinder it."""

import json
from collections.abc import Callable
from dataclasses import replace

import aiohttp

from counterpoise.decide.balancing.drain import DrainRules
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.collect.admin import AdminOptions
from counterpoise.pipeline.drive.drain import BrokerDrain, DrainOptions, DrainResult
from counterpoise.pipeline.drive.snapshot import SnapshotReader
from counterpoise.pipeline.executor import ExecutorOptions
from tests.pipeline.fake_cluster import CLUSTER, FakeBroker, FakeCluster

QUICK = DrainOptions(moves=ExecutorOptions(verify_within_s=60.0, again_after_s=0.01))
SOON = replace(QUICK, moves=replace(QUICK.moves, verify_within_s=3.0))
"""For moves some of which never end: a test waits so long for those."""
POLICIES = f"/admin/v2/clusters/{CLUSTER}/namespaceIsolationPolicies"


def drain(
    cluster: FakeCluster,
    http: aiohttp.ClientSession,
    broker: str = "",
    rules: DrainRules | None = None,
    options: DrainOptions = QUICK,
    log: Callable[[str], None] = lambda sentence: None,
    clock_ms: Callable[[], int] = wall_clock_ms,
    asked: AdminOptions | None = None,
) -> BrokerDrain:
    """The drain of a broker, the first of the cluster by default."""
    reader = SnapshotReader(http, [cluster.admin_url], wall_clock_ms, options=asked)
    broker = broker or cluster.names[0]
    return BrokerDrain(http, reader, broker, rules or DrainRules(), clock_ms, log, options)


def sheds_not(cluster: FakeCluster) -> None:
    """Its brokers say that they leave it to others to move bundles."""
    own = b'{"loadBalancerSheddingEnabled": "false"}'
    for each in cluster.brokers:
        for kind in ("runtime", "values"):
            each.answers[f"/admin/v2/brokers/configuration/{kind}"] = (200, own)


def heal(cluster: FakeCluster) -> None:
    cluster.forget_unload = False


async def drained(each: BrokerDrain) -> DrainResult:
    return await each.carry_out(await each.plan())


class SlowsDown(list[tuple[str, str]]):
    """The unloads of a cluster one of whose brokers is slow from the first on."""

    def __init__(self, broker: FakeBroker) -> None:
        super().__init__()
        self._broker = broker

    def append(self, each: tuple[str, str]) -> None:
        self._broker.latency_ms = 80.0
        super().append(each)


def policy(namespaces: list[str], primary: list[str]) -> bytes:
    failover = {"policy_type": "min_available", "parameters": {"min_limit": "1"}}
    data = {
        "namespaces": namespaces,
        "primary": primary,
        "secondary": [],
        "auto_failover_policy": failover,
    }
    return json.dumps({"theirs": data}).encode()
