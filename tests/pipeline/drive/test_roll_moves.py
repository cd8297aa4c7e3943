"""Where the bundles of a rolling restart go, and what its last broker is filled with."""

import itertools
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from counterpoise.decide.balancing.moves import MoveStatus
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.drive.action_trail import ActionKind, ActionMove, OperatorAction
from counterpoise.pipeline.drive.roll import RollStoppedError
from counterpoise.pipeline.publish_latencies import LatencyWatchOptions
from counterpoise.pipeline.tables.control import Control, Wish, write_control
from tests.pipeline.drive.drains import SlowsDown
from tests.pipeline.drive.roller import IMPATIENT, QUICK, roller_of
from tests.pipeline.drive.test_approved import LogLines
from tests.pipeline.fake_cluster import bundle_name

MOVED, FAILED = MoveStatus.MOVED, MoveStatus.FAILED


@pytest.mark.parametrize(
    ("restarted_carries", "moved", "goes_to"),
    [(1000.0, (), 0), (5000.0, (), 2), (5000.0, (MOVED,), 0), (5000.0, (FAILED,), 2)],
)
async def test_a_bundle_goes_to_a_restarted_broker_that_can_carry_it_or_that_has_to(
    tmp_path: Path, restarted_carries: float, moved: tuple[MoveStatus, ...], goes_to: int
) -> None:
    """Elsewhere it would move again; the third broker, which is to be restarted, is idle."""
    async with roller_of(tmp_path, 3, 0) as roller:
        first, second, _ = roller.cluster.brokers
        roller.cluster.carry(first, bundle_name(1), restarted_carries)
        roller.cluster.carry(second, bundle_name(2), 1000.0)
        by_another = ActionMove(bundle_name(2), "a:1", "b:1", MOVED.value, 1, 2)
        roller.trail.keep(OperatorAction(ActionKind.MOVE, 1, "ann", "", moves=(by_another,)))
        await roller.from_here(first.name, moved={bundle_name(2): moved})
        assert roller.cluster.unloads[0] == (bundle_name(2), roller.cluster.names[goes_to])


async def test_the_last_broker_is_filled_with_what_policies_allow_and_what_moved_less_than_twice(
    tmp_path: Path,
) -> None:
    """Two of a group never share it; and the first to go, which moved once, may move once more."""
    async with roller_of(tmp_path, 3, 0) as roller:
        second, third, _ = roller.cluster.brokers
        one, two, twice, *others = (
            bundle_name(number, namespace)
            for number, namespace in enumerate(("t/b", "t/a", "t/z", "t/0", "t/1", "t/2"))
        )
        for bundle in (one, two, twice, *others[:1]):
            roller.cluster.carry(second, bundle, 1000.0)
        for bundle in others[1:]:
            roller.cluster.carry(third, bundle, 1000.0)
        for each in roller.cluster.brokers:
            for namespace in ("t/a", "t/b"):
                each.answers[f"/admin/v2/namespaces/{namespace}/antiAffinity"] = (200, b"group")
            members = (200, b'["t/a", "t/b"]')
            each.answers["/admin/v2/namespaces/fake/antiAffinity/group"] = members
        roller.clock_ms = partial(next, itertools.count(wall_clock_ms(), 200_000))
        before = {one: (MOVED, FAILED), twice: (MOVED, MOVED)}
        await roller.from_here(*roller.cluster.names, moved=before)
        last = roller.cluster.names[-1]
        assert {*roller.cluster.unloads} == {(one, last), (others[0], last)}
        assert roller.machines.restarted == []


async def test_the_last_broker_is_filled_once_the_cluster_is_well(tmp_path: Path) -> None:
    async with roller_of(tmp_path, 3, 6) as roller:
        last, other = roller.cluster.leader, roller.cluster.brokers[1]
        roller.logged = LogLines(f"{last} is back", lambda: setattr(other, "silent", True))
        with pytest.raises(RollStoppedError, match=f"{other.name} cannot be given bundles"):
            await roller.whole(IMPATIENT)
        assert last not in roller.cluster.owners.values()
        other.silent = False
        await roller.resumed()
        assert last in roller.cluster.owners.values()
        assert len(roller.machines.restarted) == 3


async def test_a_pause_holds_the_filling_of_the_last_broker_back(tmp_path: Path) -> None:
    async with roller_of(tmp_path, 2, 0) as roller:
        for number in range(8):
            roller.cluster.carry(roller.cluster.brokers[0], bundle_name(number), 1000.0)
        pause = Control(Wish.PAUSE, 1, "an incident")
        roller.logged = LogLines("moved ", lambda: write_control(roller.trail.place, pause))
        one_by_one = replace(
            QUICK, drain=replace(QUICK.drain, moves=replace(QUICK.drain.moves, at_once=1))
        )
        await roller.from_here(*roller.cluster.names, options=one_by_one)
        assert len(roller.cluster.unloads) == 1


async def test_the_filling_of_the_last_broker_stops_once_publishing_is_slow(tmp_path: Path) -> None:
    async with roller_of(tmp_path, 3, 0) as roller:
        cluster, last = roller.cluster, roller.cluster.brokers[-1]
        for number in range(12):
            cluster.carry(cluster.brokers[number % 2], bundle_name(number), 1000.0)
        for each in cluster.brokers:
            each.latency_ms = 5.0
        cluster.takes_s, cluster.unloads = 0.05, SlowsDown(last)
        latency = LatencyWatchOptions(every_s=0.01, first_s=0.01)
        options = replace(
            QUICK,
            drain=replace(
                QUICK.drain, moves=replace(QUICK.drain.moves, at_once=1, latency=latency)
            ),
        )
        words = f"{last.name} has not got its whole share: publish latency of {last.name} rose"
        with pytest.raises(RollStoppedError, match=words):
            await roller.from_here(*cluster.names, options=options)
        assert 0 < len(cluster.unloads) < 4, "a third of the load is its share"
        state = roller.trail.roll()
        assert state
        assert state.under_way
        assert all(each.ended_ms for each in roller.trail.actions())


async def test_a_bundle_that_can_go_nowhere_stops_it_before_the_broker_is_stopped(
    tmp_path: Path,
) -> None:
    async with roller_of(tmp_path) as roller:
        [first, *_] = await roller.roll().plan()
        only = f'{{"p": {{"namespaces": ["public/.*"], "primary": ["{first}"], "secondary": []}}}}'
        for each in roller.cluster.brokers:
            path = "/admin/v2/clusters/fake/namespaceIsolationPolicies"
            each.answers[path] = (200, only.encode())
        with pytest.raises(RollStoppedError, match="is not restarted"):
            await roller.whole()
        assert roller.machines.restarted == []
        await roller.whole(replace(QUICK, drain=replace(QUICK.drain, partial=True)))
        assert first in roller.machines.not_empty, "as was asked for"


async def test_a_broker_on_which_bundles_are_left_is_not_restarted(tmp_path: Path) -> None:
    async with roller_of(tmp_path) as roller:
        roller.cluster.refuse_unload = 503
        given_up = (
            r"since 4 bundles are left on it \(.*: given up after attempt 1: unload: HTTP 503"
        )
        with pytest.raises(RollStoppedError, match=given_up):
            await roller.whole(replace(QUICK, drain=replace(QUICK.drain, attempts=1)))
        assert roller.machines.restarted == []


async def test_the_only_broker_of_a_cluster_is_not_restarted(tmp_path: Path) -> None:
    async with roller_of(tmp_path, 1, 2) as roller:
        with pytest.raises(RollStoppedError, match="no other could have its bundles"):
            await roller.whole()
        assert roller.machines.restarted == []
