"""A balancer that is killed again and again, and what its history and the cluster say of it.

Each life is a process (`driver.py`) on the same history; the load shifts all the time, so that
there is always something to move. Judges look after each death and at the end.
"""

import asyncio
import contextlib
import hashlib
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np
import psutil

from counterpoise.app.strategies import strategy_from
from counterpoise.decide.balancing.moves import Status
from counterpoise.decide.balancing.round import decide
from counterpoise.load.fold import Batch, FoldState, fold, merged
from counterpoise.names.properties import Properties
from counterpoise.pipeline.history.layout import files
from counterpoise.pipeline.history.ownership import TABLE
from counterpoise.pipeline.history.store import Store, open_store
from counterpoise.pipeline.history.tables import HistoryTables, read_table
from counterpoise.pipeline.stream.states import complete, read_state, state_name
from tests.load.test_fold import assert_same
from tests.pipeline.command import Command
from tests.pipeline.fake_cluster import FakeCluster, bundle_name
from tests.pipeline.kills.driver import LATE, STOPS
from tests.pipeline.landed import read_landed

SETTINGS = {"loadBalancerBundleUnloadMinThroughputThreshold": "0.001"}
SHEDDER = "ThresholdShedder"
KEPT = ("reports", "decisions", "rejections", "rounds", "outcomes", "memory")
EXIT_PUT_RIGHT = 2
EXECUTOR = "executor"
"""A point of its own: the Python processes that fold are killed, and the driver is not."""


