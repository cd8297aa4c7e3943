"""`counterpoise refill` on a cluster: shown first, done within rules, verified, kept."""

import asyncio
import json
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from counterpoise.app.main import main
from counterpoise.pipeline.drive.action_trail import ActionKind, ActionTrail, cordoned
from counterpoise.pipeline.tables.control import Control, Wish, write_control
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.schema import JournalKind
from tests.pipeline.fake_cluster import FakeCluster, bundle_name
from tests.pipeline.histories import kept
from tests.pipeline.test_collect_managers import with_own_topics

OFF = json.dumps({"loadBalancerSheddingEnabled": "false"}).encode()


@pytest.fixture
async def grown(cluster: FakeCluster) -> FakeCluster:
    """Two brokers with twelve bundles between them, and one that has just joined."""
    brokers = [await cluster.add_broker() for _ in range(3)]
    for index in range(12):
        cluster.carry(brokers[index % 2], bundle_name(index), 1000.0)
    for each in brokers:
        base = "/admin/v2/brokers/configuration"
        each.answers |= {f"{base}/runtime": (200, OFF), f"{base}/values": (200, b"{}")}
    return cluster


async def refill(cluster: FakeCluster, *words: str) -> int:
    at = ["--admin-url", cluster.admin_url, "--warm-up", "0s"]
    return await asyncio.to_thread(main, ["refill", cluster.names[2], *at, *words])


async def test_it_is_shown_then_done_and_kept(
    grown: FakeCluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as closed:
        closed.setattr(sys.stdout, "write", Mock(side_effect=BrokenPipeError))
        closed.setattr("counterpoise.app.main.discard_output", Mock())
        await refill(grown)
    assert not capsys.readouterr().err, "a reader that has enough, such as head, is no error"
    assert await refill(grown) == 0
    said = capsys.readouterr().out
    assert "4 moves, imbalance 0.50 -> 0.00" in said
    assert "nothing was moved (--execute moves them)" in said
    assert grown.unloads == []
    assert await refill(grown, "--execute") == 2
    assert "--execute needs --history URI" in capsys.readouterr().err
    assert await refill(grown, "--execute", "--history", str(tmp_path)) == 0
    said = capsys.readouterr()
    assert "4 of 4 moved and verified" in said.out
    assert said.err.count(f"nothing is kept in {tmp_path} yet") == 1
    assert set(grown.throughputs().values()) == {4000.0}
    outcomes = kept(tmp_path, JournalKind.OUTCOME)
    assert [(row["status"], row["owner"]) for row in outcomes] == [("moved", grown.names[2])] * 4
    grown.report_time += 1
    assert await refill(grown, "--execute", "--history", str(tmp_path)) == 0
    said = capsys.readouterr()
    assert "nothing is moved" in said.out
    assert "nothing is kept" not in said.err


async def test_a_drained_broker_is_filled_and_takes_part_again(
    grown: FakeCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trail = ActionTrail(open_location(str(tmp_path)))
    trail.begin(ActionKind.DRAIN, 0, who="ann", broker=grown.names[2])
    assert await refill(grown, "--execute", "--history", str(tmp_path)) == 0
    assert "4 of 4 moved and verified" in capsys.readouterr().out
    assert not cordoned(trail.actions())


async def test_each_of_two_brokers_has_an_action_with_what_it_was_given(
    grown: FakeCluster, tmp_path: Path
) -> None:
    await grown.add_broker()
    for each in grown.brokers:
        base = "/admin/v2/brokers/configuration"
        each.answers |= {f"{base}/runtime": (200, OFF), f"{base}/values": (200, b"{}")}
    filled = grown.names[2:]
    words = ["refill", *filled, "--admin-url", grown.admin_url, "--warm-up", "0s", "--execute"]
    assert await asyncio.to_thread(main, [*words, "--history", str(tmp_path)]) == 0
    actions = ActionTrail(open_location(str(tmp_path))).actions()
    assert sorted(each.broker for each in actions) == sorted(filled)
    assert all(each.ended_ms for each in actions)
    given = {move.bundle: each.broker for each in actions for move in each.moves}
    assert given == {bundle: to for bundle, to in grown.owners.items() if to in filled}
    assert sum(len(each.moves) for each in actions) == len(given)
    assert set(given.values()) == set(filled)


async def test_rules_hold_and_are_part_of_the_plan(
    grown: FakeCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    within = ["--max-load-an-hour", "20%", "--history", str(tmp_path)]
    assert await refill(grown, *within, "--execute") == 0
    assert "2 of 2 moved and verified" in capsys.readouterr().out
    grown.report_time += 1
    assert await refill(grown, *within) == 0
    said = capsys.readouterr().out
    assert "0 moves" in said
    assert "of the 20.0% an hour that may move 3.3% are left (--max-load-an-hour)" in said


async def test_a_pause_of_the_history_holds_it(
    grown: FakeCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_control(open_location(tmp_path), Control(Wish.PAUSE, 1, "a release"))
    assert await refill(grown, "--execute", "--history", str(tmp_path)) == 1
    assert grown.unloads == []
    assert "a release (counterpoise control)" in capsys.readouterr().out


async def test_it_does_not_work_against_the_clusters_own_shedder(
    grown: FakeCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for each in grown.brokers:
        each.answers["/admin/v2/brokers/configuration/runtime"] = (200, b"{}")
    assert await refill(grown, "--execute", "--history", str(tmp_path)) == 2
    assert "--config loadBalancerSheddingEnabled --value false" in capsys.readouterr().err
    assert grown.unloads == []


async def test_who_is_no_broker_is_not_filled(
    grown: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["refill", "absent:1", "--admin-url", grown.admin_url]
    assert await asyncio.to_thread(main, words) == 2
    assert "absent:1 is no broker of this cluster" in capsys.readouterr().err


async def test_a_broker_whose_state_channel_has_not_started_is_not_filled(
    grown: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    for broker in grown.brokers:
        with_own_topics(broker)
    grown.brokers[2].channel_waits = True
    assert await refill(grown) == 2
    said = capsys.readouterr().err
    assert (
        f"{grown.names[2]} cannot be given bundles: it serves no lookups: its bundle state" in said
    )
