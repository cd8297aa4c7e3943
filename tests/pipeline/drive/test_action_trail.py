"""What operators do by hand is kept with who and why, held back by a pause, and heeded."""

import asyncio
import getpass
import json
import threading
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.app.main import main
from counterpoise.decide.balancing.approval import ApprovalRules
from counterpoise.decide.balancing.drain import DrainRules
from counterpoise.decide.balancing.moves import MoveOutcome, MoveStatus, RoundMemory
from counterpoise.decide.balancing.round import BalancingStrategy, decide
from counterpoise.load.fold import Batch, fold
from counterpoise.pipeline.balancer import Balancer
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.drive.action_trail import (
    ActionKind,
    ActionMove,
    ActionRefusedError,
    ActionTrail,
    NewAction,
    OperatorAction,
    cordoned,
    moved_by_hand,
    not_ended,
)
from counterpoise.pipeline.drive.drain import BrokerDrain, DrainOptions, DrainRefusedError
from counterpoise.pipeline.drive.roll_state import new_roll
from counterpoise.pipeline.drive.snapshot import SnapshotReader
from counterpoise.pipeline.executor import Executor
from counterpoise.pipeline.tables.control import Control, Wish, write_control
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.schema import JournalKind
from tests.decide.balancing.test_round import strategy
from tests.load.story import START, poll
from tests.pipeline.drive.drains import QUICK, SOON
from tests.pipeline.fake_cluster import FakeCluster
from tests.pipeline.histories import journal_of, kept
from tests.pipeline.rounds import DO_IT, LogLines, loads, made_of, seen, seen_as

ONE_BY_ONE = replace(QUICK.moves, at_once=1)
HAND = [ActionKind.DRAIN, ActionKind.REFILL, ActionKind.RELEASE]


@pytest.fixture
def trail(tmp_path: Path) -> ActionTrail:
    """Of an empty history."""
    return ActionTrail(open_location(tmp_path))


def outcome(bundle: str, source: str, to: str, *, ended_ms: int) -> MoveOutcome:
    return MoveOutcome(
        f"{ended_ms}-x", ended_ms, bundle, source, to, MoveStatus.MOVED, to, ended_ms - 500,
        ended_ms,
    )  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from(HAND), st.sampled_from("abc")), max_size=20))
def test_a_broker_is_cordoned_while_its_last_action_was_a_drain(
    done: list[tuple[ActionKind, str]],
) -> None:
    actions = [OperatorAction(kind, at, "me", broker=b) for at, (kind, b) in enumerate(done)]
    expected = {b for b in "abc" if [k for k, of in done if of == b][-1:] == [ActionKind.DRAIN]}
    assert set(cordoned(actions)) == expected
    assert set(cordoned(reversed(actions))) == expected, "in whatever order they are read"


def test_each_process_sees_what_others_keep_beside_it(trail: ActionTrail, tmp_path: Path) -> None:
    other = ActionTrail(open_location(tmp_path))
    mine = NewAction(trail, ActionKind.DRAIN, "ann", "new disks").begin(START, "b1:80")
    theirs = NewAction(other, ActionKind.UNLOAD, "bob").begin(START)
    mine.ended(outcome("t/n/1", "b1:80", "b2:80", ended_ms=START + 700), 0.25)
    [drain, unload] = sorted(other.actions(), key=lambda each: each.who)
    assert (drain.who, drain.why, drain.broker, drain.ended_ms) == ("ann", "new disks", "b1:80", 0)
    assert [(m.bundle, m.destination, m.part) for m in drain.moves] == [("t/n/1", "b2:80", 0.25)]
    assert (unload.kind, unload.who) == (ActionKind.UNLOAD, "bob")
    mine.close(START + 900)
    theirs.close(START + 901)
    assert {each.ended_ms for each in other.actions()} == {START + 900, START + 901}
    for number, damage in enumerate(("{", "[]", "{}", '{"moves": [{"what": 1}]}')):
        (tmp_path / f"action-0000000000001-{number}.json").write_text(damage, "utf-8")
    assert len(other.actions()) == 2, "a file that is none of ours is passed over"


