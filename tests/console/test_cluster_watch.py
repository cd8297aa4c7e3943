"""What a move made of the picture, before any broker reports it."""

import json
from typing import Any

import aiohttp
import pytest

from counterpoise.app.verbs.console import drain_rules_of, strategy_of
from counterpoise.console import cluster_watch
from counterpoise.console.cluster_watch import ClusterWatch, seen
from counterpoise.console.options import ConsoleOptions, WatchOptions
from counterpoise.decide.balancing.moves import MoveOutcome, MoveStatus
from counterpoise.load.fold import FoldState
from counterpoise.load.rows import ReportRows
from counterpoise.picture.cluster_picture import CompletedMove
from counterpoise.picture.observed import ObservedHistory
from counterpoise.picture.tables import bundle_page
from tests.picture.pictures import picture_of
from tests.pipeline.fake_cluster import FakeCluster

BUNDLE = "public/default/0x00000000_0x40000000"
NEWS = {BUNDLE: CompletedMove("a:1", "b:1", 100)}


def owner_shown(reporter: str) -> str:
    """Who has the bundle in the picture, when this broker reports it."""
    brokers = ("a:1", "b:1", "c:1")
    picture = picture_of({b: {BUNDLE: 5.0} if b == reporter else {} for b in brokers}, moved=NEWS)
    [row] = bundle_page(picture).rows
    return row.owner


def test_a_move_that_ended_is_shown_though_its_source_still_reports_the_bundle() -> None:
    assert owner_shown("a:1") == "b:1"
    assert owner_shown("b:1") == "b:1"


def test_a_third_broker_that_reports_the_bundle_had_it_later() -> None:
    assert owner_shown("c:1") == "c:1"


def test_it_is_news_until_both_have_reported() -> None:
    moved = NEWS[BUNDLE]
    assert moved.is_news({})
    assert moved.is_news({"a:1": 101, "b:1": 100})
    assert not moved.is_news({"a:1": 101, "b:1": 101})


def rows(poll: int, reported_ms: int) -> ReportRows:
    def about(broker: str, **more: Any) -> dict[str, Any]:
        row = {"poll_id": poll, "broker": broker, "report_at_ms": reported_ms, "fresh": True}
        return {**row, "fetched_at_ms": poll, "load_manager": "Modular", **more}

    report = [
        about("a:1", kind="broker"),
        about("a:1", kind="bundle", bundle=BUNDLE, msg_throughput_in=5.0, topics=1),
        about("b:1", kind="broker"),
    ]
    return ReportRows.of([{"poll_id": poll, "kind": "poll"}, *report])


def ended(status: MoveStatus) -> MoveOutcome:
    return MoveOutcome("5-0", 5, BUNDLE, "a:1", "b:1", status, "b:1", 55, 60, "")


async def test_a_page_remembers_what_was_carried_out_until_it_is_reported() -> None:
    async with aiohttp.ClientSession() as session:
        options = ConsoleOptions(WatchOptions(["http://127.0.0.1:1"]), strategy_of, drain_rules_of)
        watch = ClusterWatch(session, options, lambda: 0)
        state, past, watch.picture = seen(FoldState.empty(), ObservedHistory(), rows(50, 40))
        watch.move_completed(ended(MoveStatus.FAILED))
        assert watch.moved == {}
        watch.move_completed(ended(MoveStatus.MOVED))
        assert watch.moved == {BUNDLE: CompletedMove("a:1", "b:1", 60)}
    state, past, picture = seen(state, past, rows(70, 40), watch.moved)
    assert bundle_page(picture).rows[0].owner == "b:1"
    assert [each.sentence for each in past.changes] == ["moved from a:1 to b:1"]
    *_, picture = seen(state, past, rows(90, 80), watch.moved)
    assert (picture.moved, bundle_page(picture).rows[0].owner) == ({}, "a:1")


async def test_rounds_are_asked_for_again_of_a_broker_that_was_busy_and_of_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_watch, "ROUNDS_EVERY_S", 0.0)
    path = "/admin/v2/broker-stats/shedding"
    published = {"at": 5, "strategy": "s", "imbalance": 1.0, "moves": [], "rejections": []}
    async with FakeCluster() as cluster, aiohttp.ClientSession() as session:
        busy, *apaches = [await cluster.add_broker() for _ in range(3)]
        options = WatchOptions([cluster.admin_url])
        console = ConsoleOptions(options, strategy_of, drain_rules_of)
        watch = ClusterWatch(session, console, lambda: 1_600_000_000_000)
        for status in (503, 200):
            busy.answers[path] = (status, json.dumps([published]).encode())
            await watch.poll()
    assert [made.at_ms for made in watch.shed] == [5]
    assert [each.asked.count(path) for each in (busy, *apaches)] == [2, 1, 1]


async def test_what_was_seen_stays_while_no_broker_answers() -> None:
    producer = {"name": "p", "address": "x:1", "topic": "t", "held_entries": 1, "seconds": 1.0}
    level = {"level": "BrokerPublishRate", "subject": "b", "messages": 5, "bytes": 0}
    limits = json.dumps([{**level, "producers": [producer]}]).encode()
    async with FakeCluster() as cluster, aiohttp.ClientSession() as session:
        broker = await cluster.add_broker()
        broker.answers["/admin/v2/broker-stats/throttling"] = (200, limits)
        options = WatchOptions([cluster.admin_url])
        console = ConsoleOptions(options, strategy_of, drain_rules_of, advise_every_s=0.0)
        watch = ClusterWatch(session, console, lambda: 1_600_000_000_000)
        await watch.poll()
        before = watch.throttled, watch.advice
        assert all(before)
        broker.answers["/admin/v2/broker-stats/load-report"] = (500, b"busy")
        await watch.poll()
        assert watch.picture.trouble
        assert (watch.throttled, watch.advice) == before
