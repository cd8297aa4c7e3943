"""A balancer's rounds, from the history that it writes."""

from pathlib import Path

import pytest

from counterpoise.console.kept import HistoryReader
from counterpoise.console.rounds import Rounds
from counterpoise.decide.balancing.moves import Status
from counterpoise.picture.decided import Decided, decided
from counterpoise.pipeline.history.control import Wish, read_control
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


def test_a_damaged_history_is_told_and_raises_nothing_else(store: Store, tmp_path: Path) -> None:
    HistoryTables(store).record_round(made(5))
    [file] = (tmp_path / "rounds").rglob("*.parquet")
    file.write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"\.parquet"):
        read(HistoryReader(store))
