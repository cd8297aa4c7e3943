"""What is clicked in the console stands in the history: by which role, why, and what it moved."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from counterpoise.console.actions import Actions, ActionState, Activity
from counterpoise.console.roles import Operator
from counterpoise.decide.balancing.moves import MoveOutcome, RoundMemory
from counterpoise.decide.balancing.round import decide
from counterpoise.picture.action_plans import Action, ActionPlan
from counterpoise.pipeline.drive.action_trail import ActionKind, ActionTrail
from counterpoise.pipeline.tables.control import Control, Wish, write_control
from counterpoise.pipeline.tables.location import open_location
from tests.decide.balancing.test_round import strategy
from tests.load.story import START
from tests.pipeline.fake_cluster import FakeCluster, bundle_name, wide_bundle
from tests.pipeline.rounds import seen
from tests.waiting import until

NOW = START + 1000
TITLE = "Even it out"


@dataclass
class Desk:
    """A console's actions on a cluster that is its admin API, and the history that keeps them."""

    cluster: FakeCluster
    home: Path
    ended: list[MoveOutcome] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.trail = ActionTrail(open_location(self.home))
        self.actions = Actions(lambda: NOW, self.ended.append, self.trail)

    def plan(self) -> ActionPlan:
        made = decide(seen(self.cluster), RoundMemory(), strategy())
        assert len(made.moves) > 1
        return ActionPlan(Action.CARRY_OUT, TITLE, moves=made.moves)

    def move(self, plan: ActionPlan) -> Activity:
        names = self.cluster.names
        return self.actions.moves(plan, Operator(), names, lambda name: f"http://{name}")


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with FakeCluster() as cluster:
        first, _, _ = [await cluster.add_broker() for _ in range(3)]
        for index in range(10):
            cluster.carry(first, bundle_name(index), 9000.0 + index)
        made = Desk(cluster, tmp_path)
        yield made
        await made.actions.close()


async def over(activity: Activity) -> ActionState:
    assert activity.task is not None
    await asyncio.wait_for(asyncio.wait([activity.task]), 20)
    return activity.state


async def test_moves_are_kept_with_role_reason_and_part(desk: Desk) -> None:
    plan = desk.plan()
    assert await over(desk.move(plan)) is ActionState.DONE
    [kept] = desk.trail.actions()
    assert (kept.kind, kept.why) == (ActionKind.MOVE, TITLE)
    assert (kept.who, kept.at_ms, kept.ended_ms) == (Operator().name, NOW, NOW)
    wanted = {(move.bundle, move.destination, move.part) for move in plan.moves}
    assert {(move.bundle, move.destination, move.part) for move in kept.moves} == wanted
    assert len(desk.ended) == len(wanted)


async def test_an_action_that_is_stopped_is_kept_as_ended_with_what_it_moved(desk: Desk) -> None:
    desk.cluster.hang_unload = asyncio.Event()
    activity = desk.move(desk.plan())
    await until(lambda: desk.cluster.unloads, "an unload")
    [begun] = desk.trail.actions()
    assert (begun.kind, begun.ended_ms) == (ActionKind.MOVE, 0)
    desk.actions.stop(activity)
    desk.cluster.hang_unload.set()
    assert await over(activity) is ActionState.STOPPED
    [kept] = desk.trail.actions()
    assert (kept.id, kept.ended_ms) == (begun.id, NOW)
    assert {move.bundle for move in kept.moves} <= {bundle for bundle, _ in desk.cluster.unloads}


async def test_a_split_is_kept(desk: Desk) -> None:
    bundle = wide_bundle(0)
    plan = ActionPlan(Action.SPLIT, f"Split {bundle}", bundle=bundle)
    activity = desk.actions.split(plan, Operator(), desk.cluster.admin_url)
    assert await over(activity) is ActionState.DONE
    [kept] = desk.trail.actions()
    assert (kept.kind, kept.why, kept.moves) == (ActionKind.SPLIT, f"Split {bundle}", ())
    assert kept.ended_ms == NOW


async def test_a_pause_holds_what_is_clicked_back_and_keeps_nothing_of_it(desk: Desk) -> None:
    write_control(open_location(desk.home), Control(Wish.PAUSE, START, "a release"))
    activity = desk.move(desk.plan())
    assert await over(activity) is ActionState.FAILED
    assert "a release" in activity.log[-1]
    assert (desk.cluster.unloads, desk.trail.actions()) == ([], [])
