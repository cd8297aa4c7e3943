"""Rounds seen through: verified, explained, and never done twice."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from counterpoise.decide.balancing.approval import ApprovalRules
from counterpoise.decide.balancing.moves import Outcome, Round, Status
from counterpoise.decide.balancing.options import BalanceOptions
from counterpoise.decide.balancing.round import Strategy, traffic
from counterpoise.load.fold import Batch, FoldState, fold
from counterpoise.pipeline.balancer import Balancer, before_moves
from counterpoise.pipeline.collect.admin import Admin, AdminOptions
from counterpoise.pipeline.collect.shedder import sheds_by_itself
from counterpoise.pipeline.executor import Executor, ExecutorOptions
from counterpoise.pipeline.history.port import History
from counterpoise.pipeline.history.store import open_store
from counterpoise.pipeline.history.tables import HistoryTables, read_table
from tests.decide.balancing.test_round import strategy
from tests.load.story import START, Loads, poll
from tests.pipeline.fake_cluster import FakeCluster, bundle_name, topic_of
from tests.pipeline.short_history import ShortHistory

DO_IT = ExecutorOptions(execute=True, verify_within_s=1.0)
KINDS_OF_HISTORY: list[Callable[[Path], History]] = [
    lambda path: HistoryTables(open_store(path)),
    lambda path: ShortHistory(),
]


@pytest.fixture(params=KINDS_OF_HISTORY, ids=["tables", "short"])
def history(request: pytest.FixtureRequest, tmp_path: Path) -> History:
    made: History = request.param(tmp_path)
    return made


@pytest.fixture
async def uneven(cluster: FakeCluster) -> FakeCluster:
    """Three brokers, and all that there is on the first."""
    first, _, _ = [await cluster.add_broker() for _ in range(3)]
    for index in range(10):
        cluster.carry(first, bundle_name(index), 9000.0 + index)
    return cluster


def loads(cluster: FakeCluster) -> dict[str, Loads | None]:
    return {
        broker.name: {b: s.msg_throughput_in for b, s in broker.report().last_stats.items()}
        for broker in cluster.brokers
    }


def seen_as(reported: dict[str, Loads | None], number: float) -> FoldState:
    return fold(FoldState.empty(), Batch.of(poll(number, reported)))


def seen(cluster: FakeCluster, number: int = 0) -> FoldState:
    return seen_as(loads(cluster), number)


class Told(list[str]):
    def __contains__(self, part: object) -> bool:
        return any(str(part) in sentence for sentence in self)


def balancer(
    http: aiohttp.ClientSession,
    history: History,
    told: Told | None = None,
    options: ExecutorOptions = DO_IT,
    clock: Callable[[], int] = lambda: START + 1000,
    by: Strategy | None = None,
) -> Balancer:
    executor = Executor(http, clock, options)
    return Balancer(by or strategy(), history, executor, (Told() if told is None else told).append)


def outcomes(history: History, made: Round) -> list[Outcome]:
    found = [history.outcome(move.id) for move in made.moves]
    assert None not in found
    return [outcome for outcome in found if outcome]


async def test_a_round_is_carried_out_verified_and_kept(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: History
) -> None:
    told = Told()
    made = await balancer(http, history, told).step(seen(uneven))
    assert made is not None
    assert len(made.moves) > 1
    assert sorted(uneven.unloads) == sorted((m.bundle, m.destination) for m in made.moves)
    for outcome in outcomes(history, made):
        assert outcome.status is Status.MOVED
        assert outcome.owner == outcome.destination == uneven.owners[outcome.bundle]
    assert history.round(made.poll_id) == made
    memory = history.memory_before(made.poll_id + 1)
    assert set(memory.recently_unloaded) == {move.bundle for move in made.moves}
    assert memory.shedder == made.memory.shedder
    assert f"decided {made.moves[0].bundle}" in told
    assert f"moved {made.moves[0].bundle}" in told


async def test_a_replay_does_nothing_twice(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: History
) -> None:
    state = seen(uneven)
    await balancer(http, history).step(state)
    unloads = list(uneven.unloads)
    assert await balancer(http, history).step(state) is None
    assert uneven.unloads == unloads


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
    first = HistoryTables(open_store(tmp_path))
    cut_off(first, cut, monkeypatch)
    with pytest.raises(CutOffError):
        await balancer(http, first, options=replace(DO_IT, at_once=1)).step(state)
    left = len(uneven.unloads)
    # The next leader has the files, and nothing else.
    history = HistoryTables(open_store(tmp_path))
    made = await balancer(http, history).step(state)
    assert made is not None
    assert len(uneven.unloads) == len(made.moves)
    assert len({bundle for bundle, _ in uneven.unloads}) == len(made.moves)
    assert left < len(made.moves) or cut == "before the memory"
    assert {o.status for o in outcomes(history, made)} <= {Status.MOVED, Status.ALREADY_THERE}
    assert history.is_complete(made.poll_id)


def cut_off(history: HistoryTables, where: str, patch: pytest.MonkeyPatch) -> None:
    """Let the history fail at that point."""
    if where == "before any move":
        keep_round = history.record_round

        def after_round(made: Round) -> None:
            keep_round(made)
            raise CutOffError

        patch.setattr(history, "record_round", after_round)
    elif where == "after one outcome":
        keep_outcome, kept = history.record_outcome, []

        def after_outcome(outcome: Outcome) -> None:
            if kept:
                raise CutOffError  # carried out, but nobody wrote it down
            kept.append(outcome)
            keep_outcome(outcome)

        patch.setattr(history, "record_outcome", after_outcome)
    else:

        def no_memory(poll_id: int, memory: object) -> None:
            raise CutOffError

        patch.setattr(history, "record_memory", no_memory)


async def test_a_dry_run_touches_nothing_and_does_not_repeat_itself(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: History
) -> None:
    dry = replace(DO_IT, execute=False)
    every_poll = strategy(interval_ms=1)
    made = await balancer(http, history, options=dry, by=every_poll).step(seen(uneven))
    assert made is not None
    assert {o.status for o in outcomes(history, made)} == {Status.DRY_RUN}
    assert uneven.unloads == []
    again = await balancer(http, history, options=dry, by=every_poll).step(seen(uneven, 1))
    assert again is not None
    assert not {m.bundle for m in made.moves} & {m.bundle for m in again.moves}


async def test_a_bundle_that_is_gone_or_there_already_is_not_unloaded(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: History
) -> None:
    state = seen(uneven)
    second, third = uneven.names[1:]
    hot = {bundle_name(9): second, bundle_name(8): third}
    uneven.owners |= hot
    made = await balancer(http, history).step(state)
    assert made is not None
    by_bundle = {o.bundle: o for o in outcomes(history, made)}
    for bundle, owner in hot.items():
        there = by_bundle[bundle].destination == owner
        assert by_bundle[bundle].status is (Status.ALREADY_THERE if there else Status.GONE)
        assert by_bundle[bundle].owner == owner
        assert bundle not in dict(uneven.unloads)


async def test_a_destination_that_was_lost_is_seen(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: History
) -> None:
    uneven.lose_destination = True
    made = await balancer(http, history).step(seen(uneven))
    assert made is not None
    for outcome in outcomes(history, made):
        assert outcome.status is Status.ELSEWHERE
        assert outcome.owner == uneven.owners[outcome.bundle] != outcome.destination


async def test_a_refusal_is_a_failure_with_the_clusters_words_and_may_be_tried_again(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: History
) -> None:
    uneven.refuse_unload = 412
    told = Told()
    made = await balancer(http, history, told).step(seen(uneven))
    assert made is not None
    assert {o.status for o in outcomes(history, made)} == {Status.FAILED}
    assert "412" in told
    assert "no" in outcomes(history, made)[0].error
    assert history.memory_before(made.poll_id + 1).recently_unloaded == {}


async def test_an_unload_that_changes_nothing_is_a_failure(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: History
) -> None:
    uneven.forget_unload = True
    made = await balancer(http, history).step(seen(uneven))
    assert made is not None
    assert {o.status for o in outcomes(history, made)} == {Status.FAILED}
    assert "still owns it" in outcomes(history, made)[0].error


async def test_an_unloaded_bundle_is_looked_up_where_it_is_to_go(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: History
) -> None:
    made = await balancer(http, history).step(seen(uneven))
    assert made is not None
    asked = [(move.destination, topic_of(move.bundle)) for move in made.moves]
    # Once to see that the source has it, once to bring it to its heir.
    assert sorted(uneven.lookups) == sorted(2 * asked)


async def test_a_bundle_that_comes_back_to_its_source_is_unloaded_once_more(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: History
) -> None:
    """Another lookup came first, and the leader chose its old owner."""
    uneven.forget_unload = True
    came_back = uneven.unloads

    class Second(list[tuple[str, str]]):
        def append(self, each: tuple[str, str]) -> None:
            uneven.forget_unload = each[0] not in {bundle for bundle, _ in self}
            super().append(each)

    uneven.unloads = Second(came_back)
    options = replace(DO_IT, back_after_s=0.05, at_once=1)
    made = await balancer(http, history, options=options).step(seen(uneven))
    assert made is not None
    assert {one.status for one in outcomes(history, made)} == {Status.MOVED}
    assert len(uneven.unloads) == 2 * len(made.moves)


async def test_a_bundle_that_always_comes_back_is_given_up(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: History
) -> None:
    uneven.forget_unload = True
    options = replace(DO_IT, back_after_s=0.05)
    made = await balancer(http, history, options=options).step(seen(uneven))
    assert made is not None
    assert {one.status for one in outcomes(history, made)} == {Status.FAILED}
    assert "still owns it, or owns it again" in outcomes(history, made)[0].error
    assert len(uneven.unloads) == 2 * len(made.moves)


async def test_a_destination_that_another_lookup_would_lose_takes_the_bundle(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: History
) -> None:
    """Pulsar's leader keeps a destination for one lookup only: the next one finds it gone."""
    uneven.lose_heirs = True
    made = await balancer(http, history).step(seen(uneven))
    assert made is not None
    assert {one.status for one in outcomes(history, made)} == {Status.MOVED}


