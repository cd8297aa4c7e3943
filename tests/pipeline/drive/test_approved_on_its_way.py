"""An approved plan while it is carried out: how much at once, what changes, and who may go on."""

import asyncio
import itertools
from dataclasses import replace
from itertools import accumulate, count
from pathlib import Path

import aiohttp
import pytest

from counterpoise.decide.balancing.options import BalanceOptions
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.drive.approved import ApprovedPlan
from counterpoise.pipeline.publish_latencies import LatencyWatchOptions
from counterpoise.pipeline.tables.control import Control, Wish, write_control
from counterpoise.pipeline.tables.faults import SupersededError
from counterpoise.pipeline.tables.history import take_over
from counterpoise.pipeline.tables.reports import land
from counterpoise.pipeline.tables.schema import JournalKind
from tests.load.story import START, poll
from tests.pipeline.drive.drains import SlowsDown
from tests.pipeline.drive.test_approved import (
    DO_IT,
    LogLines,
    another_broker_has_it,
    carried_out,
    planned,
)
from tests.pipeline.fake_cluster import FakeCluster
from tests.pipeline.histories import kept, writer_of
from tests.waiting import until


async def test_what_this_run_moved_is_not_counted_as_done_before(
    uneven: FakeCluster, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    plan = await planned(uneven, http)
    rounds = [replace(step, round=1 + (number > 0)) for number, step in enumerate(plan.steps)]
    plan = replace(plan, steps=tuple(rounds)).sealed()
    changed, *others = plan.steps[1:]
    moved = LogLines(
        "moved", lambda: another_broker_has_it(uneven, replace(plan, steps=(changed,)))
    )
    came = await carried_out(uneven, http, writer_of(tmp_path), plan, logged=moved)
    assert "the cluster changed for 1 of its" in came.refused
    assert (len(came.outcomes), came.done_before) == (1, 0)
    assert "now, not on" in came.left.pop(changed.bundle)
    assert came.left == {step.bundle: came.refused for step in others}


@pytest.mark.parametrize("partial", [True, False])
async def test_what_was_done_before_is_not_left_and_what_changed_on_the_way_is(
    uneven: FakeCluster, http: aiohttp.ClientSession, tmp_path: Path, partial: bool
) -> None:
    plan = await planned(uneven, http)
    rounds = [replace(step, round=1 + (number > 1)) for number, step in enumerate(plan.steps)]
    plan = replace(plan, steps=tuple(rounds)).sealed()
    done, _, changed, *others = plan.steps
    uneven.owners[done.bundle] = done.destination
    moved = LogLines(
        "moved", lambda: another_broker_has_it(uneven, replace(plan, steps=(changed,)))
    )
    options = replace(DO_IT, partial=partial)
    came = await carried_out(uneven, http, writer_of(tmp_path), plan, options, logged=moved)
    assert came.done_before == 1
    assert {*came.left} == {changed.bundle, *(() if partial else (s.bundle for s in others))}
    assert "now, not on" in came.left[changed.bundle]
    assert "is refused" not in came.left[changed.bundle], "it has a reason of its own"
    assert len(came.outcomes) == 1 + len(others) * partial


async def test_a_plan_goes_on_for_as_long_as_it_is_good_for(
    uneven: FakeCluster, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    """A cluster that is slow: half a minute passes whenever the clock is read."""
    plan, reads = await planned(uneven, http), itertools.count(wall_clock_ms(), 30_000)
    came = await carried_out(uneven, http, writer_of(tmp_path), plan, clock=lambda: next(reads))
    assert (came.left, len(came.outcomes)) == ({}, len(plan.steps))


@pytest.mark.parametrize("at_once", [1, 2])
async def test_so_many_bundles_move_at_once_as_the_plan_says(
    uneven: FakeCluster, http: aiohttp.ClientSession, tmp_path: Path, at_once: int
) -> None:
    plan = replace(await planned(uneven, http), at_once=at_once).sealed()
    free = 1
    """Each that ends well lets one more be under way, up to that: so many end."""
    assert sum(step.round == 1 for step in plan.steps) >= free + at_once

    class HangsLater(list[tuple[str, str]]):
        def append(self, each: tuple[str, str]) -> None:
            if len(self) == free:
                uneven.hang_unload = asyncio.Event()
            super().append(each)

    uneven.unloads, ticks = HangsLater(), count(wall_clock_ms())
    # Hardly any time passes: one that takes long would have fewer move at once.
    clock = lambda: next(ticks)  # noqa: E731
    carrying = carried_out(uneven, http, writer_of(tmp_path), plan, clock=clock)
    running = asyncio.create_task(carrying)

    def under_way() -> int:
        return len(uneven.unloads) - free

    await until(lambda: under_way() >= at_once)
    assert uneven.hang_unload is not None
    uneven.hang_unload.set()
    came = await running
    assert not came.left
    ends = [(one.started_at_ms, 1) for one in came.outcomes]
    ends += [(one.ended_at_ms, -1) for one in came.outcomes]
    assert max(accumulate(change for _, change in sorted(ends))) == at_once


async def test_nothing_more_is_moved_once_another_has_taken_the_history_over(
    uneven: FakeCluster, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    plan = replace(await planned(uneven, http), at_once=1).sealed()
    writer = writer_of(tmp_path)
    taken = LogLines("moved", lambda: take_over(writer.location))
    with pytest.raises(SupersededError):
        await carried_out(uneven, http, writer, plan, logged=taken)
    assert len(uneven.unloads) == 1


async def test_a_round_waits_until_brokers_report_what_the_former_round_did(
    uneven: FakeCluster, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    """Pulsar's brokers measure once a minute, and answer with the old figures until then."""
    plan = await planned(uneven, http)
    rounds = [replace(step, round=1 + number // 2) for number, step in enumerate(plan.steps)]
    plan = replace(plan, steps=tuple(rounds)).sealed()
    before = {broker.name: broker.report().to_json() for broker in uneven.brokers}
    said, unloads = list[str](), list[int]()
    requests = uneven.brokers[0].requests

    async def measured_later(looks: int) -> None:
        await until(lambda: len(requests) >= looks)
        for broker in uneven.brokers:
            broker.says = None

    def log(sentence: str) -> None:
        """Freeze the reports with the first move; they are new some looks after they are waited
        for.
        """
        said.append(sentence)
        if "waits for new measurements of" in sentence:
            unloads.append(len(uneven.unloads))
            later.append(asyncio.create_task(measured_later(len(requests) + 30)))
        else:
            for broker in uneven.brokers:
                broker.says = before[broker.name]

    later: list[asyncio.Task[None]] = []

    options = replace(DO_IT, balance=BalanceOptions(report_interval_ms=0), look_every_s=0.01)
    writer = writer_of(tmp_path)
    came = await ApprovedPlan(
        http, (uneven.admin_url,), writer, plan, wall_clock_ms, log, options
    ).carry_out()
    assert unloads[0] == 2, "two steps a round, and none of the second before the brokers measured"
    waits = [each for each in said if each.startswith("round ")]
    assert waits[0].startswith("round 2 of ")
    assert len(waits) == len(set(waits)), "each is said once"
    assert (came.done_before, came.left, came.refused) == (0, {}, "")
    assert len(came.outcomes) == len(plan.steps)


async def test_a_plan_is_carried_out_behind_a_history_whose_clock_was_ahead(
    uneven: FakeCluster, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    plan, writer = await planned(uneven, http), writer_of(tmp_path)
    land(writer, poll((wall_clock_ms() - START) // 5000 + 100, {"b1:80": {}}))
    assert not (await carried_out(uneven, http, writer, plan)).left


async def test_no_further_round_is_begun_once_publishing_is_slow(
    uneven: FakeCluster, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    plan = await planned(uneven, http)
    last = len(plan.steps) - 1
    rounds = [replace(step, round=1 + (number == last)) for number, step in enumerate(plan.steps)]
    plan = replace(plan, steps=tuple(rounds), at_once=1).sealed()
    for each in uneven.brokers:
        each.latency_ms = 5.0
    slow = next(each for each in uneven.brokers if each.name == plan.steps[0].destination)
    uneven.takes_s, uneven.unloads = 0.1, SlowsDown(slow)
    options = replace(
        DO_IT, moves=replace(DO_IT.moves, latency=LatencyWatchOptions(every_s=0.01, first_s=0.01))
    )
    came = await carried_out(uneven, http, writer_of(tmp_path), plan, options)
    assert came.refused.startswith(f"publish latency of {slow.name} rose from 5.0 ms to 80.0 ms")
    assert set(came.left.values()) == {came.refused}
    assert len(came.left) + len(uneven.unloads) == len(plan.steps)
    assert len(kept(tmp_path, JournalKind.ROUND)) == 1


async def test_an_order_to_stop_from_before_a_plan_was_begun_does_not_hold_it(
    uneven: FakeCluster, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    """It was for the balancer that ran then."""
    plan, writer = await planned(uneven, http), writer_of(tmp_path)
    write_control(writer.location, Control(Wish.STOP, wall_clock_ms() - 60_000))
    assert not (await carried_out(uneven, http, writer, plan)).left
