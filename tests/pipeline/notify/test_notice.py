"""What an operator is notified of, by a watcher, its watchdog, and rounds."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from counterpoise.decide.balancing.approval import ApprovalRules
from counterpoise.decide.balancing.moves import MoveStatus
from counterpoise.pipeline.notify.notice import BalancerNotices, Notice, NoticeKind, NoticeSeverity
from counterpoise.pipeline.notify.webhook import NotifyOptions
from counterpoise.pipeline.watch.history_keeper import ClusterWatcher, WatchSettings
from tests.pipeline.fake_cluster import FakeCluster
from tests.pipeline.test_rounds import FAILED, MADE, MOVED, TWO, Script, Story, ended
from tests.pipeline.watchdog.test_alerts import Script as WatchdogScript
from tests.pipeline.watchdog.test_alerts import unowned


def noticed() -> tuple[BalancerNotices, list[Notice]]:
    kept: list[Notice] = []
    return BalancerNotices(kept.append, lambda: 5), kept


async def test_a_finding_is_notified_of_once_and_when_it_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    notices, kept = noticed()
    script = WatchdogScript(monkeypatch, notices=notices)
    finding = unowned("t/n/0x0_0x1")
    for found in ((finding,), (finding,), ()):
        await script.look(*found)
    assert [(each.severity, each.is_over) for each in kept] == [
        (NoticeSeverity.CRITICAL, False),
        (NoticeSeverity.INFO, True),
    ]
    assert kept[0].subject == kept[1].subject == "no-owner:t/n/0x0_0x1"
    assert kept[0].sentence == finding.sentence


async def test_of_moves_the_last_failure_is_notified_of_and_no_success() -> None:
    notices, kept = noticed()
    story = Story(Script(m0=[FAILED, MOVED], m1=[FAILED, FAILED]), attempts=2, notices=notices)
    await story.see_through()
    assert [(each.kind, each.severity, each.subject) for each in kept] == [
        (NoticeKind.REFUSAL, NoticeSeverity.WARNING, TWO.moves[1].bundle)
    ]


async def test_a_rule_that_withholds_the_same_again_is_notified_of_once() -> None:
    notices, kept = noticed()
    rules = ApprovalRules(leave_alone=frozenset(move.bundle for move in TWO.moves))
    story = Story(Script(), rules=rules, notices=notices)
    for poll in range(3):
        await story.see_through(replace(TWO, poll_id=TWO.poll_id + poll))
    assert [each.kind for each in kept] == [NoticeKind.REFUSAL] * len(TWO.moves)
    assert all("is withheld" in each.sentence for each in kept)


def test_a_round_that_moves_nothing_is_none_to_notify_of() -> None:
    notices, kept = noticed()
    notices.decided(replace(TWO, moves=()))
    notices.decided(TWO)
    (one,) = kept
    assert one.kind is NoticeKind.ROUND
    first = TWO.moves[0]
    assert f"moves 2 bundles, imbalance {TWO.imbalance:.2f}: {first.bundle} from" in one.sentence
    assert one.sentence.endswith(", and 1 more")


@pytest.mark.parametrize(("moves", "more"), [(1, ""), (2, ", and 1 more"), (3, ", and 2 more")])
def test_the_notice_of_a_round_counts_its_moves(moves: int, more: str) -> None:
    notices, kept = noticed()
    notices.decided(replace(MADE, moves=MADE.moves[:moves]))
    [one] = kept
    first = MADE.moves[0]
    assert f" moves {moves} bundles, " in one.sentence
    assert one.sentence.endswith(f"{first.decision.sentence}{more}")


@pytest.mark.parametrize("destination", ["b2:80", ""])
def test_a_failure_is_more_urgent_than_what_a_rule_withholds(destination: str) -> None:
    notices, kept = noticed()
    move = TWO.moves[0]
    for status in MoveStatus:
        notices.ended(replace(ended(move, status, "because"), destination=destination))
    assert len(kept) == 2, "and of nothing else"
    way = f"from {move.source} to {destination or 'any broker'}"
    assert {(each.severity, each.sentence) for each in kept} == {
        (NoticeSeverity.WARNING, f"the move of {move.bundle} {way} failed: because"),
        (NoticeSeverity.INFO, f"the move of {move.bundle} {way} is withheld: because"),
    }


def test_what_holds_moves_is_notified_of_at_its_begin_and_its_end() -> None:
    notices, kept = noticed()
    for what, reason in (("a", "x"), ("a", "y"), ("b", "z"), ("a", ""), ("a", ""), ("a", "again")):
        notices.withheld(what, reason)
    assert [(each.subject, each.is_over) for each in kept] == [
        ("a", False), ("b", False), ("a", True), ("a", False),
    ]  # fmt: skip
    assert [each.severity for each in kept] == [
        NoticeSeverity.INFO if each.is_over else NoticeSeverity.WARNING for each in kept
    ]
    assert [each.sentence for each in kept[:2]] == ["nothing is moved: x", "nothing is moved: z"]


@pytest.mark.parametrize("by_itself", [False, True])
def test_an_end_is_urgent_where_no_person_asked_for_it(by_itself: bool) -> None:
    notices, kept = noticed()
    notices.stopped("a reason", by_itself=by_itself)
    urgent = NoticeSeverity.CRITICAL if by_itself else NoticeSeverity.INFO
    assert [(each.severity, each.sentence) for each in kept] == [
        (urgent, "the balancer has ended: a reason")
    ]


async def test_a_webhook_that_is_not_there_stops_no_watcher(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    await cluster.add_broker()
    stop = asyncio.Event()
    polls = []

    async def count(_: object) -> None:
        polls.append(1)
        if len(polls) == 3:
            stop.set()

    nowhere = NotifyOptions("http://127.0.0.1:9/", pause_s=0.0, last_s=0.5)
    settings = WatchSettings((cluster.admin_url,), str(tmp_path), 0.01, notify=nowhere)
    said: list[str] = []
    watcher = ClusterWatcher(settings, said.append, count)
    await watcher.run(stop)
    assert len(polls) == 3
    assert any("could not be notified" in each for each in said)
    assert 'notices_total{fate="failed"} 1.0' in watcher.metrics.text().decode()