@dataclass
class Campaign:
    """One cluster, one history, many lives."""

    cluster: FakeCluster
    history: str
    home: Path
    rng: Random
    engine: str = "spark"
    every_s: float = 1.0
    """Between two rounds; between two polls it is a third of that."""
    seen: dict[str, str] = field(default_factory=dict)
    """What each file held when it was first seen."""
    said: list[str] = field(default_factory=list)

    async def begin(self, bundles: int = 8) -> None:
        """Two brokers; the first has everything."""
        first, _ = [await self.cluster.add_broker() for _ in range(2)]
        for index in range(bundles):
            self.cluster.carry(first, bundle_name(index), 20_000.0 + index)

    async def life(self, point: str, nth: int = 1, enough: str = "") -> None:
        """Until it dies at a point, or, where it does not, has said something and is stopped."""
        shifting = asyncio.create_task(self._shift())
        dies = point not in ("-", EXECUTOR)
        run = await self._start(point if dies else "-", nth)
        try:
            if dies:
                assert await run.end() == -signal.SIGKILL, run.text
            else:
                if point == EXECUTOR:
                    await run.until(lambda line: "micro-batch runs" in line)
                    for _ in range(nth):
                        await run.until(lambda line: " moved " in line)
                        _kill_the_workers(run.process.pid)
                await run.until(lambda line: (enough or " moved ") in line)
                run.process.send_signal(signal.SIGTERM)
                assert await run.end() == 0, run.text
        finally:
            shifting.cancel()
            await run.kill()
            self.said += [f"-- {point} {nth}", *run.said]
        assert "Traceback" not in run.text, run.text
        await asyncio.to_thread(self.judge)

    async def taken_over(self, point: str, nth: int = 1) -> None:
        """One stands still at a point for longer than its lease, another goes on, then both."""
        shifting = asyncio.create_task(self._shift())
        first = await self._start(point if point.startswith(LATE) else STOPS + point, nth)
        second: Command | None = None
        try:
            await asyncio.to_thread(_stands_still, first.process.pid)
            second = await self._start("-", 1)
            await second.until(lambda line: " moved " in line)
            first.process.send_signal(signal.SIGCONT)
            assert await first.end() == EXIT_PUT_RIGHT, first.text
            assert "over" in first.said[-1], first.text
            await second.until(lambda line: " moved " in line)
            second.process.send_signal(signal.SIGTERM)
            assert await second.end() == 0, second.text
        finally:
            shifting.cancel()
            for each in (first, second):
                if each is not None:
                    await each.kill()
                    self.said += [f"-- stopped at {point} {nth}", *each.said]
                    assert "Traceback" not in each.text, each.text
        await asyncio.to_thread(self.judge)

    async def _start(self, point: str, nth: int) -> Command:
        words = [self.engine, point, str(nth)]
        words += ["balance", "--admin-url", self.cluster.admin_url, "--history", self.history]
        words += ["--execute", "--interval", f"{self.every_s / 3:.1f}s"]
        words += ["--decide-every", f"{self.every_s}s", "--grace-period", f"{self.every_s}s"]
        # Eight bundles of two brokers go back and forth all the time here.
        words += ["--strategy", SHEDDER, "--thrash-span", "0s"]
        words += [word for each in SETTINGS.items() for word in ("--set", "=".join(each))]
        return await Command.start(words, cwd=self.home, module="tests.pipeline.kills.driver")

    async def _shift(self) -> None:
        """Another broker's bundles become the busy ones, so that a round follows a round."""
        names = self.cluster.names
        while True:
            busy = self.rng.choice(names)
            for bundle, owner in list(self.cluster.owners.items()):
                broker = next((b for b in self.cluster.brokers if b.name == owner), None)
                if broker is not None:
                    load = 20_000.0 if owner == busy else 2_000.0
                    self.cluster.carry(broker, bundle, load * (0.5 + self.rng.random()))
            self.cluster.report_time += 1
            await asyncio.sleep(self.every_s / 2)

    def judge(self) -> None:
        """What holds after any death: what was written stays, and nothing was done twice."""
        store = open_store(self.history)
        held = {name: _digest(store, name) for table in KEPT for name in files(store, table)}
        lost = self.seen.keys() - held.keys()
        assert not lost, f"gone: {sorted(lost)}"
        changed = [name for name, digest in self.seen.items() if held[name] != digest]
        assert not changed, f"written over: {changed}"
        self.seen = held
        ids = Counter(row["id"] for row in read_table(store, "decisions"))
        assert max(ids.values(), default=0) <= 1
        done = Counter(row["id"] for row in read_table(store, "outcomes"))
        assert max(done.values(), default=0) <= 1
        asked, decided = Counter(self.cluster.unloads), Counter()  # type: ignore[var-annotated]
        for row in read_table(store, "decisions"):
            decided[row["bundle"], row["destination"]] += 1
        twice = {move: n for move, n in asked.items() if n > decided[move]}
        assert not twice, f"asked for more often than decided: {twice}\n" + "\n".join(self.said)

    def judge_the_end(self) -> None:
        """What holds when the last life ended in peace: all was seen through, and rightly so."""
        store = open_store(self.history)
        rounds = read_table(store, "rounds")
        decisions = read_table(store, "decisions")
        outcomes = {row["id"]: row for row in read_table(store, "outcomes")}
        assert {row["id"] for row in decisions} == outcomes.keys()
        assert {row["poll_id"] for row in rounds} == {
            row["poll_id"] for row in read_table(store, "memory")
        }
        odd = [r for r in outcomes.values() if r["status"] not in _FINE]
        assert not odd, odd
        self._owners_as_reported(store)
        self._decided_as_in_one_process(store, [int(row["poll_id"]) for row in rounds])
        assert "" not in self.cluster.owners.values(), "a bundle that was unloaded is nobody's"

    def _owners_as_reported(self, store: Store) -> None:
        """The table of ownership has what a look through all reports finds."""
        kept = [(r["poll_id"], r["bundle"], r["destination"]) for r in read_table(store, TABLE)]
        seen, owners = list[tuple[int, str, str]](), dict[str, str]()
        for name in files(store, "reports"):
            rows = read_landed(store, name)
            told: dict[str, list[tuple[int, bool, str]]] = {}
            for row in np.flatnonzero(rows["kind"] == "bundle").tolist():
                bundle, broker = rows["bundle"][row], rows["broker"][row]
                newer = (int(rows["report_at_ms"][row]), owners.get(bundle) != broker, broker)
                told.setdefault(bundle, []).append(newer)
            for bundle, each in told.items():
                if owners.get(bundle) != (broker := max(each)[2]):
                    seen.append((int(rows["poll_id"][0]), bundle, broker))
                    owners[bundle] = broker
        assert sorted(kept) == sorted(seen)

    def _decided_as_in_one_process(self, store: Store, rounds: Sequence[int]) -> None:
        history = HistoryTables(store)
        by = strategy_from(
            Properties(SETTINGS),
            shedder=SHEDDER,
            placement="LeastUsage",
            decide_every_s=self.every_s,
            grace_s=self.every_s,
        )
        folded = [poll_id for poll_id, _ in complete(store)]
        state, checked = FoldState.empty(), 0
        for name in files(store, "reports"):
            rows = read_landed(store, name)
            state, poll_id = fold(state, Batch.of(rows)), int(rows["poll_id"][0])
            if poll_id in rounds:
                whole = merged([state])
                again = decide(whole, history.memory_before(poll_id), by)
                assert history.round(poll_id) == again, f"not what {poll_id} says: {again}"
                checked += 1
            if poll_id in folded:
                shards = [read_state(store, state_name(poll_id, s, 2)) for s in range(2)]
                assert_same(merged(shards), merged([state]))
        assert checked == len(rounds) > 0, "each round is of a poll that was landed"


_FINE = {each.value for each in (Status.MOVED, Status.ALREADY_THERE, Status.STALE, Status.GONE)}


def _stands_still(pid: int) -> None:
    """Wait until a process does."""
    while psutil.Process(pid).status() != psutil.STATUS_STOPPED:
        time.sleep(0.02)


def _digest(store: Store, name: str) -> str:
    found: str = store.read(name, lambda file: hashlib.sha256(file.read()).hexdigest())
    return found


def _kill_the_workers(pid: int) -> None:
    """The Python processes that fold for the driver with this id."""
    for child in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # it ends as we look
            if "pyspark.daemon" in " ".join(child.cmdline()):
                child.kill()