async def test_no_broker_that_takes_bundles_over_is_asked_what_it_owns(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: History
) -> None:
    """One of Apache Pulsar's would be stuck for ever."""
    uneven.takes_s = 0.05
    made = await balancer(http, history).step(seen(uneven))
    assert made is not None
    assert len(made.moves) > 1
    assert {one.status for one in outcomes(history, made)} == {Status.MOVED}
    assert not any(each.stuck for each in uneven.brokers)
    assert not [path for each in uneven.brokers for path in each.asked if "ownedN" in path]


async def test_what_is_changing_hands_until_the_time_is_up_is_said_with_the_brokers_words(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: History
) -> None:
    lookups = "/lookup/v2/topic/persistent/public/default/"
    state = seen(uneven)
    made = await balancer(http, history, options=replace(DO_IT, execute=False)).step(state)
    assert made is not None
    move = made.moves[0]
    heir = next(each for each in uneven.brokers if each.name == move.destination)
    executor, ended = Executor(http, lambda: START, DO_IT), list[Outcome]()
    path = lookups + topic_of(move.bundle).rpartition("/")[2]

    class Unloads(list[tuple[str, str]]):
        def append(self, each: tuple[str, str]) -> None:
            heir.answers[path] = (500, b"the bundle is being unloaded")
            super().append(each)

    uneven.unloads = Unloads()
    await executor.carry_out([move], uneven.names, ended.append)
    [one] = ended
    assert one.status is Status.FAILED
    assert "no owner shows within" in one.error
    assert "the bundle is being unloaded" in one.error


