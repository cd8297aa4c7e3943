"""What is clicked in the console stands in the history: by which role, why, and what it moved."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from counterpoise.console import actions
from counterpoise.console.actions import Actions, ActionState, Activity, BusyError
from counterpoise.console.roles import Operator
from counterpoise.decide.balancing.moves import MoveOutcome, MoveStatus, RoundMemory
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
    asked = [path for method, path in desk.cluster.brokers[0].requests if method == "PUT"]
    assert asked == [f"/admin/v2/namespaces/{bundle}/split?unload=false"]


async def test_a_bundle_is_worked_on_once_at_a_time_and_again_afterwards(desk: Desk) -> None:
    desk.cluster.hang_unload = asyncio.Event()
    plan = desk.plan()
    running = desk.move(plan)
    with pytest.raises(BusyError, match=f"is being worked on already: {TITLE}, asked for by anon"):
        desk.move(plan)
    desk.cluster.hang_unload.set()
    await over(running)
    again = desk.move(plan)
    assert [each.number for each in desk.actions.activities] == [again.number, running.number]
    await over(again)


async def test_a_pause_holds_what_is_clicked_back_and_keeps_nothing_of_it(desk: Desk) -> None:
    write_control(open_location(desk.home), Control(Wish.PAUSE, START, "a release"))
    activity = desk.move(desk.plan())
    assert await over(activity) is ActionState.FAILED
    assert "a release" in activity.log[-1]
    assert (desk.cluster.unloads, desk.trail.actions()) == ([], [])


async def test_a_page_hears_of_the_end_after_the_last_move(desk: Desk) -> None:
    heard = list[int]()
    desk.actions = Actions(lambda: NOW, lambda _: heard.append(desk.actions.version), desk.trail)
    assert await over(desk.move(desk.plan())) is ActionState.DONE
    assert desk.actions.version > heard[-1]


@pytest.mark.parametrize("status", MoveStatus)
async def test_an_action_is_done_if_its_bundle_has_left_its_broker(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, status: MoveStatus
) -> None:
    plan, has_left = desk.plan(), {"moved", "already there", "elsewhere", "unowned"}

    async def carry_out(moves: Any, brokers: Any, done: Any, first: Any) -> None:
        for each in moves:
            away = each.source, each.destination, MoveStatus.MOVED, "", NOW, NOW, ""
            await done(MoveOutcome(each.id, each.poll_id, each.bundle, *away))
        await done(replace(desk.ended[-1], status=status))

    monkeypatch.setattr(actions, "Executor", lambda *_: SimpleNamespace(carry_out=carry_out))
    ended = await over(desk.move(plan))
    assert ended is (ActionState.DONE if status.value in has_left else ActionState.FAILED)


async def test_what_runs_is_listed_however_much_ended_since_and_is_stopped_at_the_end(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "KEPT", 2)
    desk.cluster.hang_unload = asyncio.Event()
    runs = desk.move(desk.plan())
    for number in range(3):
        plan = ActionPlan(Action.SPLIT, f"Split {number}", bundle=wide_bundle(number))
        last = desk.actions.split(plan, Operator(), desk.cluster.admin_url)
        await over(last)
    assert [each.title for each in desk.actions.activities] == ["Split 2", "Split 1", TITLE]
    await desk.actions.close()
    assert runs.state is ActionState.STOPPED
    desk.cluster.hang_unload.set()


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        (lambda span: {"boundaries": span.split("_")}, "the cluster accepted it, and did not"),
        (lambda _: {}, "the cluster could not be asked: 'boundaries'"),
        (lambda _: None, "the cluster could not be asked: 'NoneType' object"),
    ],
)
async def test_a_split_that_is_granted_and_not_done_has_failed(
    desk: Desk, parts: Callable[[str], object], why: str
) -> None:
    bundle = wide_bundle(0)
    namespace, _, span = bundle.rpartition("/")
    edges = json.dumps(parts(span)).encode()
    desk.cluster.brokers[0].answers[f"/admin/v2/namespaces/{namespace}/bundles"] = (200, edges)
    plan = ActionPlan(Action.SPLIT, f"Split {bundle}", bundle=bundle)
    activity = desk.actions.split(plan, Operator(), desk.cluster.admin_url)
    assert await over(activity) is ActionState.FAILED
    assert why in activity.log[-1]
    assert [each.ended_ms for each in desk.trail.actions()] == [NOW]


async def test_a_drain_that_leaves_bundles_names_each_with_its_reason(desk: Desk) -> None:
    drained = SimpleNamespace(left={"a/b/0x0_0x1": "it went back"})
    drain: Any = SimpleNamespace(carry_out=AsyncMock(return_value=drained))
    made = decide(seen(desk.cluster), RoundMemory(), strategy())
    plan = ActionPlan(Action.DRAIN, "Drain", moves=made.moves)
    activity = desk.actions.drain(plan, Operator(), lambda *_: drain, made)
    assert await over(activity) is ActionState.FAILED
    assert activity.log == ["left: a/b/0x0_0x1: it went back"]
    drained.left = {}
    activity = desk.actions.drain(plan, Operator(), lambda *_: drain, made)
    assert await over(activity) is ActionState.DONE
    assert activity.log == ["the broker is empty"]
