"""A balancer's rounds, from the history that it writes."""

from pathlib import Path
from typing import Any

import pytest

from counterpoise.console.kept import HistoryReader
from counterpoise.console.rounds import Rounds
from counterpoise.decide.balancing.moves import Status
from counterpoise.load.rows import ReportRows
from counterpoise.picture.decided import Decided, decided
from counterpoise.picture.past import Trace
from counterpoise.picture.recorded import Recorded
from counterpoise.picture.treemap import What
from counterpoise.pipeline.history.compaction import compact
from counterpoise.pipeline.history.control import Wish, read_control
from counterpoise.pipeline.history.reports import land
from counterpoise.pipeline.history.store import Store, open_store
from counterpoise.pipeline.history.tables import HistoryTables
from tests.picture.test_decided import made, move, outcome, stays


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path)


def read(reader: HistoryReader) -> tuple[Decided, ...]:
    return reader.read(0)[0]


def test_rounds_come_with_what_came_of_them(store: Store) -> None:
    tables, reader = HistoryTables(store), HistoryReader(store)
    assert read(reader) == ()
    tables.record_round(made(5, (move(),), (stays("b:1"),)))
    [first] = read(reader)
    assert first == decided(made(5, (move(),), (stays("b:1"),)), {})
    tables.record_outcome(outcome(Status.MOVED))
    [again] = read(reader)
    assert again.moves[0].came_of_it == "moved after 0.4 s"
    tables.record_round(made(6, (), (stays(),)))
    tables.record_round(made(7, (), (stays(),)))
    assert [(each.at_ms, each.rounds) for each in read(reader)] == [(5, 1), (6, 2)]


async def test_the_balancer_can_be_told(store: Store) -> None:
    rounds = Rounds(HistoryReader(store), lambda: 9_000)
    assert rounds.can_be_told
    assert await rounds.say("pause", "by me") == "no further move begins"
    assert read_control(store).wish is Wish.PAUSE
    assert HistoryReader(store).read(0)[1].startswith("paused since 1970-01-01 00:00:09 UTC: by me")
    await rounds.say("go", "")
    assert read_control(store).wish is Wish.GO


async def test_nobody_is_told_where_there_is_no_balancer() -> None:
    rounds = Rounds(None, lambda: 0)
    assert not rounds.can_be_told
    assert await rounds.say("stop", "") == "there is no balancer to be told"


def report(poll: int, broker: str, bundles: dict[str, float]) -> ReportRows:
    about: dict[str, Any] = {"poll_id": poll, "broker": broker}
    total = sum(bundles.values())
    rows = [about | {"kind": "broker", "msg_throughput_in": total, "fresh": True}]
    rows += [
        about | {"kind": "bundle", "bundle": name, "msg_throughput_in": load, "msg_rate_out": 3.0}
        for name, load in bundles.items()
    ]
    return ReportRows.of([{"poll_id": poll, "kind": "poll"}, *rows])


def test_loads_come_from_what_was_recorded_compacted_or_not(store: Store) -> None:
    for poll, broker, load in ((10, "a:1", 100.0), (20, "a:1", 200.0), (30, "b:1", 300.0)):
        land(store, report(poll, broker, {"n/s/0x0_0x1": load, "n/s/0x1_0x2": 1.0}))
    compact(store, "reports", up_to_poll=20, at_least=2)
    reader = HistoryReader(store)
    bundle = reader.recorded(What.BUNDLE, "n/s/0x0_0x1", 0)
    assert bundle.trace == Trace((10, 20, 30), (100.0, 200.0, 300.0), (3.0, 3.0, 3.0))
    assert [each.sentence for each in bundle.changes] == ["moved from a:1 to b:1"]
    assert reader.recorded(What.BUNDLE, "n/s/0x0_0x1", 25).trace.times_ms == (30,)
    broker = reader.recorded(What.BROKER, "a:1", 0).trace
    assert (broker.times_ms, broker.bytes_per_s) == ((10, 20), (101.0, 201.0))
    assert reader.recorded(What.BUNDLE, "n/s/nobody", 0) == Recorded()


def test_a_damaged_history_is_told_and_raises_nothing_else(store: Store, tmp_path: Path) -> None:
    HistoryTables(store).record_round(made(5))
    land(store, report(5, "a:1", {}))
    for table in ("rounds", "reports"):
        [file] = (tmp_path / table).rglob("*.parquet")
        file.write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"\.parquet"):
        HistoryReader(store).recorded(What.BROKER, "a:1", 0)
    with pytest.raises(ValueError, match=r"\.parquet"):
        read(HistoryReader(store))
