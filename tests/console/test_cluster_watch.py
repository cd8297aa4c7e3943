"""What a move made of the picture, before any broker reports it."""

from typing import Any

import aiohttp

from counterpoise.app.verbs.console import drain_rules_of, strategy_of
from counterpoise.console.cluster_watch import ClusterWatch, seen
from counterpoise.console.options import ConsoleOptions, WatchOptions
from counterpoise.decide.balancing.moves import MoveOutcome, MoveStatus
from counterpoise.load.fold import FoldState
from counterpoise.load.rows import ReportRows
from counterpoise.picture.cluster_picture import CompletedMove
from counterpoise.picture.observed import ObservedHistory
from counterpoise.picture.tables import bundle_page
from tests.picture.pictures import picture_of

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
