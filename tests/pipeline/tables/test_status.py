"""What is read of a balancer from its history: its last poll and round, and its last hour."""

from dataclasses import replace
from pathlib import Path

import pytest

from counterpoise.decide.balancing.moves import MoveStatus, RoundMemory
from counterpoise.decide.balancing.thrash import MOVED_OFTEN
from counterpoise.pipeline.tables.control import STOP_TAKES_MS, Control, Wish
from counterpoise.pipeline.tables.history import TablesWriter
from counterpoise.pipeline.tables.journal import JournalWriter
from counterpoise.pipeline.tables.reports import land
from counterpoise.pipeline.tables.status import FAILURES_MOST, HOUR_MS, read_status
from tests.load.story import START, poll
from tests.pipeline.histories import writer_of
from tests.pipeline.test_rounds import MADE, TWO, ended

NOW = START + HOUR_MS


@pytest.fixture
def writer(tmp_path: Path) -> TablesWriter:
    return writer_of(tmp_path)


def test_a_history_without_anything_has_no_poll_and_no_round(writer: TablesWriter) -> None:
    found = read_status(writer, NOW)
    assert (found.poll, found.round, found.outcomes, found.gaps) == (None, None, {}, {})
    assert (found.seconds, found.failures, found.in_force) == ((), (), "")


def test_gaps_are_counted_since_an_hour_ago_and_have_the_latest_reason(
    writer: TablesWriter,
) -> None:
    for at_ms, brokers, trouble in (
        (-1, {"a:1": None}, ""), (0, {"a:1": None, "b:1": {}}, ""), (5, {"a:1": {}}, ""),
        (7, {}, "first"), (8, {"b:1": None}, "second"), (9, {"b:1": {}, "a:1": None}, ""),
    ):  # fmt: skip
        rows = poll(at_ms, brokers, every_ms=1, trouble=trouble)  # type: ignore[arg-type]
        rows["note"][rows["kind"] == "gap"] = f"at {at_ms}"
        land(writer, rows)
    found = read_status(writer, NOW)
    assert found.gaps == {"a:1": (2, "at 9"), "b:1": (1, "at 8"), "the cluster": (2, "second")}
    assert found.poll is not None
    assert (found.poll.at, found.poll.brokers, found.poll.trouble) == (START + 9, 1, "")
    assert found.poll.silent == {"a:1": "at 9"}


def test_moves_of_the_last_hour_are_counted_timed_and_explained(writer: TablesWriter) -> None:
    journal, [move, _] = JournalWriter(writer), TWO.moves
    story = [
        (MoveStatus.MOVED, -1, 9, ""), (MoveStatus.MOVED, 0, 40, ""), (MoveStatus.MOVED, 3, 30, ""),
        (MoveStatus.WITHHELD, 4, 0, "rare"), (MoveStatus.WITHHELD, 5, 0, "often"),
        (MoveStatus.WITHHELD, 6, 0, "often"), (MoveStatus.ELSEWHERE, 7, 20, ""),
        *((MoveStatus.FAILED, 10 + n, 1, f"why {n}") for n in range(FAILURES_MOST + 2)),
    ]  # fmt: skip
    for number, (status, at_ms, took_ms, error) in enumerate(story):
        at = START + at_ms
        journal.record_outcome(
            replace(
                ended(move, status, error), id=f"{START}-{number}", bundle=f"t/n/{number}",
                started_at_ms=at - took_ms, ended_at_ms=at, poll_id=START,
            )
        )  # fmt: skip
    found = read_status(writer, NOW)
    assert found.outcomes == {
        "elsewhere": 1, "failed": FAILURES_MOST + 2, "moved": 2, "withheld": 3
    }  # fmt: skip
    assert [*found.withheld.items()] == [("often", 2), ("rare", 1)]
    newest = range(FAILURES_MOST + 1, 1, -1)
    assert [why for _, why in found.failures] == [f"why {n}" for n in newest], "the latest first"
    assert [one.bundle for one in found.astray] == ["t/n/6"]
    assert found.seconds == tuple(sorted(found.seconds))
    assert {0.03, 0.04} <= set(found.seconds)
    assert 0.009 not in found.seconds, "it ended before the hour"


def test_a_round_is_complete_once_its_memory_is_there_and_says_first_what_lasts(
    writer: TablesWriter,
) -> None:
    journal, [other, *_] = JournalWriter(writer), MADE.rejections
    lasting = other._replace(rule=MOVED_OFTEN.name, subject="one that moved often")
    journal.record_round(replace(MADE, rejections=(*MADE.rejections, lasting)))
    for complete in (False, True):
        found = read_status(writer, NOW).round
        assert found is not None
        assert (found.at, found.moves, found.complete) == (MADE.poll_id, len(MADE.moves), complete)
        assert found.rejections == tuple(x.sentence for x in (lasting, *MADE.rejections))
        journal.record_memory(MADE.poll_id, RoundMemory())


@pytest.mark.parametrize(
    ("wish", "began_ms", "stops", "withheld"),
    [
        (Wish.GO, 9, False, ""),
        (Wish.PAUSE, 9, False, "paused"),
        (Wish.PAUSE, 11, False, "paused"),
        (Wish.STOP, 9, True, "ordered to stop"),
        (Wish.STOP, 10, True, "ordered to stop"),
        (Wish.STOP, 11, False, ""),
    ],
)
def test_a_pause_lasts_and_a_stop_is_for_who_ran_then(
    wish: Wish, began_ms: int, stops: bool, withheld: str
) -> None:
    order = Control(wish, 10, "a release")
    assert order.stops(began_ms) is stops
    said = order.withholds(began_ms)
    assert said.startswith(withheld)
    assert bool(said) is bool(withheld)
    assert not said or ": a release (" in said


@pytest.mark.parametrize(
    ("wish", "later_ms", "in_force"),
    [
        (Wish.STOP, STOP_TAKES_MS, True),
        (Wish.STOP, STOP_TAKES_MS + 1, False),
        (Wish.PAUSE, STOP_TAKES_MS + 1, True),
        (Wish.GO, 0, False),
    ],
)
def test_a_stop_is_over_once_another_balancer_must_have_written(
    wish: Wish, later_ms: int, in_force: bool
) -> None:
    assert bool(Control(wish, START, "").in_force(START + later_ms)) is in_force
