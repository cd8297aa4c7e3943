"""Rounds: decided on what was measured since the last, kept, and never done twice."""

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from counterpoise.decide.balancing.approval import ApprovalRules
from counterpoise.decide.balancing.due import traffic
from counterpoise.decide.balancing.moves import MoveOutcome, MoveStatus, Round, RoundMemory
from counterpoise.decide.balancing.options import BalanceOptions
from counterpoise.decide.balancing.snapshot import newest_poll
from counterpoise.decide.plan import StrategyPlan
from counterpoise.decide.shedding.threshold import ThresholdMemory, ThresholdShedder
from counterpoise.decide.watchdog.judge import SLOW_BROKER
from counterpoise.decide.watchdog.observation import WatchdogFinding
from counterpoise.load.fold import Batch, FoldState, fold
from counterpoise.pipeline.balancer import Balancer
from counterpoise.pipeline.collect.admin import AdminOptions
from counterpoise.pipeline.collect.collector import Collector
from counterpoise.pipeline.executor import Executor
from counterpoise.pipeline.notify.notice import BalancerNotices, Notice, NoticeKind
from counterpoise.pipeline.tables.journal import JournalWriter
from counterpoise.pipeline.tables.schema import JournalKind
from counterpoise.pipeline.watch.metrics import Metrics
from counterpoise.pipeline.watchdog.watchdog import guard
from tests.decide.balancing.test_round import strategy
from tests.load.story import START
from tests.pipeline.fake_cluster import FakeCluster, bundle_name
from tests.pipeline.histories import journal_of, kept
from tests.pipeline.rounds import DO_IT, LogLines, balancer, loads, made_of, outcomes, seen, seen_as


async def test_a_round_is_carried_out_verified_and_kept(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter
) -> None:
    logged = LogLines()
    made = await made_of(balancer(http, history, logged), seen(uneven))
    assert len(made.moves) > 1
    assert sorted(uneven.unloads) == sorted((m.bundle, m.destination) for m in made.moves)
    for outcome in outcomes(history, made):
        assert outcome.status is MoveStatus.MOVED
        assert outcome.owner == outcome.destination == uneven.owners[outcome.bundle]
    assert history.round(made.poll_id) == made
    memory = history.memory_before(made.poll_id + 1)
    assert set(memory.recently_unloaded) == {move.bundle for move in made.moves}
    assert memory.shedder == made.memory.shedder
    assert f"decided {made.moves[0].bundle}" in logged
    assert f"moved {made.moves[0].bundle}" in logged


class CutOffError(Exception):
    """The process ends here."""


@pytest.mark.parametrize("cut", ["before any move", "after one outcome", "before the memory"])
async def test_a_round_that_was_cut_off_is_finished_and_not_repeated(
    uneven: FakeCluster,
    http: aiohttp.ClientSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cut: str,
) -> None:
    state = seen(uneven)
    first = journal_of(tmp_path)
    cut_off(first, cut, monkeypatch)
    with pytest.raises(CutOffError):
        await balancer(http, first, options=replace(DO_IT, at_once=1)).step(state)
    left = len(uneven.unloads)
    # The next leader has the files, and nothing else.
    history = journal_of(tmp_path)
    made = await made_of(balancer(http, history), state)
    assert len(uneven.unloads) == len(made.moves)
    assert len({bundle for bundle, _ in uneven.unloads}) == len(made.moves)
    assert left < len(made.moves) or cut == "before the memory"
    assert {o.status for o in outcomes(history, made)} <= {
        MoveStatus.MOVED,
        MoveStatus.ALREADY_THERE,
    }
    assert history.is_complete(made.poll_id)


