"""``counterpoise advise``: from a cluster, from a history, from both; as text, JSON and a page."""

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest

from counterpoise.app.main import main
from counterpoise.decide.advice.plan import AdvisedPlan, MoveTime, Redelivery
from counterpoise.decide.advice.planned import advise
from counterpoise.decide.balancing.moves import RoundMemory
from counterpoise.pipeline.advise.page import page_of
from counterpoise.pipeline.advise.plan_inputs import (
    LookOptions,
    inputs_from_cluster,
    inputs_from_history,
    move_time,
    move_time_by_hand,
    state_of,
)
from counterpoise.pipeline.advise.plots import brokers_plot, steps_plot
from counterpoise.pipeline.advise.text import lines_of
from counterpoise.pipeline.advise.topics import topic_loads, topics_of
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.collect.admin import Admin, RefusedError
from counterpoise.pipeline.drive.action_trail import (
    ActionKind,
    ActionMove,
    ActionTrail,
    OperatorAction,
)
from counterpoise.pipeline.page.drawing import AFTER, BEFORE
from counterpoise.pipeline.tables.history import TablesWriter
from counterpoise.pipeline.tables.journal import UNACKNOWLEDGED, JournalWriter
from counterpoise.pipeline.tables.reports import land, land_polls
from counterpoise.pipeline.tables.schema import rows_to_arrow
from counterpoise.pipeline.tables.states import commit_states, write_state
from tests.decide.advice.test_planned import UNEVEN, plan, snapshot
from tests.decide.balancing.test_round import HOT, strategy
from tests.load.story import poll
from tests.pipeline.fake_cluster import FakeCluster, bundle_name
from tests.pipeline.histories import writer_of
from tests.pipeline.rounds import loads

SET = [
    *("--strategy", "ThresholdShedder"),
    *("--set", "loadBalancerBundleUnloadMinThroughputThreshold=0.001"),
]


async def run(words: Sequence[str]) -> int:
    """The command line in a thread, as the cluster is on this loop."""
    return await asyncio.to_thread(main, ["advise", *words])


def topics_answer(bundle: str, loads: dict[str, float]) -> bytes:
    namespace, _, span = bundle.rpartition("/")
    topics = {name: {"msgThroughputIn": load, "msgRateIn": 1} for name, load in loads.items()}
    return json.dumps({namespace: {span: {"persistent": topics}}}).encode()