@given(st.sampled_from(MoveStatus), st.sampled_from(["", "b2:80", "b3:80"]), st.floats(0, 1))
def test_a_move_is_kept_as_it_ended_and_where_the_bundle_is_by_then(
    status: MoveStatus, owner: str, part: float
) -> None:
    ended = MoveOutcome("1-x", 1, "t/n/1", "b1:80", "b2:80", status, owner, START, START + 7, "e")
    action = OperatorAction(ActionKind.DRAIN, 5, "ann").with_outcome(ended, part)
    [move] = OperatorAction.from_json(json.loads(json.dumps(action.to_json()))).moves
    assert (move.source, move.destination) == ("b1:80", owner or "b2:80")
    assert (move.started_ms, move.ended_ms, move.error) == (START, START + 7, "e")
    assert (move.part, move.moved) == (part, status in (MoveStatus.MOVED, MoveStatus.ELSEWHERE))


def test_an_action_that_ended_is_no_longer_under_way_whatever_the_clock_said(
    trail: ActionTrail, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown() -> str:
        raise KeyError("uid 1234")

    monkeypatch.setattr(getpass, "getuser", unknown)
    NewAction(trail, ActionKind.DRAIN).begin(0, "b1:80").close(0)
    [action] = trail.actions()
    assert action.ended_ms
    assert action.who.startswith("unknown@")


def test_who_else_is_at_work_on_a_broker_is_named(trail: ActionTrail) -> None:
    trail.begin(ActionKind.DRAIN, START, who="ann", why="a hot disk", broker="b1:80")
    trail.begin(ActionKind.DRAIN, START, who="bob", broker="b2:80")
    trail.keep(
        OperatorAction(ActionKind.DRAIN, START, "eve", "", "b1:80", id="0", ended_ms=START + 1)
    )
    assert not_ended(trail.actions(), "b1:80") == [
        "ann began a drain of b1:80 at 22:13:20 UTC (a hot disk), and it has not ended: it is "
        "under way, or was cut off"
    ]


def test_what_was_moved_by_hand_is_what_went_anywhere_since_but_for_refills() -> None:
    def action(kind: ActionKind, status: MoveStatus, start: int, end: int) -> OperatorAction:
        move = ActionMove(f"t/n/{end}", "a:1", "b:1", status.value, start, end)
        return OperatorAction(kind, start, "ann", moves=(move,))

    done = [
        action(ActionKind.DRAIN, MoveStatus.MOVED, 100, 900),
        action(ActionKind.UNLOAD, MoveStatus.ELSEWHERE, 200, 500),
        action(ActionKind.MOVE, MoveStatus.MOVED, 50, 499),
        action(ActionKind.REFILL, MoveStatus.MOVED, 300, 700),
        action(ActionKind.DRAIN, MoveStatus.FAILED, 300, 800),
    ]
    assert [move.ended_ms for move in moved_by_hand(done, 500)] == [500, 900]
    assert [move.ended_ms for move in moved_by_hand(done)] == [499, 500, 900]


def balancing(
    http: aiohttp.ClientSession, trail: ActionTrail, at: Path, logged: LogLines,
    by: BalancingStrategy | None = None, **rules: int,
) -> Balancer:  # fmt: skip
    executor = Executor(http, lambda: START + 1000, DO_IT)
    return Balancer(
        by or strategy(), journal_of(at), executor, logged.append,
        rules=ApprovalRules(**rules), trail=trail,
    )  # fmt: skip


async def test_a_running_balancer_gives_nothing_to_a_drained_broker_until_it_is_released(
    uneven: FakeCluster, http: aiohttp.ClientSession, trail: ActionTrail, tmp_path: Path
) -> None:
    empty, logged = uneven.names[2], LogLines()
    NewAction(trail, ActionKind.DRAIN, "ann", "new disks").begin(START - 9000, empty).close(START)
    made = await made_of(balancing(http, trail, tmp_path, logged), seen(uneven))
    assert made.moves
    assert {move.destination for move in made.moves} == {uneven.names[1]}
    assert f"{empty} is cordoned: ann drained it: new disks" in logged
    NewAction(trail, ActionKind.RELEASE, "ann").begin(START - 8000, empty).close(START)
    again = await made_of(balancing(http, trail, tmp_path / "again", logged), seen(uneven))
    assert empty in {move.destination for move in again.moves}


async def test_a_broker_that_is_drained_or_released_between_rounds_is_named_once_for_each(
    uneven: FakeCluster, http: aiohttp.ClientSession, trail: ActionTrail, tmp_path: Path
) -> None:
    empty, logged = uneven.names[2], LogLines()
    one = balancing(http, trail, tmp_path, logged)
    for number, kind in enumerate((ActionKind.DRAIN, ActionKind.RELEASE)):
        NewAction(trail, kind, "ann").begin(START + number, empty).close(START + number)
        for at in (100, 200):
            await made_of(one, seen(uneven, 1000 * number + at))
    [drained, released] = [said for said in logged if "cordoned" in said]
    assert drained.startswith(f"{empty} is cordoned: ann drained it; it gets nothing until")
    assert released == f"{empty} is not cordoned any more"


async def test_no_round_is_made_of_what_a_drained_broker_alone_reports(
    uneven: FakeCluster, http: aiohttp.ClientSession, trail: ActionTrail, tmp_path: Path
) -> None:
    """The others do not answer: what they carried at the poll before is no basis of a round."""
    full, *others = uneven.names
    reported = loads(uneven)
    NewAction(trail, ActionKind.DRAIN, "ann").begin(START, full).close(START)
    state = fold(seen_as(reported, 0), Batch.of(poll(1, {**reported, **dict.fromkeys(others)})))
    assert await balancing(http, trail, tmp_path, LogLines()).step(state) is None
    assert kept(tmp_path, JournalKind.ROUND) == []


async def test_no_round_is_made_while_brokers_are_restarted_one_after_the_other(
    uneven: FakeCluster, http: aiohttp.ClientSession, trail: ActionTrail, tmp_path: Path
) -> None:
    """The process that does it may have been killed: it goes on where it was, by and by."""
    state = new_roll(tuple(uneven.names), START, "ann", "")
    trail.keep_roll(state)
    logged = LogLines()
    balancer = balancing(http, trail, tmp_path, logged)
    for number in range(2):
        assert await balancer.step(seen(uneven, number)) is None
    assert logged == [
        f"no round is made: rolling restart {state.id} by ann is under way: 0 of 3 brokers "
        "restarted (counterpoise roll --abandon gives it up)"
    ]
    trail.keep_roll(replace(state, ended_ms=START, abandoned=True))
    assert await balancer.step(seen(uneven, 2)) is not None
    assert logged[1] == "rounds are made again: the rolling restart is over"


@pytest.mark.parametrize(("ago_ms", "left"), [(5_000, 1), (3_599_900, 1), (3_700_000, 2)])
async def test_moves_by_hand_of_the_last_hour_count_among_those_that_are_allowed(
    uneven: FakeCluster,
    http: aiohttp.ClientSession,
    trail: ActionTrail,
    tmp_path: Path,
    ago_ms: int,
    left: int,
) -> None:
    hand = NewAction(trail, ActionKind.MOVE, "bob").begin(START - ago_ms)
    hand.ended(outcome("t/n/1", uneven.names[2], uneven.names[1], ended_ms=START - ago_ms))
    made = await made_of(
        balancing(http, trail, tmp_path, LogLines(), moves_an_hour=2), seen(uneven)
    )
    assert len(made.moves) > 2, "or this test says nothing"
    assert len(uneven.unloads) == left


async def test_what_was_moved_by_hand_has_its_grace_period_and_counts_in_the_hour(
    uneven: FakeCluster, http: aiohttp.ClientSession, trail: ActionTrail, tmp_path: Path
) -> None:
    busiest = decide(seen(uneven), RoundMemory(), strategy()).moves[0].bundle
    hand, logged = NewAction(trail, ActionKind.MOVE, "bob").begin(START - 9000), LogLines()
    hand.ended(outcome(busiest, uneven.names[2], uneven.names[0], ended_ms=START - 5000))
    by_hand = balancing(http, trail, tmp_path, logged, moves_an_hour=2)
    made = await made_of(by_hand, seen(uneven))
    assert len(made.moves) > 1
    assert busiest not in {move.bundle for move in made.moves}
    assert len(uneven.unloads) == 1, "one of the two of this hour was moved by hand"
    assert "2 moves an hour are allowed" in logged


@pytest.mark.parametrize(
    ("grace_minutes", "began", "ended", "is_left_alone"),
    [(30, 40, 20, True), (1440, 300, 300, True), (10, 20, 20, False)],
)
async def test_the_grace_period_of_a_move_by_hand_lasts_from_its_end_however_long_it_is(
    uneven: FakeCluster, http: aiohttp.ClientSession, trail: ActionTrail, tmp_path: Path,
    grace_minutes: int, began: int, ended: int, is_left_alone: bool,
) -> None:  # fmt: skip
    busiest = decide(seen(uneven), RoundMemory(), strategy()).moves[0].bundle
    moved = outcome(busiest, uneven.names[2], uneven.names[0], ended_ms=START - 60_000 * ended)
    moved = replace(moved, started_at_ms=START - 60_000 * began)
    NewAction(trail, ActionKind.MOVE, "bob").begin(START - 60_000 * began).ended(moved)
    by = strategy(grace_minutes=grace_minutes)
    made = await made_of(balancing(http, trail, tmp_path, LogLines(), by), seen(uneven))
    assert (busiest not in {move.bundle for move in made.moves}) == is_left_alone


def draining(
    cluster: FakeCluster, http: aiohttp.ClientSession, trail: ActionTrail, options: DrainOptions
) -> BrokerDrain:
    reader = SnapshotReader(http, [cluster.admin_url], wall_clock_ms)
    action = NewAction(trail, ActionKind.DRAIN, "ann", "new disks")
    return BrokerDrain(
        http, reader, cluster.names[0], DrainRules(), wall_clock_ms, lambda _: None, options, action
    )


async def test_a_drain_is_kept_with_each_of_its_moves_and_waits_alone_for_the_disk(
    uneven: FakeCluster,
    http: aiohttp.ClientSession,
    trail: ActionTrail,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drain = draining(
        uneven, http, trail, replace(QUICK, moves=replace(QUICK.moves, verify_within_s=60.0))
    )
    loop, goes_on, keep = asyncio.get_running_loop(), threading.Event(), ActionTrail.keep

    def hang(self: ActionTrail, action: OperatorAction) -> None:
        loop.call_soon_threadsafe(goes_on.set)
        assert goes_on.wait(60), "everything stands still with the disk"
        goes_on.clear()
        keep(self, action)

    monkeypatch.setattr(ActionTrail, "keep", hang)
    found = await drain.carry_out(await drain.plan())
    [action] = trail.actions()
    assert (action.kind, action.broker, action.who) == (ActionKind.DRAIN, uneven.names[0], "ann")
    assert action.ended_ms >= max(move.ended_ms for move in action.moves)
    kept = {(move.bundle, move.destination) for move in action.moves}
    assert (
        kept == {(each.bundle, each.owner) for each in found.outcomes} == {*uneven.owners.items()}
    )
    assert [move.bundle for move in moved_by_hand([action])]


async def test_a_drain_that_a_fault_ends_is_no_longer_under_way(
    uneven: FakeCluster, http: aiohttp.ClientSession, trail: ActionTrail
) -> None:
    drain = draining(uneven, http, trail, QUICK)
    plan = await drain.plan()

    async def full(*_: object) -> None:
        raise ZeroDivisionError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Executor, "pause_before", full)
        with pytest.raises(ZeroDivisionError):
            await drain.carry_out(plan)
    [action] = trail.actions()
    assert action.ended_ms


async def test_moves_of_a_second_attempt_are_kept_with_what_they_carry(
    uneven: FakeCluster, http: aiohttp.ClientSession, trail: ActionTrail
) -> None:
    class FirstIsForgotten(list[tuple[str, str]]):
        def append(self, each: tuple[str, str]) -> None:
            super().append(each)
            uneven.forget_unload = len(self) == 1

    uneven.unloads = FirstIsForgotten()
    drain = draining(uneven, http, trail, replace(SOON, moves=replace(SOON.moves, at_once=1)))
    await drain.carry_out(await drain.plan())
    [action] = trail.actions()
    first, *others = action.moves
    again = next(move for move in others if move.bundle == first.bundle)
    assert (first.status, again.status) == ("failed", "moved")
    assert first.part == pytest.approx(again.part)
    assert first.part > 0


async def test_a_pause_holds_a_drain_back_before_it_and_in_its_middle(
    uneven: FakeCluster, http: aiohttp.ClientSession, trail: ActionTrail, tmp_path: Path
) -> None:
    pause = Control(Wish.PAUSE, START, "a release")
    drain = draining(uneven, http, trail, replace(QUICK, moves=ONE_BY_ONE, attempts=1))
    plan = await drain.plan()
    write_control(open_location(tmp_path), pause)
    with pytest.raises(DrainRefusedError, match=r"a release.*control resume"):
        await drain.carry_out(plan)
    assert uneven.unloads == []
    assert trail.actions() == [], "what did not begin is no action"
    write_control(open_location(tmp_path), Control())
    keep = ActionTrail.keep

    def pause_after_one(self: ActionTrail, action: OperatorAction) -> None:
        keep(self, action)
        if action.moves:
            write_control(open_location(tmp_path), pause)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ActionTrail, "keep", pause_after_one)
        found = await drain.carry_out(plan)
    assert len(uneven.unloads) == 1
    assert len(found.left) == 9


