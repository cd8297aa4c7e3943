"""What was approved is what is done; when the cluster changed meanwhile nothing is, and why."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from counterpoise.app.main import main
from counterpoise.decide.advice.plan import AdvisedPlan, MoveTime
from counterpoise.decide.advice.planned import advise
from counterpoise.decide.balancing.approval import ApprovalRules
from counterpoise.decide.balancing.moves import MoveOutcome, MoveStatus, RoundMemory
from counterpoise.decide.balancing.options import BalanceOptions
from counterpoise.decide.balancing.pace import FAILED_MOST
from counterpoise.decide.balancing.snapshot import snapshot_of
from counterpoise.decide.balancing.thrash import Hop
from counterpoise.load.fold import Batch, FoldState, fold
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.collect.collector import Collector
from counterpoise.pipeline.drive.action_trail import ActionKind, ActionTrail
from counterpoise.pipeline.drive.approved import (
    ApprovedOptions,
    ApprovedPlan,
    CarriedOut,
    PlanRefusedError,
)
from counterpoise.pipeline.drive.snapshot import CannotSeeError
from counterpoise.pipeline.executor import ExecutorOptions
from counterpoise.pipeline.tables.control import Control, Wish, write_control
from counterpoise.pipeline.tables.history import TablesWriter
from counterpoise.pipeline.tables.journal import JournalWriter
from counterpoise.pipeline.tables.schema import JournalKind
from tests.decide.balancing.test_round import strategy
from tests.pipeline.fake_cluster import FakeCluster, bundle_name
from tests.pipeline.histories import kept, writer_of

AT_ONCE = BalanceOptions(report_interval_ms=0, stats_s=0)
DO_IT = ApprovedOptions(
    execute=True, moves=ExecutorOptions(verify_within_s=60.0), balance=AT_ONCE, look_every_s=0.01
)


async def planned(cluster: FakeCluster, http: aiohttp.ClientSession) -> AdvisedPlan:
    rows = await Collector(http, [cluster.admin_url], wall_clock_ms).poll()
    state = fold(FoldState.empty(), Batch.of(rows))
    plan = advise(snapshot_of(state), strategy(), MoveTime(1, 1, "x"), wall_clock_ms())
    assert len(plan.steps) > 3
    return plan


class LogLines(list[str]):
    """What was said; `when` something is, `then` something happens once."""

    def __init__(self, when: str = "", then: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self._when, self._then = when, then

    def append(self, sentence: str) -> None:
        super().append(sentence)
        if self._when and self._when in sentence:
            self._when = ""
            self._then()


async def carried_out(
    cluster: FakeCluster,
    http: aiohttp.ClientSession,
    writer: TablesWriter,
    plan: AdvisedPlan,
    options: ApprovedOptions = DO_IT,
    logged: LogLines | None = None,
    clock: Callable[[], int] = wall_clock_ms,
) -> CarriedOut:
    say = LogLines() if logged is None else logged
    return await ApprovedPlan(
        http, (cluster.admin_url,), writer, plan, clock, say.append, options
    ).carry_out()


async def test_an_approved_plan_is_done_as_it_stands_and_kept(
    uneven: FakeCluster, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    plan, writer = await planned(uneven, http), writer_of(tmp_path)
    only_checked = await carried_out(uneven, http, writer, plan, ApprovedOptions())
    assert not only_checked.outcomes
    assert uneven.unloads == []
    came = await carried_out(uneven, http, writer, plan)
    assert not came.left
    assert {(s.bundle, s.destination) for s in plan.steps} == set(uneven.unloads)
    assert all(uneven.owners[step.bundle] == step.destination for step in plan.steps)
    rows = kept(tmp_path, JournalKind.OUTCOME)
    assert [row["status"] for row in rows] == ["moved"] * len(plan.steps)
    assert {row["strategy"] for row in kept(tmp_path, JournalKind.ROUND)} == {f"plan {plan.id}"}
    assert all(
        f"plan {plan.id}" in row["placement"] for row in kept(tmp_path, JournalKind.DECISION)
    )
    memory = JournalWriter(writer).memory_before(wall_clock_ms() + 1000)
    assert set(memory.recently_unloaded) == {step.bundle for step in plan.steps}


async def test_moves_of_a_day_are_remembered_and_older_ones_are_not(
    uneven: FakeCluster, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    """Whatever span a balancer goes by that comes after: a bundle is not to go back and forth."""
    plan, writer = await planned(uneven, http), writer_of(tmp_path)
    day_ago, minute = wall_clock_ms() - 86_400_000, 60_000
    hops = {bundle_name(70): day_ago + 2 * minute, bundle_name(71): day_ago - minute}
    trails = {bundle: (Hop(at_ms, "x:1", "y:1"),) for bundle, at_ms in hops.items()}
    JournalWriter(writer).record_memory(wall_clock_ms() - 1, RoundMemory(trails=trails))
    await carried_out(uneven, http, writer, plan)
    remembered = JournalWriter(writer).memory_before(wall_clock_ms() + 1000).trails
    assert set(remembered) == {bundle_name(70), *(step.bundle for step in plan.steps)}


async def test_done_again_it_does_nothing_twice(
    uneven: FakeCluster, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    plan, writer = await planned(uneven, http), writer_of(tmp_path)
    await carried_out(uneven, http, writer, plan)
    unloads = list(uneven.unloads)
    again = await carried_out(uneven, http, writer, plan)
    assert (again.done_before, again.left, again.outcomes) == (len(plan.steps), {}, ())
    assert uneven.unloads == unloads


def another_broker_has_it(cluster: FakeCluster, plan: AdvisedPlan) -> None:
    step = plan.steps[0]
    others = set(cluster.names) - {step.source, step.destination}
    cluster.owners[step.bundle] = others.pop()


def no_broker_owns_it(cluster: FakeCluster, plan: AdvisedPlan) -> None:
    cluster.owners[plan.steps[0].bundle] = ""


def it_was_split(cluster: FakeCluster, plan: AdvisedPlan) -> None:
    del cluster.owners[plan.steps[0].bundle]


def a_destination_is_silent(cluster: FakeCluster, plan: AdvisedPlan) -> None:
    lost = plan.steps[0].destination
    next(broker for broker in cluster.brokers if broker.name == lost).silent = True


def a_destination_has_left(cluster: FakeCluster, plan: AdvisedPlan) -> None:
    lost = plan.steps[0].destination
    cluster.brokers.remove(next(broker for broker in cluster.brokers if broker.name == lost))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (another_broker_has_it, "now, not on"),
        (no_broker_owns_it, "no broker owns it any more"),
        (it_was_split, "no broker owns it any more"),
        (a_destination_is_silent, "does not answer: HTTP 503"),
        (a_destination_has_left, "is no broker of the cluster any more"),
    ],
)
async def test_a_world_that_changed_refuses_the_whole_plan_unless_a_part_will_do(
    uneven: FakeCluster,
    http: aiohttp.ClientSession,
    tmp_path: Path,
    change: Callable[[FakeCluster, AdvisedPlan], None],
    said: str,
) -> None:
    plan, writer = await planned(uneven, http), writer_of(tmp_path)
    change(uneven, plan)
    with pytest.raises(PlanRefusedError, match="the cluster changed for") as refused:
        await carried_out(uneven, http, writer, plan)
    assert said in str(refused.value)
    assert f" of its {len(plan.steps)} steps (" in str(refused.value)
    assert uneven.unloads == []
    came = await carried_out(uneven, http, writer, plan, replace(DO_IT, partial=True))
    assert said in came.left[plan.steps[0].bundle]
    assert plan.steps[0].bundle not in {bundle for bundle, _ in uneven.unloads}
    assert all(one.status is MoveStatus.MOVED for one in came.outcomes)


async def test_a_plan_that_would_make_things_worse_by_now_is_refused(
    uneven: FakeCluster, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    plan = await planned(uneven, http)
    target = next(b for b in uneven.brokers if b.name == plan.steps[0].destination)
    for each in uneven.brokers:
        if each is not target and each.name != plan.steps[0].source:
            uneven.carry(each, bundle_name(98), 900_000.0)
    uneven.carry(target, bundle_name(99), 900_000.0)
    with pytest.raises(PlanRefusedError, match="by the loads of now it would leave an imbalance"):
        await carried_out(uneven, http, writer_of(tmp_path), plan)
    assert uneven.unloads == []


async def test_a_destination_that_was_drained_since_refuses_the_plan(
    uneven: FakeCluster, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    plan, writer = await planned(uneven, http), writer_of(tmp_path)
    broker = plan.steps[0].destination
    ActionTrail(writer.location).begin(ActionKind.DRAIN, 0, who="ann", why="disks", broker=broker)
    with pytest.raises(PlanRefusedError, match=f"{broker} is cordoned: ann drained it: disks"):
        await carried_out(uneven, http, writer, plan)
    assert uneven.unloads == []


async def test_a_plan_grows_old(
    uneven: FakeCluster, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    plan, writer = await planned(uneven, http), writer_of(tmp_path)
    later = lambda: wall_clock_ms() + 2 * 3_600_000  # noqa: E731
    with pytest.raises(PlanRefusedError, match=r"120 minutes ago, and is good for 60"):
        await carried_out(uneven, http, writer, plan, clock=later)
    longer = replace(DO_IT, valid_for_s=3 * 3600)
    assert not (await carried_out(uneven, http, writer, plan, longer, clock=later)).left


async def test_the_clusters_own_shedder_is_not_fought(
    uneven: FakeCluster, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    plan = await planned(uneven, http)
    base = "/admin/v2/brokers"
    for broker in uneven.brokers:
        broker.answers[f"{base}/version"] = (200, b"4.0.7")
        broker.answers[f"{base}/configuration/runtime"] = (200, b"{}")
        broker.answers[f"{base}/configuration/values"] = (200, b"{}")
    with pytest.raises(PlanRefusedError, match="loadBalancerSheddingEnabled"):
        await carried_out(uneven, http, writer_of(tmp_path), plan)
    assert uneven.unloads == []


async def test_rules_and_a_pause_hold_for_a_plan_too(
    uneven: FakeCluster, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    plan, writer = await planned(uneven, http), writer_of(tmp_path)
    rules, now = ApprovalRules(moves_an_hour=2), wall_clock_ms()
    for number, minutes in enumerate((119, 59)):
        at_ms = now - minutes * 60_000
        moved = MoveOutcome(
            f"{at_ms}-{number}", at_ms, "b", "x", "y", MoveStatus.MOVED, "y", at_ms, at_ms
        )
        JournalWriter(writer).record_outcome(moved)
    came = await carried_out(uneven, http, writer, plan, replace(DO_IT, rules=rules))
    assert len(uneven.unloads) == 1
    assert {"2 moves an hour are allowed (--max-moves-an-hour)"} == set(came.left.values())
    write_control(writer.location, Control(Wish.PAUSE, why="lunch"))
    came = await carried_out(uneven, http, writer, plan)
    assert all("paused: lunch" in reason for reason in came.left.values())
    assert len(uneven.unloads) == 1


async def test_what_fails_is_tried_again_and_given_up_with_its_reason(
    uneven: FakeCluster, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    plan, writer = await planned(uneven, http), writer_of(tmp_path)
    uneven.refuse_unload = 503

    def heal() -> None:
        uneven.refuse_unload = 0

    logged = LogLines("failed", heal)
    came = await carried_out(uneven, http, writer, plan, logged=logged)
    assert not came.left
    assert any("failed" in each for each in logged)
    assert {row["status"] for row in kept(tmp_path, JournalKind.OUTCOME)} == {"moved"}


async def test_a_move_is_verified_for_as_long_as_was_said(
    uneven: FakeCluster, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    """Its source may be asked itself only after longer than this."""
    uneven.forget_unload = True
    options = replace(DO_IT, moves=replace(DO_IT.moves, verify_within_s=0.1), attempts=1)
    came = await carried_out(
        uneven, http, writer_of(tmp_path), await planned(uneven, http), options
    )
    tried = [one for one in came.outcomes if one.status is MoveStatus.FAILED]
    assert tried
    for one in tried:
        assert one.error == f"{one.source} still owns it, though the unload was accepted"


async def test_what_cannot_be_done_is_left_with_what_the_cluster_said(
    uneven: FakeCluster, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    plan = await planned(uneven, http)
    uneven.refuse_unload = 503
    once = replace(DO_IT, attempts=1)
    came = await carried_out(uneven, http, writer_of(tmp_path), plan, once)
    assert set(came.left) == {step.bundle for step in plan.steps}
    ends = ("unload: HTTP 503", "3 of the last 3 moves failed")
    assert all(any(end in reason for end in ends) for reason in came.left.values())
    assert sum(ends[0] in reason for reason in came.left.values()) >= FAILED_MOST


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("no_topics", "and no broker, {destination} included, had taken it by then"),
        ("lose_destination", "for {destination}, and {owner} took it first: make a new plan"),
    ],
)
async def test_what_went_elsewhere_or_to_no_broker_says_what_comes_next(
    uneven: FakeCluster, http: aiohttp.ClientSession, tmp_path: Path, fault: str, says: str
) -> None:
    plan = await planned(uneven, http)
    uneven.creates = fault != "no_topics"
    setattr(uneven, fault, True)
    # A bundle without topics shows no owner however long it is asked for.
    within_s = 10.0 if uneven.creates else 0.3
    options = replace(DO_IT, moves=replace(DO_IT.moves, verify_within_s=within_s))
    came = await carried_out(uneven, http, writer_of(tmp_path), plan, options)
    last = {one.bundle: one for one in came.outcomes if one.bundle in came.left}
    assert last
    for bundle, one in last.items():
        assert says.format(destination=one.destination, owner=one.owner) in came.left[bundle]


async def test_a_cluster_that_does_not_answer_is_a_sentence(
    uneven: FakeCluster, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    plan = await planned(uneven, http)
    gone = FakeCluster(brokers=[replace(uneven.brokers[0], name="127.0.0.1:1")])
    with pytest.raises(CannotSeeError, match="the cluster does not answer"):
        await carried_out(gone, http, writer_of(tmp_path), plan)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("nonsense", "is not JSON"),
        ("[]", "it is no plan"),
        ('{"format": 99}', "format 99"),
        (None, "No such file"),
    ],
)
def test_a_file_that_is_no_plan_is_a_sentence(
    content: str | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plan.json"
    if content is not None:
        file.write_text(content)
    words = ["--admin-url", "http://127.0.0.1:1", "--history", str(tmp_path / "h"), "--execute"]
    assert main(["balance", *words, "--plan", str(file)]) == 2
    assert said in capsys.readouterr().err


async def test_from_advice_to_moves_on_the_command_line(
    uneven: FakeCluster,
    http: aiohttp.ClientSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan = await planned(uneven, http)
    conf = {
        "loadBalancerSheddingEnabled": "false",
        "loadBalancerReportUpdateMinIntervalMillis": "10",
        "statsUpdateFrequencyInSecs": "1",
    }
    for broker in uneven.brokers:
        for name, logged in (("runtime", json.dumps(conf).encode()), ("values", b"{}")):
            broker.answers[f"/admin/v2/brokers/configuration/{name}"] = (200, logged)
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan.to_json()))
    words = ["balance", "--admin-url", uneven.admin_url, "--history", str(tmp_path / "h")]
    words += ["--plan", str(file)]
    assert await asyncio.to_thread(main, words) == 0
    assert "would be carried out; nothing was touched" in capsys.readouterr().out
    assert await asyncio.to_thread(main, [*words, "--execute"]) == 0
    assert f"{len(plan.steps)} of {len(plan.steps)} moved and verified" in capsys.readouterr().out
    uneven.owners[plan.steps[0].bundle] = plan.steps[0].source
    assert (
        await asyncio.to_thread(main, [*words, "--execute", "--leave-alone", "public/default"]) == 1
    )
    assert "is left alone" in capsys.readouterr().out