async def test_an_unloaded_bundle_without_topics_has_no_owner(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: History
) -> None:
    uneven.no_topics = True
    made = await balancer(http, history).step(seen(uneven))
    assert made is not None
    assert {(o.status, o.owner) for o in outcomes(history, made)} == {(Status.UNOWNED, "")}


async def test_a_decision_on_old_news_is_not_carried_out(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: History
) -> None:
    late = balancer(http, history, clock=lambda: START + 121_000)
    made = await late.step(seen(uneven))
    assert made is not None
    assert {o.status for o in outcomes(history, made)} == {Status.STALE}
    assert uneven.unloads == []


async def test_no_round_is_made_on_polls_from_before_the_last_moves_ended(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: History
) -> None:
    every_poll = strategy(interval_ms=1)
    clock = lambda: START + 9_000  # noqa: E731
    await balancer(http, history, clock=clock, by=every_poll).step(seen(uneven))
    assert await balancer(http, history, clock=clock, by=every_poll).step(seen(uneven, 1)) is None
    assert await balancer(http, history, clock=clock, by=every_poll).step(seen(uneven, 2))


async def test_no_round_is_made_on_reports_that_repeat_what_they_said_before_the_moves(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: History
) -> None:
    """Apache Pulsar's brokers do so for a minute; they are waited for, though not for ever."""
    every_poll = balancer(http, history, by=strategy(interval_ms=1, stats_s=30))
    before, polls_a_minute = loads(uneven), 12
    made = await every_poll.step(seen(uneven))
    assert made is not None
    assert made.moves
    after = loads(uneven)
    one_is_late = {**after, made.moves[0].destination or "": {}}
    for repeated in (before, one_is_late):
        assert await every_poll.step(seen_as(repeated, 1)) is None
        assert await every_poll.step(seen_as(repeated, polls_a_minute)) is None
    assert await every_poll.step(seen_as(after, polls_a_minute))