def test_a_broker_may_be_released_while_moves_are_paused(trail: ActionTrail) -> None:
    """It moves nothing; without it the broker would stay cordoned after the pause."""
    NewAction(trail, ActionKind.DRAIN, "ann").begin(START, "b1:80").close(START)
    write_control(trail.place, Control(Wish.PAUSE, START, "a release"))
    NewAction(trail, ActionKind.RELEASE, "ann").begin(START + 1, "b1:80").close(START + 1)
    assert cordoned(trail.actions()) == {}
    with pytest.raises(ActionRefusedError, match="a release"):
        NewAction(trail, ActionKind.DRAIN, "ann").begin(START + 2, "b1:80")


def test_an_action_does_not_begin_where_the_pause_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory", "utf-8")
    action = NewAction(ActionTrail(open_location(tmp_path / "file")), ActionKind.DRAIN)
    with pytest.raises(ActionRefusedError, match="unreadable"):
        action.begin(START, "b1:80")


def test_status_names_cordons_and_what_was_done_by_hand(
    trail: ActionTrail, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "journal").mkdir()
    log = NewAction(trail, ActionKind.DRAIN, "ann", "new disks").begin(wall_clock_ms(), "b1:80")
    log.ended(outcome("t/n/1", "b1:80", "b2:80", ended_ms=START))
    assert main(["status", "--history", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "cordoned: b1:80, drained by ann: new disks" in said
    assert "by hand: drain of b1:80 by ann (new disks): 1 moved, running or interrupted" in said
    assert main(["status", "--history", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cordoned"] == ["b1:80"]


def test_a_cordon_is_released_by_hand(
    trail: ActionTrail, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    NewAction(trail, ActionKind.DRAIN, "ann").begin(START, "b1:80").close(START)
    words = ["drain", "b1:80", "--admin-url", "http://127.0.0.1:1", "--release"]
    assert main(words) == 2
    assert "--release needs --history" in capsys.readouterr().err
    assert main([*words, "--history", str(tmp_path)]) == 0
    assert cordoned(trail.actions()) == {}
    assert main([*words, "--history", str(tmp_path)]) == 2
    assert "is not cordoned" in capsys.readouterr().err
    assert main([*words, "--history", str(tmp_path / "none")]) == 2
    assert "is no history" in capsys.readouterr().err
