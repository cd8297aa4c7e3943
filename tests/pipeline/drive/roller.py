"""A rolling restart of a fake cluster, and the machines that restart its brokers."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import aiohttp

from counterpoise.decide.balancing.drain import DrainRules
from counterpoise.decide.balancing.moves import MoveStatus
from counterpoise.decide.balancing.restarts import RestartStage
from counterpoise.decide.watchdog.observation import WatchdogOptions
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.drive.action_trail import (
    ActionKind,
    ActionMove,
    ActionTrail,
    OperatorAction,
)
from counterpoise.pipeline.drive.drain import DrainOptions
from counterpoise.pipeline.drive.roll import RollingRestart, RollOptions
from counterpoise.pipeline.drive.roll_state import RolledBroker, RollState
from counterpoise.pipeline.drive.snapshot import SnapshotReader
from counterpoise.pipeline.executor import ExecutorOptions
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.watchdog.watchdog import guard
from tests.pipeline.fake_cluster import FakeCluster, bundle_name

QUICK = RollOptions(
    back_within_s=60.0,
    healthy_for_s=0.0,
    patience_s=60.0,
    look_every_s=0.01,
    drain=DrainOptions(moves=ExecutorOptions(verify_within_s=60.0, again_after_s=0.01)),
)
IMPATIENT = replace(QUICK, back_within_s=0.5, patience_s=0.1)
"""For what never comes to be."""


@dataclass
class Machines:
    """Restarts the fake brokers, as `Restarter`, and can do so badly."""

    cluster: FakeCluster
    restarted: list[str] = field(default_factory=list)
    not_empty: list[str] = field(default_factory=list)
    version: str = ""
    stays_away: bool = False
    does_nothing: bool = False
    reports: bool = True
    channel_waits: bool = False

    async def restart(self, broker: str) -> None:
        machine = next(each for each in self.cluster.brokers if each.name == broker)
        self.restarted.append(broker)
        if any(owner == broker for owner in self.cluster.owners.values()):
            self.not_empty.append(broker)
        if self.does_nothing:
            return
        machine.away = True
        await asyncio.sleep(0)
        machine.started_s += 1
        machine.version = self.version
        machine.away, machine.silent = self.stays_away, not self.reports
        machine.channel_waits = self.channel_waits


@dataclass
class Roller:
    """What a rolling restart of a fake cluster needs; each `roll()` is a process of its own."""

    cluster: FakeCluster
    http: aiohttp.ClientSession
    trail: ActionTrail
    machines: Machines
    logged: list[str] = field(default_factory=list)
    watchdog: WatchdogOptions = field(default_factory=WatchdogOptions)
    clock_ms: Callable[[], int] = wall_clock_ms

    def roll(self, options: RollOptions = QUICK) -> RollingRestart:
        addresses = tuple(f"http://{name}" for name in self.cluster.names)
        return RollingRestart(
            self.http,
            SnapshotReader(self.http, addresses, self.clock_ms),
            guard(self.http, addresses, self.logged.append, options=self.watchdog),
            self.trail,
            self.machines,
            DrainRules(),
            self.clock_ms,
            self.logged.append,
            options,
        )

    async def whole(self, options: RollOptions = QUICK) -> RollState:
        each = self.roll(options)
        return await each.run(await each.begin(await each.plan(), "me", ""))

    async def resumed(self, options: RollOptions = QUICK) -> RollState:
        """By another process, which has seen long enough that the first one is gone."""
        each = self.roll(options)
        return await each.run(await each.take_over(self.silent_since_long()))

    def silent_since_long(self) -> RollState:
        """The rolling restart, as if nothing had been heard of its process for a long time."""
        state = self.trail.roll()
        assert state is not None
        self.trail.keep_roll(silent := replace(state, seen_ms=0))
        return silent

    async def from_here(
        self,
        *restarted: str,
        moved: Mapping[str, Sequence[MoveStatus]] = MappingProxyType({}),
        options: RollOptions = QUICK,
    ) -> None:
        """Go on with a rolling restart that has restarted these, and tried these moves."""
        each = self.roll(options)
        state = await each.begin(tuple(self.cluster.names), "me", "")
        for name in restarted:
            state = state.with_broker(RolledBroker(name, RestartStage.RESTARTED))
        for bundle, statuses in moved.items():
            moves = tuple(ActionMove(bundle, "a:1", "b:1", it.value, 1, 2) for it in statuses)
            by_it = OperatorAction(
                ActionKind.DRAIN, 1, "me", state.label, moves=moves, id=bundle[-8:]
            )
            self.trail.keep(by_it)
        await each.run(state)

    def moves(self) -> Counter[str]:
        return Counter(bundle for bundle, _ in self.cluster.unloads)


@contextlib.asynccontextmanager
async def roller_of(
    path: Path, brokers: int = 4, bundles: int = 16, loads: tuple[float, ...] = (1000.0,)
) -> AsyncIterator[Roller]:
    async with FakeCluster() as cluster, aiohttp.ClientSession() as http:
        machines = [await cluster.add_broker() for _ in range(brokers)]
        for index in range(bundles):
            cluster.carry(machines[index % brokers], bundle_name(index), loads[index % len(loads)])
        cluster.leader = cluster.names[0]
        yield Roller(cluster, http, ActionTrail(open_location(path)), Machines(cluster))
