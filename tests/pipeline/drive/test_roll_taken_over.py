"""Another process goes on with a rolling restart: when it may, and what the first one does."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.drive.roll import RollStoppedError
from counterpoise.pipeline.drive.roll_state import SILENT_AFTER_MS
from tests.pipeline.drive.roller import Roller, roller_of
from tests.waiting import pause, until


@pytest.fixture
async def roller(tmp_path: Path) -> AsyncIterator[Roller]:
    async with roller_of(tmp_path) as made:
        yield made


@pytest.mark.parametrize("change", [{"seen_ms": 1}, {"ended_ms": 1, "abandoned": True}])
async def test_what_another_process_carries_out_or_is_given_up_is_not_taken_over(
    roller: Roller, change: dict[str, int]
) -> None:
    first, second = roller.roll(), roller.roll()
    state = await first.begin(await first.plan(), "me", "")
    taking = asyncio.create_task(second.take_over(state))
    await until(lambda: any("a moment ago" in each for each in roller.logged))
    roller.trail.keep_roll(changed := replace(state, **change))
    with pytest.raises(RollStoppedError, match="was given up, or another process carries it out"):
        await taking
    assert roller.trail.roll() == changed


async def test_it_is_taken_over_once_its_process_has_been_silent_for_half_a_minute(
    roller: Roller,
) -> None:
    now_ms = wall_clock_ms()
    roller.clock_ms = lambda: now_ms
    first, second = roller.roll(), roller.roll()
    state = await first.begin(await first.plan(), "me", "")
    now_ms += SILENT_AFTER_MS - 1
    taking = asyncio.create_task(second.take_over(state))
    await until(lambda: any("a moment ago" in each for each in roller.logged))
    for _ in range(5):
        await pause()
    assert roller.trail.roll() == state
    now_ms += 1
    assert (await taking).seen_ms == now_ms


async def test_a_process_whose_rolling_restart_was_taken_over_stops(roller: Roller) -> None:
    first, second = roller.roll(), roller.roll()
    state = await first.begin(await first.plan(), "me", "")
    await second.take_over(roller.silent_since_long())
    with pytest.raises(RollStoppedError, match="was given up, or taken over by another"):
        await first.run(state)
    assert roller.machines.restarted == []