async def test_a_broker_that_reports_the_same_for_long_is_taken_at_its_word(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: History
) -> None:
    every_poll = balancer(http, history, by=strategy(interval_ms=1, stats_s=30))
    before, polls_a_minute = loads(uneven), 12
    assert await every_poll.step(seen(uneven))
    assert await every_poll.step(seen_as(before, polls_a_minute + 1))


async def test_what_a_round_waits_for_is_said_once(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: History
) -> None:
    told = Told()
    options = BalanceOptions(interval_ms=1, stats_s=30, report_interval_ms=2000)
    every_poll = balancer(http, history, told, by=replace(strategy(), balance=options))
    before = loads(uneven)
    made = await every_poll.step(seen(uneven))
    assert made is not None
    told.clear()
    for number in (0.5, 0.7):
        assert await every_poll.step(seen_as(before, number)) is None
    assert told == [
        "the next round waits for reports that were measured after the last moves "
        "(loadBalancerReportUpdateMinIntervalMillis)"
    ]
    told.clear()
    for number in (2, 3):
        assert await every_poll.step(seen_as(before, number)) is None
    [said] = told
    assert said.startswith("the next round waits for 127.0.0.1:")
    assert "statsUpdateFrequencyInSecs" in said


async def test_who_had_no_traffic_and_got_none_is_not_waited_for(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: History
) -> None:
    every_poll = balancer(http, history, by=strategy(interval_ms=1, stats_s=30))
    made = await every_poll.step(seen(uneven))
    assert made is not None
    first = made.moves[0]
    memory = history.memory_before(made.poll_id + 1)
    assert set(memory.traffic_before) == {first.source, *(m.destination for m in made.moves)}
    idle = dict.fromkeys(loads(uneven)[first.destination] or {}, 0.0)
    idle_state = seen_as({first.source: {}, first.destination: idle}, 0)
    outcomes = [history.outcome(move.id) for move in made.moves]
    assert not before_moves([o for o in outcomes if o], traffic(idle_state), {})