async def test_a_balancer_that_a_fault_interrupted_finishes_its_round(
    uneven: FakeCluster,
    http: aiohttp.ClientSession,
    history: JournalWriter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, state = balancer(http, history), seen(uneven)
    cut_off(history, "before any move", monkeypatch)
    with pytest.raises(CutOffError):
        await one.step(state)
    monkeypatch.undo()
    assert len((await made_of(one, state)).moves) == len(uneven.unloads)


def cut_off(history: JournalWriter, where: str, patch: pytest.MonkeyPatch) -> None:
    """Let the history fail at that point."""
    if where == "before any move":
        keep_round = history.record_round

        def after_round(made: Round) -> None:
            keep_round(made)
            raise CutOffError

        patch.setattr(history, "record_round", after_round)
    elif where == "after one outcome":
        keep_outcome, done = history.record_outcome, []

        def after_outcome(outcome: MoveOutcome) -> None:
            if done:
                raise CutOffError  # carried out, but not recorded
            done.append(outcome)
            keep_outcome(outcome)

        patch.setattr(history, "record_outcome", after_outcome)
    else:

        def no_memory(poll_id: int, memory: object) -> None:
            raise CutOffError

        patch.setattr(history, "record_memory", no_memory)


@pytest.mark.parametrize(
    "asked", ["interrupted", "memory_before", "record_round", "record_outcome", "record_memory"]
)
async def test_the_event_loop_waits_for_no_history(
    uneven: FakeCluster,
    http: aiohttp.ClientSession,
    history: JournalWriter,
    monkeypatch: pytest.MonkeyPatch,
    asked: str,
) -> None:
    """A commit to a slow store would hold up polls, metrics and the heartbeat."""
    method, threads = getattr(history, asked), list[int]()

    def noted(*args: object) -> object:
        threads.append(threading.get_ident())
        return method(*args)

    monkeypatch.setattr(history, asked, noted)
    await made_of(balancer(http, history), seen(uneven))
    assert threads
    assert threading.get_ident() not in threads


async def test_a_dry_run_touches_nothing_and_does_not_repeat_itself(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter
) -> None:
    dry = replace(DO_IT, execute=False)
    every_poll = strategy(interval_ms=1)
    made = await made_of(balancer(http, history, options=dry, by=every_poll), seen(uneven))
    assert {o.status for o in outcomes(history, made)} == {MoveStatus.DRY_RUN}
    assert uneven.unloads == []
    again = await balancer(http, history, options=dry, by=every_poll).step(seen(uneven, 1))
    assert again is not None
    assert not {m.bundle for m in made.moves} & {m.bundle for m in again.moves}


async def test_who_asks_for_one_round_too_early_hears_when_the_last_one_was(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter
) -> None:
    dry = replace(DO_IT, execute=False)
    one = balancer(http, history, options=dry, by=strategy(interval_ms=60_000))
    assert one.not_yet(seen(uneven)) == ""
    await one.step(seen(uneven))
    assert one.not_yet(seen(uneven, 2)) == (
        "no round: the last one was 10 s ago, and there are 60 s between two (--decide-every)"
    )
    assert one.not_yet(seen(uneven, 12)) == ""


async def test_no_round_is_made_on_polls_from_before_the_last_moves_ended(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter
) -> None:
    every_poll = strategy(interval_ms=1)
    clock = lambda: START + 9_000  # noqa: E731
    await balancer(http, history, clock=clock, by=every_poll).step(seen(uneven))
    assert await balancer(http, history, clock=clock, by=every_poll).step(seen(uneven, 1)) is None
    assert await balancer(http, history, clock=clock, by=every_poll).step(seen(uneven, 2))


async def test_no_round_is_made_on_reports_that_repeat_what_they_said_before_the_moves(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter
) -> None:
    """Apache Pulsar's brokers do so for a minute; they are waited for, though not for ever."""
    every_poll = balancer(http, history, by=strategy(interval_ms=1, stats_s=30))
    before, polls_a_minute = loads(uneven), 12
    made = await made_of(every_poll, seen(uneven))
    assert made.moves
    after = loads(uneven)
    one_is_late = {**after, made.moves[0].destination or "": {}}
    for repeated in (before, one_is_late):
        assert await every_poll.step(seen_as(repeated, 1)) is None
        assert await every_poll.step(seen_as(repeated, polls_a_minute)) is None
    assert await every_poll.step(seen_as(after, polls_a_minute))


async def test_what_a_round_waits_for_is_said_once(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter
) -> None:
    logged = LogLines()
    options = BalanceOptions(interval_ms=1, stats_s=30, report_interval_ms=2000)
    every_poll = balancer(http, history, logged, by=replace(strategy(), balance=options))
    before = loads(uneven)
    await made_of(every_poll, seen(uneven))
    logged.clear()
    for number in (0.5, 0.7):
        assert await every_poll.step(seen_as(before, number)) is None
        assert every_poll.not_yet(seen_as(before, number)) == "", "it is not the clock"
    assert logged == [
        "the next round waits for reports that were measured after the last moves "
        "(loadBalancerReportUpdateMinIntervalMillis)"
    ]
    logged.clear()
    for number in (2, 3):
        assert await every_poll.step(seen_as(before, number)) is None
    [said] = logged
    assert said.startswith("the next round waits for new measurements of 127.0.0.1:")
    assert "statsUpdateFrequencyInSecs" in said
    for number in range(20, 30):
        uneven.carry(uneven.brokers[0], bundle_name(number), 90_000.0)
    before = loads(uneven)
    assert (await made_of(every_poll, seen(uneven, 4))).moves
    logged.clear()
    assert await every_poll.step(seen_as(before, 5)) is None
    assert logged == [said], "it was over in between"


async def test_who_had_no_traffic_and_got_none_is_not_waited_for(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter
) -> None:
    every_poll = balancer(http, history, by=strategy(interval_ms=1, stats_s=30))
    made = await made_of(every_poll, seen(uneven))
    first = made.moves[0]
    memory = history.memory_before(made.poll_id + 1)
    assert set(memory.traffic_before) == {first.source, *(m.destination for m in made.moves)}
    idle = dict.fromkeys(loads(uneven)[first.destination] or {}, 0.0)
    idle_state = seen_as({first.source: {}, first.destination: idle}, 0)
    outcomes = [history.outcome(move.id) for move in made.moves]
    after = RoundMemory().after([o for o in outcomes if o], traffic=traffic(idle_state))
    assert not after.traffic_before


async def test_the_tables_say_who_what_when_and_why(
    uneven: FakeCluster, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    made = await made_of(balancer(http, journal_of(tmp_path)), seen(uneven))
    decisions = kept(tmp_path, JournalKind.DECISION)
    assert [row["id"] for row in decisions] == [move.id for move in made.moves]
    assert decisions[0]["sentence"] == made.moves[0].decision.sentence
    assert '"usage"' in decisions[0]["figures"]
    rejections = kept(tmp_path, JournalKind.REJECTION)
    assert {row["subject"] for row in rejections} >= set(uneven.names[1:])
    assert all(row["carried_out"] for row in kept(tmp_path, JournalKind.OUTCOME))
    [row] = kept(tmp_path, JournalKind.ROUND)
    assert row["decisions"] == len(made.moves)
    assert row["imbalance"] == pytest.approx(2.0)


async def test_the_same_refusal_is_said_once(
    cluster: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter
) -> None:
    first, _ = [await cluster.add_broker() for _ in range(2)]
    cluster.carry(first, bundle_name(0), 90_000.0)
    logged = LogLines()
    for number, carried in enumerate((90_000.0, 91_000.0, 92_000.0)):
        cluster.carry(first, bundle_name(0), carried)
        await balancer(http, history, logged).step(seen(cluster, number * 100))
    assert len([one for one in logged if one.startswith("nothing to move")]) == 3, "three balancers"
    logged.clear()
    one = balancer(http, history, logged)
    for number, carried in enumerate((90_000.0, 91_000.0, 92_000.0), 3):
        cluster.carry(first, bundle_name(0), carried)
        await one.step(seen(cluster, number * 100))
    assert len([one for one in logged if one.startswith("nothing to move")]) == 1


class FirstTimeOnly(ThresholdShedder):
    """Its first plan alone sheds; later ones only refuse what the first refused, too."""

    def __init__(self) -> None:
        self.plans = 0

    def plan(self, *view: Any) -> StrategyPlan[ThresholdMemory]:
        self.plans += 1
        made = super().plan(*view)
        return made if self.plans == 1 else replace(made, decisions=())


async def test_what_a_round_that_moves_refuses_is_said_when_nothing_is_moved_any_more(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter
) -> None:
    logged = LogLines()
    by = replace(strategy(interval_ms=1), shedder=FirstTimeOnly())
    one = balancer(http, history, logged, replace(DO_IT, execute=False), by=by)
    first = await made_of(one, seen(uneven))
    assert "nothing to move" not in logged
    second = await made_of(one, seen(uneven, 1))
    assert bool(first.moves) > bool(second.moves)
    refused = [{(each.subject, each.rule) for each in of.rejections} for of in (first, second)]
    assert refused[0] == refused[1] != set(), "or this test says nothing"
    assert "nothing to move" in logged


async def test_three_reasons_are_said_why_nothing_moves_and_how_many_more_there_are(
    cluster: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter
) -> None:
    for number in range(6):
        cluster.carry(await cluster.add_broker(), bundle_name(number), 10_000.0)
    logged = LogLines()
    made = await made_of(balancer(http, history, logged), seen(cluster))
    [said] = logged
    start = f"nothing to move, imbalance {made.imbalance:.2f}: "
    reasons, _, more = said.removeprefix(start).rpartition(" (and ")
    assert reasons.split("; ") == [each.sentence for each in made.rejections[:3]]
    assert more == f"{len(made.rejections[3:])} more)" != "0 more)"


async def test_what_a_rule_withholds_is_not_done_and_is_kept_with_the_rule(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter
) -> None:
    executor = Executor(http, lambda: START + 1000, DO_IT)
    rules = ApprovalRules(moves_a_round=1)
    made = await Balancer(strategy(), history, executor, LogLines().append, rules=rules).step(
        seen(uneven)
    )
    assert made is not None
    assert len(made.moves) > 1, "or this test says nothing"
    assert len(uneven.unloads) == 1
    ended = outcomes(history, made)
    assert [one.status for one in ended] == [MoveStatus.MOVED] + [MoveStatus.WITHHELD] * (
        len(ended) - 1
    )
    assert "--max-moves-a-round" in ended[-1].error
    left_alone = history.memory_before(made.poll_id + 1).recently_unloaded
    assert set(left_alone) == {made.moves[0].bundle}, "the others may go in the next round"


async def test_a_round_and_how_its_moves_ended_are_counted_and_notified_of(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter
) -> None:
    notices, metrics, by = list[Notice](), Metrics(lambda: START, 1.0), strategy()
    one = Balancer(
        replace(by, balance=replace(by.balance, thrash_span_ms=3_600_000)),
        history,
        Executor(http, lambda: START + 1000, DO_IT),
        LogLines().append,
        rules=ApprovalRules(moves_a_round=1),
        metrics=metrics,
        notices=BalancerNotices(notices.append, lambda: START),
    )
    made = await made_of(one, seen(uneven))
    moves, reason = len(made.moves), made.moves[0].decision.reason

    def counted(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"counterpoise_balancer_{name}_total", labels)

    assert counted("rounds", strategy="ThresholdShedder") == 1
    assert counted("decisions", reason=reason) == moves > 1
    assert counted("moves", status="moved") == 1
    assert counted("moves", status="withheld") == moves - 1
    kinds = [each.kind for each in notices]
    assert kinds == [NoticeKind.ROUND, *[NoticeKind.REFUSAL] * (moves - 1)]
    again = await made_of(one, seen(uneven, 100))
    moved_before = history.memory_before(again.poll_id + 1).trails
    assert made.moves[0].bundle in moved_before, "or none is seen to go to and fro"


async def test_what_is_withheld_round_after_round_is_said_once(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter
) -> None:
    logged = LogLines()
    rules = ApprovalRules(part_a_round=1e-9)
    executor = Executor(http, lambda: START + 1000, DO_IT)
    one = Balancer(strategy(), history, executor, logged.append, rules=rules)
    first = await one.step(seen(uneven))
    assert first is not None
    said = [each for each in logged if each.startswith("withheld ")]
    assert len(said) == len(first.moves) > 1
    again = await one.step(seen(uneven, 100))
    assert again is not None
    assert {move.bundle for move in again.moves} == {move.bundle for move in first.moves}
    assert [each for each in logged if each.startswith("withheld ")] == said
    assert len([each for each in logged if each.startswith("decided ")]) == len(first.moves)
    assert len(outcomes(history, again)) == len(again.moves), "and kept each time"


async def test_no_round_moves_anything_to_a_broker_that_serves_no_lookups(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter
) -> None:
    """It reported before, and its load report is as good as ever."""
    poll = Collector(
        http, [uneven.admin_url], lambda: START, options=AdminOptions(timeout_s=0.3)
    ).poll
    state = fold(FoldState.empty(), Batch.of(await poll()))
    blocked = uneven.brokers[1]
    blocked.blocked = asyncio.Event()
    uneven.report_time += 1
    made = await made_of(balancer(http, history), fold(state, Batch.of(await poll())))
    assert {move.destination for move in made.moves} == {uneven.names[2]}
    assert blocked.name not in uneven.owners.values()


@pytest.mark.parametrize(("interval_ms", "rounds"), [(60_000, 1), (1, 2)])
async def test_a_round_whose_state_is_gone_is_seen_through_all_the_same(
    uneven: FakeCluster,
    http: aiohttp.ClientSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    interval_ms: int,
    rounds: int,
) -> None:
    """Its bundles are unloaded, and the fold comes to a later poll without ever meeting it.

    That poll's own round follows at once, where one is due.
    """
    first = journal_of(tmp_path)
    cut_off(first, "after one outcome", monkeypatch)
    with pytest.raises(CutOffError):
        await balancer(http, first).step(seen(uneven, 1))
    asked, later = len(uneven.unloads), journal_of(tmp_path)
    by, state = strategy(interval_ms=interval_ms, stats_s=0), seen(uneven, 3)
    again = await balancer(http, later, by=by).step(state)
    assert (again.poll_id if again else 0) == (newest_poll(state) if rounds == 2 else 0)
    begun, *others = kept(tmp_path, JournalKind.ROUND)
    assert len(others) == rounds - 1
    made = later.round(begun["poll_id"])
    assert made is not None
    assert {one.status for one in outcomes(later, made)} <= {
        MoveStatus.MOVED,
        MoveStatus.ALREADY_THERE,
    }
    assert later.is_complete(made.poll_id)
    moves = [*made.moves, *(again.moves if again else ())]
    assert len(moves) == len(set(uneven.unloads)) == len(uneven.unloads) >= asked


async def test_what_is_past_is_not_decided_once_more(
    uneven: FakeCluster, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    """A fold that lost its states takes all polls in again, in other batches."""
    journal = journal_of(tmp_path)
    await made_of(balancer(http, journal), seen(uneven, 100))
    unloads = list(uneven.unloads)
    for number in (10, 50, 99, 100):
        assert await balancer(http, journal).step(seen(uneven, number)) is None
    assert uneven.unloads == unloads
    assert len(kept(tmp_path, JournalKind.ROUND)) == 1


@pytest.mark.parametrize("late_s", [3600, -3600])
async def test_what_was_decided_at_another_time_is_not_carried_out(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter, late_s: int
) -> None:
    late = balancer(http, history, clock=lambda: START + late_s * 1000)
    made = await made_of(late, seen(uneven))
    assert {one.status for one in outcomes(history, made)} == {MoveStatus.STALE}
    assert uneven.unloads == []


async def test_a_broker_that_is_found_slow_is_given_nothing(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: JournalWriter
) -> None:
    state = seen(uneven)
    emptiest = min(uneven.brokers, key=lambda broker: sum(loads(uneven)[broker.name].values()))
    watchdog = guard(http, [], LogLines().append)
    watchdog.findings = (WatchdogFinding(SLOW_BROKER, emptiest.name, START, "it is slow"),)
    executor = Executor(http, lambda: START + 1000, DO_IT)
    careful = Balancer(strategy(), history, executor, LogLines().append, watchdog=watchdog)
    await careful.step(state)
    assert emptiest.name not in {destination for _, destination in uneven.unloads}
