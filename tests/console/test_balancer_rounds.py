"""Orders to a balancer that runs elsewhere, and its rounds, by way of its history."""

import asyncio
from dataclasses import dataclass, field

import pytest

from counterpoise.console import balancer_rounds
from counterpoise.console.balancer_rounds import BalancerRounds
from counterpoise.picture.recorded_load import RecordedLoad
from counterpoise.picture.round_summary import RoundSummary
from counterpoise.picture.treemap import TileKind
from counterpoise.pipeline.tables.faults import HistoryFaultError
from tests.waiting import until


@dataclass
class Reader:
    """A history that may be out of reach."""

    trouble: HistoryFaultError | None = None
    wishes: list[tuple[str, int, str]] = field(default_factory=list)
    asked: list[tuple[TileKind, str, int]] = field(default_factory=list)

    def read(self, after_ms: int) -> tuple[tuple[RoundSummary, ...], str]:
        if self.trouble:
            raise self.trouble
        return (), f"read after {after_ms}"

    def recorded(self, what: TileKind, key: str, after_ms: int) -> RecordedLoad:
        self.asked.append((what, key, after_ms))
        return RecordedLoad()

    def say(self, wish: str, now_ms: int, why: str) -> None:
        if self.trouble:
            raise self.trouble
        self.wishes.append((wish, now_ms, why))


async def test_an_order_says_what_becomes_of_it() -> None:
    reader = Reader()
    rounds = BalancerRounds(reader, lambda: 7)
    said = {wish: await rounds.say(wish, "a release") for wish in ("go", "pause", "stop")}
    assert reader.wishes == [(wish, 7, "a release") for wish in said]
    assert said["go"] == "moves go on"
    assert said["pause"] == "no further move begins"
    assert said["stop"].startswith("the balancer ends")
    reader.trouble = HistoryFaultError("no disk")
    assert await rounds.say("go", "") == "the order was not written to the history: no disk"
    assert "without --history" in await BalancerRounds(None, lambda: 7).say("go", "")


async def test_what_is_recorded_is_asked_for_since_a_moment_in_the_past() -> None:
    reader = Reader()
    rounds, alone = (BalancerRounds(each, lambda: 100) for each in (reader, None))
    await rounds.recorded(TileKind.BROKER, "a:1", 30)
    assert reader.asked == [(TileKind.BROKER, "a:1", 70)]
    assert await alone.recorded(TileKind.BROKER, "a:1", 30) == RecordedLoad()
    assert (rounds.accepts_control, alone.accepts_control) == (True, False)
    assert (rounds.state, "--history" in alone.state) == ("", True)


async def test_a_history_that_cannot_be_read_says_so_until_it_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(balancer_rounds, "READ_EVERY_S", 0.0)
    hours = 6 * 3_600_000
    reader = Reader()
    rounds = BalancerRounds(reader, lambda: hours + 5)
    running = asyncio.create_task(rounds.run())
    await until(lambda: rounds.state == "read after 5")
    reader.trouble = HistoryFaultError("no disk")
    await until(lambda: rounds.state == "the balancer's rounds cannot be read: no disk")
    reader.trouble = None
    await until(lambda: rounds.state == "read after 5")
    running.cancel()
