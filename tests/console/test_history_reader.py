"""A balancer's rounds, from the history that it writes."""

from pathlib import Path

import pytest

from counterpoise.console.balancer_rounds import BalancerRounds
from counterpoise.console.history_reader import HistoryReader
from counterpoise.decide.balancing.moves import MoveStatus
from counterpoise.picture.observed import LoadCurve
from counterpoise.picture.recorded_load import RecordedLoad
from counterpoise.picture.round_summary import RoundSummary, summarize_round
from counterpoise.picture.treemap import TileKind
from counterpoise.pipeline.tables.control import Wish, read_control
from counterpoise.pipeline.tables.faults import HistoryFaultError
from counterpoise.pipeline.tables.history import TablesWriter
from counterpoise.pipeline.tables.journal import JournalWriter
from counterpoise.pipeline.tables.reports import land
from tests.console.reports import report
from tests.picture.rounds import made, move, outcome, stays
from tests.pipeline.histories import compacted, writer_of


@pytest.fixture
def writer(tmp_path: Path) -> TablesWriter:
    return writer_of(tmp_path)


def read(reader: HistoryReader) -> tuple[RoundSummary, ...]:
    return reader.read(0)[0]


def test_rounds_come_with_what_came_of_them(writer: TablesWriter) -> None:
    tables, reader = JournalWriter(writer), HistoryReader(writer)
    assert read(reader) == ()
    tables.record_round(made(5, (move(),), (stays("b:1"),)))
    [first] = read(reader)
    assert first == summarize_round(made(5, (move(),), (stays("b:1"),)), {})
    tables.record_outcome(outcome(MoveStatus.MOVED))
    [again] = read(reader)
    assert again.moves[0].outcome == "moved after 0.4 s"
    tables.record_round(made(6, (), (stays(),)))
    tables.record_round(made(7, (), (stays(),)))
    assert [(each.at_ms, each.rounds) for each in read(reader)] == [(5, 1), (6, 2)]


def test_an_outcome_that_comes_late_is_shown_until_another_round_is_made(
    writer: TablesWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a round that was cut off no more is expected, and old rounds are forgotten."""
    monkeypatch.setattr("counterpoise.picture.round_summary.ROUNDS_MOST", 2)
    tables, reader = JournalWriter(writer), HistoryReader(writer)
    tables.record_round(made(5, (move(),)))
    assert [each.moves[0].outcome for each in read(reader)] == [""]
    tables.record_outcome(outcome(MoveStatus.MOVED))
    tables.record_round(made(6, (), (stays(),)))
    assert [each.at_ms for each in read(reader)] == [5, 6]
    assert read(reader)[0].moves[0].outcome == "moved after 0.4 s"
    tables.record_round(made(7, (move(7),)))
    assert [each.at_ms for each in read(reader)] == [6, 7]


async def test_the_balancer_takes_orders(writer: TablesWriter) -> None:
    rounds = BalancerRounds(HistoryReader(writer), lambda: 9_000)
    assert rounds.accepts_control
    assert await rounds.say("pause", "by me") == "no further move begins"
    assert read_control(writer.location).wish is Wish.PAUSE
    assert (
        HistoryReader(writer).read(0)[1].startswith("paused since 1970-01-01 00:00:09 UTC: by me")
    )
    await rounds.say("go", "")
    assert read_control(writer.location).wish is Wish.GO


async def test_an_order_is_refused_where_there_is_no_balancer() -> None:
    rounds = BalancerRounds(None, lambda: 0)
    assert not rounds.accepts_control
    assert (
        await rounds.say("stop", "")
        == "no balancer takes this order: the console was started without --history"
    )


def test_loads_come_from_what_was_recorded_compacted_or_not(writer: TablesWriter) -> None:
    for poll, broker, load in ((10, "a:1", 100.0), (20, "a:1", 200.0), (30, "b:1", 300.0)):
        land(writer, report(poll, broker, {"n/s/0x0_0x1": load, "n/s/0x1_0x2": 1.0}))
    compacted(writer, 20)
    reader = HistoryReader(writer)
    bundle = reader.recorded(TileKind.BUNDLE, "n/s/0x0_0x1", 0)
    assert bundle.curve == LoadCurve((10, 20, 30), (100.0, 200.0, 300.0), (3.0, 3.0, 3.0))
    assert [each.sentence for each in bundle.changes] == ["moved from a:1 to b:1"]
    assert reader.recorded(TileKind.BUNDLE, "n/s/0x0_0x1", 25).curve.times_ms == (30,)
    broker = reader.recorded(TileKind.BROKER, "a:1", 0).curve
    assert (broker.times_ms, broker.bytes_per_s) == ((10, 20), (101.0, 201.0))
    assert reader.recorded(TileKind.BUNDLE, "n/s/unknown", 0) == RecordedLoad()


def test_a_damaged_history_is_reported_and_raises_nothing_else(
    writer: TablesWriter, tmp_path: Path
) -> None:
    JournalWriter(writer).record_round(made(5))
    land(writer, report(5, "a:1", {}))
    for table in ("journal", "reports"):
        [file] = (tmp_path / table).rglob("*.parquet")
        file.write_bytes(b"nonsense")
    with pytest.raises(HistoryFaultError, match=r"\.parquet"):
        HistoryReader(writer).recorded(TileKind.BROKER, "a:1", 0)
    with pytest.raises(HistoryFaultError, match=r"\.parquet"):
        read(HistoryReader(writer))
