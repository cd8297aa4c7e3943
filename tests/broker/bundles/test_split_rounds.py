"""Bundles that have grown too big: which are split, and what goes on after a failure."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.bundles.auto_split import AutoSplit
from counterpoise.broker.bundles.tally import BundleTally
from counterpoise.decide.plan import Decision, DecisionKind, StrategyPlan
from counterpoise.decide.splitting.options import SplitOptions
from counterpoise.metadata import StoreUnavailable
from counterpoise.names.bundle import BundleName
from counterpoise.quota import SECOND_NS
from counterpoise.wire.errors import ServerError
from tests.quota.jumping import now_ns, on_jumping_loop, pass_time

ME, OTHER = "b1:8080", "b2:8080"


def named(number: int) -> str:
    return f"public/n{number}/0x00000000_0xffffffff"


def decision(bundle: str, *cuts: int, owner: str = ME, reason: str = "Topics") -> Decision:
    return Decision(
        DecisionKind.SPLIT, bundle, owner, None, reason, "{bundle} is too big", boundaries=cuts
    )


class Cluster:
    """What a broker's `AutoSplit` is given; some splits fail, and one finds no place to split."""

    def __init__(self, *decisions: Decision, unloads: bool = True) -> None:
        self.unloads = unloads
        self.decisions = decisions
        self.options = SplitOptions(interval_minutes=2)
        self.failures: dict[str, Exception] = {}
        self.whole: set[str] = set()
        self.looked_at_s: list[float] = []
        self.splits: list[tuple[str, tuple[int, ...], bool]] = []
        self.tally = BundleTally()
        self.auto_split = AutoSplit(ME, self, self, lambda: self.options, self, self.tally)

    async def policies_read_only(self) -> bool:
        return False

    async def find(self, options: SplitOptions) -> StrategyPlan[Any]:
        self.looked_at_s.append(now_ns() / SECOND_NS)
        if "store" in self.failures:
            raise self.failures["store"]
        return StrategyPlan(self.decisions, (), None)

    async def split(
        self, bundle: BundleName, *, at: Sequence[int] = (), unload: bool = False
    ) -> Sequence[Any]:
        self.splits.append((str(bundle), tuple(at), unload))
        if str(bundle) in self.failures:
            raise self.failures[str(bundle)]
        return [] if str(bundle) in self.whole else [bundle, bundle]


@pytest.mark.parametrize("unloads", [False, True])
@pytest.mark.parametrize("is_wanted", [False, True])
@on_jumping_loop
async def test_a_broker_splits_its_own_bundles_where_their_decisions_say(
    unloads: bool, is_wanted: bool
) -> None:
    """One that fails, and one with no place to split, keep no other from its turn."""
    cluster = Cluster(
        decision(named(1), 7, 9),
        decision(named(2), owner=OTHER),
        decision(named(3)),
        decision("no bundle"),
        decision(named(4)),
        decision(named(5)),
        decision(named(6), 5, reason="MsgRate"),
        unloads=unloads,
    )
    cluster.options = SplitOptions(auto_unload_enabled=is_wanted)
    cluster.failures = {
        named(3): BrokerError(ServerError.ServiceNotReady, "it moved"),
        named(4): StoreUnavailable("a split", "it is away"),
    }
    cluster.whole = {named(5)}
    split = await cluster.auto_split.check()
    assert [str(each) for each in split] == [named(1), named(6)]
    unload = unloads and is_wanted
    assert cluster.splits == [
        (named(number), cuts, unload)
        for number, cuts in ((1, (7, 9)), (3, ()), (4, ()), (5, ()), (6, (5,)))
    ]
    assert cluster.tally.split_for == {"Topics": 1, "MsgRate": 1}


@on_jumping_loop
async def test_bundles_are_looked_for_every_interval_though_the_store_was_away() -> None:
    cluster = Cluster(decision(named(1)))
    cluster.failures = {"store": StoreUnavailable("reports", "it is away")}
    looks = asyncio.ensure_future(cluster.auto_split.run())
    await pass_time(250)
    assert (cluster.splits, looks.done()) == ([], False)
    cluster.failures = {}
    await pass_time(120)
    looks.cancel()
    assert cluster.looked_at_s == [120, 240, 360]
    assert len(cluster.splits) == 1