async def test_a_cluster_that_was_never_seen_before_gets_a_plan_and_is_not_touched(
    uneven: FakeCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page, saved = tmp_path / "plan.html", tmp_path / "plan.json"
    words = ["--admin-url", uneven.admin_url, "--html", str(page), "--save", str(saved), *SET]
    assert await run(words) == 0
    text = capsys.readouterr().out
    assert re.search(r"plan [0-9a-f]{12} by ThresholdShedder and LeastUsage", text)
    assert f"{bundle_name(9)}: {uneven.names[0]} -> " in text
    assert "no move of this cluster is recorded" in text
    made = AdvisedPlan.from_json(json.loads(saved.read_text()))
    assert f"plan {made.id}" in text
    assert made.after.imbalance < made.before.imbalance == 2.0
    assert f"<code>{made.id}</code>" in page.read_text()
    assert uneven.unloads == []


async def test_of_so_many_polls_at_their_interval_the_last_has_to_find_a_broker(
    uneven: FakeCluster, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    every_s, pauses, sleep = 0.1234, list[float](), asyncio.sleep

    async def pass_at_once(seconds: float) -> None:
        if seconds == every_s:
            pauses.append(seconds)
            for each in uneven.brokers:
                each.silent = False
        await sleep(0)

    for each in uneven.brokers:
        each.silent = True
    monkeypatch.setattr(asyncio, "sleep", pass_at_once)
    options = LookOptions(looks=3, every_s=every_s)
    where = [uneven.admin_url]
    found = await inputs_from_cluster(http, where, wall_clock_ms, None, options)
    assert pauses == [every_s] * 2
    assert set(found.snapshot.answering) == set(uneven.names)


async def test_without_a_named_strategy_counterpoise_makes_the_plan(
    uneven: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await run(["--admin-url", uneven.admin_url, "--json"]) == 0
    made = AdvisedPlan.from_json(json.loads(capsys.readouterr().out))
    assert made.strategy == "Counterpoise"
    assert made.after.imbalance < 0.3 < made.before.imbalance


async def test_the_settings_are_the_clusters_own_and_those_given_win(
    uneven: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    logged = {"loadBalancerLoadSheddingStrategy": "OverloadShedder"}
    for broker in uneven.brokers:
        base = "/admin/v2/brokers/configuration"
        broker.answers[f"{base}/runtime"] = (200, json.dumps(logged).encode())
        broker.answers[f"{base}/values"] = (
            200,
            b'{"loadBalancerBrokerOverloadedThresholdPercentage":"1"}',
        )
    clusters = ["--strategy", "cluster"]
    assert await run(["--admin-url", uneven.admin_url, "--json", *clusters]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["strategy"] == "OverloadShedder"
    assert made["steps"], "the cluster's own threshold of 1% makes it act"
    given = [*clusters, "--set", "loadBalancerBrokerOverloadedThresholdPercentage=99"]
    assert await run(["--admin-url", uneven.admin_url, "--json", *given]) == 0
    assert not json.loads(capsys.readouterr().out)["steps"]


async def test_the_topic_that_makes_a_bundle_hot_is_named(
    uneven: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    hot = bundle_name(50)
    uneven.carry(uneven.brokers[1], hot, 999_999.0)
    said = topics_answer(
        hot, {"persistent://public/default/big": 9e5, "persistent://public/default/s": 9.0}
    )
    uneven.brokers[1].answers["/admin/v2/broker-stats/topics"] = (200, said)
    assert await run(["--admin-url", uneven.admin_url]) == 0
    text = capsys.readouterr().out
    assert "partition: " + hot in text
    assert "persistent://public/default/big is 100% of it" in text
    assert not any("broker-stats/topics" in path for path in uneven.brokers[0].asked)


async def test_the_topics_of_a_bundle_are_asked_of_the_broker_that_reported_it_last(
    uneven: FakeCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hot, (_, owner, former) = bundle_name(50), uneven.brokers
    uneven.carry(former, hot, 9.0)
    land(writer_of(tmp_path), poll(0, loads(uneven)))
    former.answers["/admin/v2/broker-stats/load-report"] = (500, b"it is too late to say")
    uneven.carry(owner, hot, 999_999.0)
    said = topics_answer(hot, {"persistent://public/default/big": 9e5})
    owner.answers["/admin/v2/broker-stats/topics"] = (200, said)
    assert await run(["--admin-url", uneven.admin_url, "--history", str(tmp_path)]) == 0
    assert "persistent://public/default/big is 100% of it" in capsys.readouterr().out
    assert not any("broker-stats/topics" in path for path in former.asked)


async def test_a_cordoned_broker_takes_no_part_in_a_plan(
    uneven: FakeCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writer, empty = writer_of(tmp_path), uneven.names[2]
    words = ["--admin-url", uneven.admin_url, "--history", str(tmp_path), "--json", *SET]
    assert await run(words) == 0
    free = json.loads(capsys.readouterr().out)
    assert empty in {step["destination"] for step in free["steps"]}
    ActionTrail(writer.location).begin(ActionKind.DRAIN, 0, who="ann", why="disks", broker=empty)
    assert await run(words) == 0
    held = json.loads(capsys.readouterr().out)
    assert {step["destination"] for step in held["steps"]} == {uneven.names[1]}
    assert held["notes"][0].startswith(f"{empty} is cordoned: ann drained it: disks; it gets")


@pytest.mark.parametrize(
    ("answer", "said"), [((401, b"no token"), "HTTP 401 no token"), ((200, b"[]"), ""),
                         ((200, b"{"), "")]
)  # fmt: skip
async def test_topics_that_cannot_be_asked_for_are_a_note(
    uneven: FakeCluster,
    capsys: pytest.CaptureFixture[str],
    answer: tuple[int, bytes],
    said: str,
) -> None:
    uneven.carry(uneven.brokers[1], bundle_name(50), 999_999.0)
    uneven.brokers[1].answers["/admin/v2/broker-stats/topics"] = answer
    assert await run(["--admin-url", uneven.admin_url]) == 0
    text = capsys.readouterr().out
    assert f"the topics of {uneven.names[1]} are not known: {said}" in text


async def test_a_plan_leaves_alone_what_the_history_says_was_moved_lately(
    uneven: FakeCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = writer_of(tmp_path)
    words = ["--admin-url", uneven.admin_url, "--history", str(tmp_path), "--json", *SET]
    moved: set[str] = set()
    for _ in range(2):
        assert await run(words) == 0
        steps = {step["bundle"] for step in json.loads(capsys.readouterr().out)["steps"]}
        assert steps
        assert not steps & moved
        moved |= steps
        lately = RoundMemory(recently_unloaded=dict.fromkeys(moved, wall_clock_ms()))
        JournalWriter(writer).record_memory(1, lately)


def recorded(writer: TablesWriter, polls: int) -> None:
    for number in range(polls):
        land(writer, poll(number, UNEVEN))


async def test_a_history_alone_is_enough(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(writer_of(tmp_path), 3)
    assert await run(["--history", str(tmp_path), "--json", *SET]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["source"] == str(tmp_path)
    assert any("anti-affinity groups are not modelled" in note for note in made["notes"])
    assert {step["source"] for step in made["steps"]} == {"b1:80"}


def test_the_last_state_and_what_came_after_it_are_the_same_as_all_of_it(tmp_path: Path) -> None:
    whole, resumed = writer_of(tmp_path / "whole"), writer_of(tmp_path / "resumed")
    recorded(whole, 6)
    recorded(resumed, 3)
    kept = state_of(resumed)
    up_to = int(kept.brokers["poll_id"].max())
    state = write_state(resumed.location, kept, up_to=up_to, shard=0, shards=1)
    commit_states(resumed, [state], up_to)
    for number in range(3, 6):
        land(resumed, poll(number, UNEVEN))
    one, other = (
        inputs_from_history(each, LookOptions()).snapshot.view for each in (whole, resumed)
    )
    assert one.bundles == other.bundles
    assert one.bundle.short.throughput().tolist() == other.bundle.short.throughput().tolist()
    assert one.bundle.samples.tolist() == other.bundle.samples.tolist()
    assert one.bundle.samples[:, 1].tolist() == [6] * len(one.bundles)


def test_without_a_kept_state_the_averages_are_those_of_the_last_hour(tmp_path: Path) -> None:
    """A watcher keeps none; a month of its polls is not read for a plan."""
    writer = writer_of(tmp_path)
    polls = [
        poll(minute, {"b1:80": {bundle_name(0): 1.0}}, every_ms=60_000) for minute in range(70)
    ]
    first, last = (int(polls[at]["poll_id"][0]) for at in (0, -1))
    land_polls(writer, map(rows_to_arrow, polls), first, last)
    assert state_of(writer).averages["long_samples"].tolist() == [60]


def test_a_history_knows_what_was_moved_at_its_newest_poll(tmp_path: Path) -> None:
    writer = writer_of(tmp_path)
    recorded(writer, 2)
    newest = int(state_of(writer).brokers["poll_id"].max())
    moved = RoundMemory(recently_unloaded={bundle_name(9): newest})
    JournalWriter(writer).record_memory(newest, moved)
    assert set(inputs_from_history(writer, LookOptions()).memory.recently_unloaded) == {
        bundle_name(9)
    }


def test_the_picture_of_the_steps_begins_at_nothing_however_little_they_change() -> None:
    made = plan(UNEVEN)
    steps = [replace(step, imbalance_after=1.99) for step in made.steps]
    drawn = steps_plot(replace(made, steps=tuple(steps)))
    figures = [float(each) for each in re.findall(r">(\d+\.\d+)<", drawn)]
    assert min(figures) == 0.0
    assert max(figures) >= 1.5


def test_how_long_moves_took_is_what_the_history_says() -> None:
    rows = [
        {"status": status, "started_at_ms": 0, "ended_at_ms": took}
        for status, took in (("moved", 100), ("moved", 300), ("moved", 9000),
                             ("failed", 20_000), ("gone", 1), ("elsewhere", 1))
    ]  # fmt: skip
    took = move_time(rows)
    assert (took.seconds, took.quickest_s, took.slowest_s) == (0.3, 0.1, 9.0)
    assert took.basis == "the median of 3 moves seen here"
    by_hand = ActionMove("t/n/1", "a:1", "b:1", "moved", 0, 7000)
    drain = OperatorAction(ActionKind.DRAIN, 0, "ann", moves=(by_hand,))
    assert move_time(rows, by_hand=[drain]) == took, "where there are rounds, those count"
    assert move_time(rows, 5.0).seconds == 5.0
    assert "taken for granted" in move_time([]).basis


def test_moves_at_once_are_expected_to_take_what_those_took_that_went_beside_others() -> None:
    spans = [(0, 1000), (1000, 2200), (10_000, 12_000), (10_500, 13_300), (11_000, 11_400)]
    rows = [{"status": "moved", "started_at_ms": a, "ended_at_ms": b} for a, b in spans]
    alone, beside = move_time(rows), move_time(rows, at_once=4)
    assert (alone.seconds, alone.quickest_s, alone.slowest_s) == (1.1, 1.0, 1.2)
    assert alone.basis == "the median of 2 moves seen here, one at a time"
    assert (beside.seconds, beside.quickest_s, beside.slowest_s) == (2.0, 0.4, 2.8)
    assert beside.basis == "the median of 3 moves seen here, beside others"
    # One that takes long goes beside each that is begun and ends meanwhile.
    long = [(0, 9000), (1000, 2000), (5000, 6000)]
    rows += [
        {"status": "moved", "started_at_ms": 50_000 + a, "ended_at_ms": 50_000 + b} for a, b in long
    ]
    assert move_time(rows).basis == alone.basis
    assert move_time(rows[:2], at_once=4).seconds == 1.1, "where none went beside others, all count"


def test_moves_of_a_drain_are_expected_to_take_what_those_of_drains_took() -> None:
    def action(kind: ActionKind, *took: int) -> OperatorAction:
        moves = (ActionMove("t/n/1", "a:1", "b:1", "moved", 0, each) for each in took)
        return OperatorAction(kind, 0, "ann", moves=tuple(moves))

    seen = [action(ActionKind.DRAIN, 1900, 4000), action(ActionKind.DRAIN, 6500)]
    rounds = move_time([{"status": "moved", "started_at_ms": 0, "ended_at_ms": 1200}])
    drains = move_time_by_hand(seen, ActionKind.DRAIN, rounds)
    assert (drains.seconds, drains.quickest_s, drains.slowest_s) == (4.0, 1.9, 6.5)
    assert drains.basis == "the median of 3 moves of a drain seen here"
    assert move_time_by_hand(seen, ActionKind.REFILL, rounds) is rounds


def test_redeliveries_are_expected_as_moves_of_the_kind_had_them_and_by_a_rule_until_then() -> None:
    def row(start: int, end: int, seconds: float | None) -> dict[str, object]:
        figures = json.dumps({UNACKNOWLEDGED: seconds})
        return {"status": "moved", "started_at_ms": start, "ended_at_ms": end, "figures": figures}

    before = {"status": "moved", "started_at_ms": 0, "ended_at_ms": 1, "figures": None}
    assert move_time([before]).redelivery == Redelivery(), "written before it was measured"
    rows = [row(0, 1000, 0.2), row(2000, 3000, 0.4), row(9000, 9900, 3.0), row(9100, 9800, None)]
    alone, beside = move_time(rows), move_time(rows, at_once=4)
    assert alone.redelivery == Redelivery(0.2, 0.4, "measured at 2 moves seen here, one at a time")
    assert beside.redelivery == Redelivery(
        3.0, 3.0, "measured at one move seen here, beside others"
    )
    assert move_time(rows, 5.0).redelivery == alone.redelivery, "no time that is given changes it"

    def drained(*seconds: float | None) -> OperatorAction:
        made = (ActionMove("t/n/1", "a:1", "b:1", "moved", 0, 9, unacknowledged_s=each)
                for each in seconds)  # fmt: skip
        return OperatorAction(ActionKind.DRAIN, 0, "ann", moves=tuple(made))

    drain = move_time_by_hand([drained(0.5, None, 0.7)], ActionKind.DRAIN, alone)
    assert drain.redelivery == Redelivery(0.5, 0.7, "measured at 2 moves of a drain seen here")
    unknown = move_time_by_hand([drained(None)], ActionKind.DRAIN, alone)
    assert unknown.redelivery == alone.redelivery
    refill = move_time_by_hand(
        [drained(0.5)], ActionKind.REFILL, move_time([], by_hand=[drained(0.5)])
    )
    assert refill.redelivery.basis == "measured at one move by hand seen here"
    assert refill.basis == "the median of one move by hand seen here"


def test_moves_by_hand_that_moved_nothing_say_nothing_of_how_long_one_takes() -> None:
    took = {"moved": 2000, "elsewhere": 4000, "failed": 60_000, "withheld": 1}
    moves = [ActionMove("t/n/1", "a:1", "b:1", each, 0, ms) for each, ms in took.items()]
    rounds = move_time([])
    drain = OperatorAction(ActionKind.DRAIN, 0, "ann", moves=tuple(moves))
    found = move_time_by_hand([drain], ActionKind.DRAIN, rounds)
    assert (found.seconds, found.quickest_s, found.slowest_s) == (3.0, 2.0, 4.0)
    failed = replace(drain, moves=tuple(moves[2:]))
    assert move_time_by_hand([failed], ActionKind.DRAIN, rounds) is rounds


def test_nothing_that_a_cluster_is_called_becomes_markup() -> None:
    evil = "<script>alert(1)</script>"
    reported: Any = {f"{evil}b1:80": dict(UNEVEN["b1:80"] or {}), "$b^2$:80": {}}
    made = advise(
        snapshot(reported, source=evil), strategy(), MoveTime(1, 1, evil), 0, notes=(evil,)
    )
    page = page_of(made)
    assert made.steps
    assert "<script" not in page
    assert page.count("&lt;script&gt;") > 5
    fetched = re.findall(r"(?:src|href)=.?https?:|url\(.?https?:|@import", page)
    assert not fetched, "it needs no network"


def test_a_page_of_many_brokers_is_curves_and_one_of_none_is_a_page() -> None:
    many: Any = {f"b{number}:80": {bundle_name(number): float(number)} for number in range(60)}
    assert "brokers, the most loaded first" in page_of(plan(many))
    assert "Nothing to move" in page_of(plan({}))
    assert page_of(plan(UNEVEN)) == page_of(plan(UNEVEN)), "the same plan is the same page"
    assert any("and 40 brokers between" in line for line in lines_of(plan(many)))


def test_a_terminal_shows_what_a_plan_brings_and_how_long_it_takes() -> None:
    made = replace(plan(UNEVEN), took=MoveTime(2.0, 9.0, "as it was", 1.0))
    first, cost, *_ = lines_of(made)
    before, after = made.before.imbalance, made.after.imbalance
    assert before > after
    assert first.endswith(f"moves, imbalance {before:.2f} -> {after:.2f}")
    assert cost.endswith("(2.0 s each, 1.0 to 9.0 s, as it was)")


def test_a_terminal_shows_the_ten_most_and_the_ten_least_loaded_brokers() -> None:
    many: Any = {
        f"b{number:02}:80": {bundle_name(number): 1000.0 * (number + 1)} for number in range(25)
    }
    shown = [line.split()[0] for line in lines_of(plan(many)) if re.match(r"b\d\d:80 ", line)]
    assert shown == [f"b{number:02}:80" for number in (*range(24, 14, -1), *range(9, -1, -1))]


@pytest.mark.parametrize(("reasons", "more"), [(19, ""), (20, ""), (21, "1"), (50, "30")])
def test_a_terminal_shows_twenty_reasons_and_how_many_more_there_are(
    reasons: int, more: str
) -> None:
    [why, *_] = plan(UNEVEN).not_done
    said = list(lines_of(replace(plan({}), not_done=(why,) * reasons)))
    assert said.count(f"  {why.why}") == min(reasons, 20)
    assert said[-1] == (f"  and {more} more (--json, --html)" if more else f"  {why.why}")
    assert "0 moves, imbalance" in said[0]


def test_producers_and_consumers_of_a_bundle_are_counted_together(tmp_path: Path) -> None:
    writer = writer_of(tmp_path)
    recorded(writer, 1)
    found = inputs_from_history(writer, LookOptions()).snapshot.connections
    assert found == dict.fromkeys((*HOT, bundle_name(20)), 2 + 1), "as each report says"


def test_a_broker_that_did_not_answer_the_last_look_is_a_note(tmp_path: Path) -> None:
    writer = writer_of(tmp_path)
    recorded(writer, 1)
    assert len(inputs_from_history(writer, LookOptions()).notes) == 1, "that of policies"
    land(writer, poll(1, {**UNEVEN, "b2:80": None}))
    notes = inputs_from_history(writer, LookOptions()).notes
    assert notes[0] == "nothing is given to b2:80: no answer at the last look"
    without = inputs_from_history(writer, LookOptions(cordoned={"b1:80": "repairs"}))
    assert without.notes[0] == "b1:80 is cordoned: repairs"
    assert "b1:80" not in without.snapshot.view.brokers


async def test_a_cluster_that_sheds_load_by_itself_is_a_note(
    uneven: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    base = "/admin/v2/brokers/configuration"
    for on, said in (("true", 1), ("false", 0)):
        for broker in uneven.brokers:
            broker.answers[f"{base}/runtime"] = (200, b"{}")
            setting = json.dumps({"loadBalancerSheddingEnabled": on}).encode()
            broker.answers[f"{base}/values"] = (200, setting)
        assert await run(["--admin-url", uneven.admin_url, *SET]) == 0
        assert capsys.readouterr().out.count("note: the cluster sheds load by itself") == said


def test_topics_of_bundles_that_were_not_asked_for_are_left_out() -> None:
    asked, other = bundle_name(1), bundle_name(2)
    both = {
        each.rpartition("/")[2]: {"persistent": {f"persistent://{each}": {"msgRateIn": 1.0}}}
        for each in (asked, other)
    }
    body = json.dumps({asked.rpartition("/")[0]: both}).encode()
    assert set(topic_loads(body, {asked})) == {asked}


@pytest.mark.parametrize(
    "body", [b"[]", b'{"a/b": 3}', b'{"a/b": {"0x0_0x1": {"persistent": []}}}']
)
def test_an_answer_that_is_no_table_of_topics_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="broker-stats/topics"):
        topic_loads(body, {"a/b/0x0_0x1"})


def test_without_a_state_averages_are_of_more_than_the_last_poll(tmp_path: Path) -> None:
    """As of a history that was only watched."""
    writer = writer_of(tmp_path)
    for number in range(3):
        land(writer, poll(number, UNEVEN, every_ms=100_000))
    samples = inputs_from_history(writer, LookOptions()).snapshot.view.bundle.samples[:, 3]
    assert set(samples.tolist()) == {3}


async def test_topics_are_those_of_every_broker_that_answers() -> None:
    one, two, three = (bundle_name(number) for number in range(3))

    class Brokers:
        async def get(self, url: str, **_: object) -> bytes:
            if url.startswith("http://c:"):
                raise RefusedError("not now")
            return topics_answer(one if url.startswith("http://a:") else two, {"x": 1.0})

    where = {f"{each}:80": f"http://{each}:80" for each in "abc"}
    asked = {one: "a:80", two: "b:80", three: "c:80", bundle_name(3): "gone:80"}
    found, trouble = await topics_of(cast("Admin", Brokers()), where, asked)
    assert {bundle: set(topics) for bundle, topics in found.items()} == {one: {"x"}, two: {"x"}}
    assert trouble == ("the topics of c:80 are not known: not now",)


def bars(svg: str, colour: str) -> list[float]:
    """How long the bars of a colour are, from the top down; the legend's is left out."""
    path = r'<path d="M (\S+) \S+ \s*L (\S+) \S+ [^"]*" [^>]*style="fill: '
    return [float(b) - float(a) for a, b in re.findall(path + colour, svg)][:-1]


def test_each_broker_has_its_bars_of_before_and_after_beside_its_name() -> None:
    a, b, c = map(bundle_name, range(3))
    made = plan({"b1:80": {a: 900.0}, "b2:80": {b: 300.0}, "$b^3$:80": {c: 600.0}})
    after = [("b1:80", 600.0), ("$b^3$:80", 300.0), ("b2:80", 900.0)]
    moved = dict(after)
    loads = tuple(replace(each, bytes_per_s=moved[each.broker]) for each in made.after.brokers)
    svg = brokers_plot(replace(made, after=replace(made.after, brokers=loads)))
    before, then = bars(svg, BEFORE), bars(svg, AFTER)
    assert [each / before[0] for each in before] == pytest.approx([1, 2 / 3, 1 / 3])
    assert [each / then[0] for each in then] == pytest.approx([load / 600 for _, load in after])
    assert ">$b^3$:80<" in svg, "a name is no formula"
    assert "<dc:date>" not in svg, "the same plan is the same page tomorrow"
