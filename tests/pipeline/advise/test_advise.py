"""``counterpoise advise``: from a cluster, from a history, from both."""

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import aiohttp
import pytest

from counterpoise.app.main import main
from counterpoise.decide.advice.plan import AdvisedPlan
from counterpoise.decide.balancing.moves import RoundMemory
from counterpoise.pipeline.advise.plan_inputs import (
    LookOptions,
    inputs_from_cluster,
    inputs_from_history,
    state_of,
    topic_loads,
    topics_of,
)
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.collect.admin import Admin, RefusedError
from counterpoise.pipeline.drive.action_trail import ActionKind, ActionTrail
from counterpoise.pipeline.tables.history import TablesWriter
from counterpoise.pipeline.tables.journal import JournalWriter
from counterpoise.pipeline.tables.reports import land, land_polls
from counterpoise.pipeline.tables.schema import rows_to_arrow
from counterpoise.pipeline.tables.states import commit_states, write_state
from tests.decide.advice.test_planned import UNEVEN
from tests.decide.balancing.test_round import HOT
from tests.load.story import poll
from tests.pipeline.fake_cluster import FakeCluster, bundle_name
from tests.pipeline.histories import writer_of
from tests.pipeline.rounds import loads

SET = [
    "--strategy",
    "ThresholdShedder",
    "--set",
    "loadBalancerBundleUnloadMinThroughputThreshold=0.001",
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
    ("answer", "said"),
    [((401, b"no token"), "HTTP 401 no token"), ((200, b"[]"), ""), ((200, b"{"), "")],
)
async def test_topics_that_cannot_be_asked_for_are_a_note(
    uneven: FakeCluster, capsys: pytest.CaptureFixture[str], answer: tuple[int, bytes], said: str
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
