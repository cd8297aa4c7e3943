"""Status is what the history says; a pause holds the next move back, wherever it was said."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from counterpoise.app.main import main
from counterpoise.decide.balancing.approval import ApprovalRules
from counterpoise.decide.balancing.moves import MoveOutcome, MoveStatus
from counterpoise.decide.balancing.snapshot import newest_poll
from counterpoise.pipeline.balancer import Balancer
from counterpoise.pipeline.executor import Executor, ExecutorOptions
from counterpoise.pipeline.tables.control import Control, Wish, read_control, write_control
from counterpoise.pipeline.tables.history import TablesWriter
from counterpoise.pipeline.tables.journal import JournalWriter
from counterpoise.pipeline.tables.plain_files import write_plain
from counterpoise.pipeline.tables.reports import land
from counterpoise.pipeline.tables.status import read_status
from tests.decide.balancing.test_round import strategy
from tests.load.story import START, poll
from tests.pipeline.fake_cluster import FakeCluster
from tests.pipeline.histories import compacted, writer_of
from tests.pipeline.rounds import loads, made_of, seen

ONE_BY_ONE = ExecutorOptions(execute=True, verify_within_s=60.0, at_once=1)


@pytest.fixture
def writer(tmp_path: Path) -> TablesWriter:
    return writer_of(tmp_path)


def balancer(
    http: aiohttp.ClientSession,
    writer: TablesWriter,
    log: Callable[[str], None] = lambda sentence: None,
    rules: ApprovalRules | None = None,
    began_ms: int = START,
    now_ms: int = START + 1000,
) -> Balancer:
    async def held() -> str:
        return (await asyncio.to_thread(read_control, writer.location)).withholds(began_ms)

    executor = Executor(http, lambda: now_ms, ONE_BY_ONE, held)
    return Balancer(strategy(), JournalWriter(writer), executor, log, rules=rules)


async def test_load_that_was_moved_before_a_restart_counts(
    uneven: FakeCluster, http: aiohttp.ClientSession, writer: TablesWriter
) -> None:
    made = await made_of(balancer(http, writer, rules=ApprovalRules(moves_a_round=1)), seen(uneven))
    [moved] = JournalWriter(writer).moved_since(START)
    assert moved.part == made.moves[0].part == pytest.approx(0.1, abs=0.01)
    rules = ApprovalRules(part_an_hour=0.15)
    executor = Executor(http, lambda: START + 1000, ONE_BY_ONE)
    logged: list[str] = []
    after = Balancer(
        strategy(), JournalWriter(writer), executor, logged.append,
        rules=rules, moved_before=[moved],
    )  # fmt: skip
    uneven.report_time += 1
    await after.step(seen(uneven, 100))
    assert len(uneven.unloads) == 1
    assert any("of the 15.0% an hour that may move 5." in each for each in logged), logged


async def test_a_pause_in_the_middle_of_a_round_holds_the_next_move_back(
    uneven: FakeCluster, http: aiohttp.ClientSession, writer: TablesWriter
) -> None:
    def log(sentence: str) -> None:
        if sentence.startswith("moved "):
            write_control(writer.location, Control(Wish.PAUSE, START, "release"))

    made = await made_of(balancer(http, writer, log), seen(uneven))
    assert len(made.moves) > 1
    assert len(uneven.unloads) == 1, "the move that had begun was seen through"
    found = read_status(writer, START + 2000)
    assert found.outcomes == {"moved": 1, "withheld": len(made.moves) - 1}
    [rule] = found.withheld
    assert rule.startswith("paused since ")
    assert "release" in rule
    # What was withheld is no grace period: after a resume it is decided and moved again.
    write_control(writer.location, Control(Wish.GO, START + 1))
    later = seen(uneven, 100)
    await balancer(http, writer, now_ms=newest_poll(later) + 1000).step(later)
    assert len(uneven.unloads) > 1


@pytest.mark.parametrize(
    ("wish", "said_at", "moves"),
    [(Wish.STOP, START + 1, False), (Wish.STOP, START - 1, True), (Wish.PAUSE, START - 1, False)],
)
async def test_a_stop_is_for_the_balancer_that_runs_and_a_pause_for_the_next_one_too(
    uneven: FakeCluster,
    http: aiohttp.ClientSession,
    writer: TablesWriter,
    wish: Wish,
    said_at: int,
    moves: bool,
) -> None:
    write_control(writer.location, Control(wish, said_at))
    assert read_control(writer.location).stops(START) is (wish is Wish.STOP and not moves)
    await balancer(http, writer).step(seen(uneven))
    assert bool(uneven.unloads) is moves


@pytest.mark.parametrize("damage", [b"", b"{", b'{"wish": "dance", "since_ms": 1, "why": ""}'])
def test_a_word_that_cannot_be_read_is_a_pause(writer: TablesWriter, damage: bytes) -> None:
    write_plain(writer.location, "control", damage)
    assert "is unreadable; say resume" in read_control(writer.location).withholds(START)


async def test_status_prints_the_last_poll_the_last_round_and_the_hour(
    uneven: FakeCluster,
    http: aiohttp.ClientSession,
    writer: TablesWriter,
    capsys: pytest.CaptureFixture[str],
) -> None:
    silent = {**loads(uneven), uneven.names[2]: None}
    for number, reported in enumerate((silent, silent, loads(uneven))):
        land(writer, poll(number, reported))
    rules = ApprovalRules(moves_a_round=1)
    made = await made_of(balancer(http, writer, rules=rules), seen(uneven, 2))
    now = made.poll_id + 60_000
    found = read_status(writer, now)
    assert found.poll is not None
    assert (found.poll.at, found.poll.brokers, found.poll.silent) == (made.poll_id, 3, {})
    assert found.gaps.keys() == {uneven.names[2]}
    assert found.gaps[uneven.names[2]][0] == 2
    assert found.round is not None
    assert (found.round.moves, found.round.complete) == (len(made.moves), True)
    assert found.outcomes == {MoveStatus.MOVED: 1, MoveStatus.WITHHELD: len(made.moves) - 1}
    withheld = {"1 moves a round are allowed (--max-moves-a-round)": len(made.moves) - 1}
    assert found.withheld == withheld
    compacted(writer, made.poll_id)
    assert read_status(writer, now) == found, "compacted or not"
    later = read_status(writer, now + 3_600_000)
    assert (later.outcomes, later.gaps) == ({}, {})
    assert later.round == found.round
    where = ["--history", writer.location.uri]
    assert main(["status", *where]) == 0
    said = capsys.readouterr().out
    assert f"{len(made.moves)} moves by" in said
    assert "3 brokers reported their load" in said
    assert main(["status", *where, "--json"]) == 0
    logged = json.loads(capsys.readouterr().out)
    assert logged["lastRound"]["moves"] == len(made.moves)
    assert logged["control"]["wish"] == "go"


def test_status_is_about_what_ended_in_the_last_hour_and_the_latest_comes_first(
    writer: TablesWriter,
) -> None:
    now, hour = START + 3_600_000, 3_600_000

    def ended(at_ms: int, decided_ms: int, status: MoveStatus, error: str = "") -> None:
        JournalWriter(writer).record_outcome(
            MoveOutcome(
                f"{decided_ms}-{at_ms}",
                decided_ms,
                "t/n/1",
                "a:1",
                "b:1",
                status,
                "",
                at_ms - 700,
                at_ms,
                error,
            )
        )

    ended(now - hour - 1, now - hour - 9000, MoveStatus.FAILED, "too long ago")
    ended(now - hour, now - hour - 9000, MoveStatus.MOVED)
    ended(now - 5000, now - 9000, MoveStatus.FAILED, "first")
    ended(now - 4000, now - 9000, MoveStatus.FAILED, "last")
    for number, trouble in enumerate(("no route", "no answer")):
        land(writer, poll(number, {}, trouble=trouble))
    found = read_status(writer, now)
    assert found.outcomes == {MoveStatus.MOVED: 1, MoveStatus.FAILED: 2}
    assert found.seconds == (0.7,) * 3
    ended(now - 3000, now - 9000, MoveStatus.WITHHELD, "a rule")
    assert read_status(writer, now).seconds == (0.7,) * 3, "nothing of it was carried out"
    assert found.failures == (("t/n/1", "last"), ("t/n/1", "first"))
    ended(now - 2000, now - 9000, MoveStatus.ELSEWHERE)
    ended(now - 1000, now - 9000, MoveStatus.UNOWNED)
    strays = read_status(writer, now).astray
    assert [one.status for one in strays] == [MoveStatus.UNOWNED, MoveStatus.ELSEWHERE]
    assert found.gaps == {"the cluster": (2, "no answer")}


def test_the_verbs_write_what_the_balancer_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--history", str(tmp_path)]
    for words in (["control", "pause", *where], ["status", *where]):
        assert main(words) == 2
        assert "is no history" in capsys.readouterr().err
    writer = writer_of(tmp_path)
    land(writer, poll(0, {"a:1": {}}))
    assert main(["control", "pause", *where, "--why", "a release"]) == 0
    paused = read_control(writer.location)
    assert replace(paused, since_ms=0) == Control(Wish.PAUSE, why="a release")
    assert main(["status", *where]) == 0
    assert "paused since" in capsys.readouterr().out
    assert main(["control", "resume", *where]) == 0
    assert read_control(writer.location).withholds(0) == ""
    assert main(["control", "stop", *where]) == 0
    assert read_control(writer.location).stops(0)


@pytest.mark.parametrize(
    ("began_ms", "holds"), [(START - 1, True), (START, True), (START + 1, False)]
)
def test_a_stop_is_for_the_balancer_that_ran_when_it_was_said(began_ms: int, holds: bool) -> None:
    """One that began in the same millisecond cannot be known to be another: it ends, too."""
    stop = Control(Wish.STOP, START)
    assert stop.stops(began_ms) is holds
    assert bool(stop.withholds(began_ms)) is holds
    assert not Control(Wish.PAUSE, START).stops(began_ms)
    assert Control(Wish.PAUSE, START).withholds(began_ms)


@pytest.mark.parametrize(("later_ms", "over"), [(0, False), (120_000, False), (120_001, True)])
def test_a_stop_is_over_once_the_history_is_written_two_minutes_later(
    later_ms: int, over: bool
) -> None:
    assert (Control(Wish.STOP, START).in_force(START + later_ms) == "") is over
    assert Control(Wish.PAUSE, START).in_force(START + later_ms)
    assert Control().in_force(START + later_ms) == ""