async def test_the_tables_say_who_what_when_and_why(
    uneven: FakeCluster, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    made = await balancer(http, HistoryTables(open_store(tmp_path))).step(seen(uneven))
    assert made is not None
    decisions = read_table(open_store(tmp_path), "decisions")
    assert [row["id"] for row in decisions] == [move.id for move in made.moves]
    assert decisions[0]["sentence"] == made.moves[0].decision.sentence
    assert '"usage"' in decisions[0]["figures"]
    rejections = read_table(open_store(tmp_path), "rejections")
    assert {row["subject"] for row in rejections} >= set(uneven.names[1:])
    assert all(row["carried_out"] for row in read_table(open_store(tmp_path), "outcomes"))
    [row] = read_table(open_store(tmp_path), "rounds")
    assert row["decisions"] == len(made.moves)
    assert row["imbalance"] == pytest.approx(2.0)
    assert read_table(open_store(tmp_path), "nothing") == []


async def test_the_same_refusal_is_said_once(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    first, _ = [await cluster.add_broker() for _ in range(2)]
    cluster.carry(first, bundle_name(0), 90_000.0)
    told, history = Told(), ShortHistory()
    for number, carried in enumerate((90_000.0, 91_000.0, 92_000.0)):
        cluster.carry(first, bundle_name(0), carried)
        await balancer(http, history, told).step(seen(cluster, number * 100))
    assert len([one for one in told if one.startswith("nothing to move")]) == 3, "three balancers"
    told.clear()
    one = balancer(http, history, told)
    for number, carried in enumerate((90_000.0, 91_000.0, 92_000.0), 3):
        cluster.carry(first, bundle_name(0), carried)
        await one.step(seen(cluster, number * 100))
    assert len([one for one in told if one.startswith("nothing to move")]) == 1


async def test_what_a_rule_withholds_is_not_done_and_is_kept_with_the_rule(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: History
) -> None:
    executor = Executor(http, lambda: START + 1000, DO_IT)
    rules = ApprovalRules(moves_a_round=1)
    made = await Balancer(strategy(), history, executor, Told().append, rules=rules).step(
        seen(uneven)
    )
    assert made is not None
    assert len(made.moves) > 1, "or this test says nothing"
    assert len(uneven.unloads) == 1
    kept = outcomes(history, made)
    assert [one.status for one in kept] == [Status.MOVED] + [Status.WITHHELD] * (len(kept) - 1)
    assert "--max-moves-a-round" in kept[-1].error
    left_alone = history.memory_before(made.poll_id + 1).recently_unloaded
    assert set(left_alone) == {made.moves[0].bundle}, "the others may go in the next round"


async def test_what_is_withheld_round_after_round_is_said_once(
    uneven: FakeCluster, http: aiohttp.ClientSession, history: History
) -> None:
    told = Told()
    rules = ApprovalRules(part_a_round=1e-9)
    executor = Executor(http, lambda: START + 1000, DO_IT)
    one = Balancer(strategy(), history, executor, told.append, rules=rules)
    first = await one.step(seen(uneven))
    assert first is not None
    said = [each for each in told if each.startswith("withheld ")]
    assert len(said) == len(first.moves) > 1
    again = await one.step(seen(uneven, 100))
    assert again is not None
    assert {move.bundle for move in again.moves} == {move.bundle for move in first.moves}
    assert [each for each in told if each.startswith("withheld ")] == said
    assert len([each for each in told if each.startswith("decided ")]) == len(first.moves)
    assert len(outcomes(history, again)) == len(again.moves), "and kept each time"


@pytest.mark.parametrize(
    ("settings", "changed", "sheds"),
    [
        ({}, {}, True),
        ({"loadBalancerSheddingEnabled": "false"}, {}, False),
        ({"loadBalancerEnabled": "false"}, {}, False),
        ({}, {"loadBalancerSheddingEnabled": "false"}, False),
        ({"loadBalancerSheddingEnabled": "false"}, {"loadBalancerSheddingEnabled": "true"}, True),
    ],
)
async def test_a_cluster_that_sheds_by_itself_is_seen(
    cluster: FakeCluster,
    http: aiohttp.ClientSession,
    settings: dict[str, str],
    changed: dict[str, str],
    sheds: bool,
) -> None:
    broker = await cluster.add_broker()
    base = "/admin/v2/brokers"
    broker.answers[f"{base}/configuration/runtime"] = (200, json.dumps(settings).encode())
    broker.answers[f"{base}/configuration/values"] = (200, json.dumps(changed).encode())
    said = await sheds_by_itself(
        Admin(http, AdminOptions()), ["http://127.0.0.1:1", cluster.admin_url]
    )
    assert bool(said) is sheds
    assert not sheds or "update-dynamic-config --config loadBalancerSheddingEnabled" in said
