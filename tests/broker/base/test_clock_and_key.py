"""What all parts of a broker share: the clock of its topics, and its cluster's key."""

import asyncio

from counterpoise.broker.base.clock import WallClock
from counterpoise.broker.base.cluster_key import PROPERTY, ClusterKey
from counterpoise.metadata import MemoryTree
from tests.broker.misbehaving_store import MisbehavingStore


def test_a_clock_that_was_advanced_is_ahead_by_as_much() -> None:
    clock, ahead = WallClock(), WallClock()
    for _ in range(2):
        ahead.advance(1800)
    assert 3599 < ahead() - clock() < 3601


async def test_brokers_that_start_at_once_show_one_key() -> None:
    tree = MemoryTree()
    stores = [MisbehavingStore(tree) for _ in range(3)]
    for each in stores:
        each.takes_turns = 1
    keys = [ClusterKey(each) for each in stores]
    made = await asyncio.gather(*(each.get() for each in keys))
    assert len(set(made)) == 1
    assert all([await each.is_shown({PROPERTY: made[0]}) for each in keys])
    assert not await keys[0].is_shown({PROPERTY: made[0][:-1]})
