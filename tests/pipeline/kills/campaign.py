"""A balancer that is killed again and again, and what its history and the cluster say of it.

Each life is a process (`driver.py`) on the same history; the load shifts all the time, so that
there is always something to move. Judges look after each death and at the end.
"""

import asyncio
import contextlib
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np
import psutil

from counterpoise.app.strategies import strategy_from
from counterpoise.decide.balancing.moves import MoveStatus
from counterpoise.names.properties import Properties
from counterpoise.pipeline.tables.data_files import read_file
from counterpoise.pipeline.tables.history import TablesReader
from counterpoise.pipeline.tables.schema import OWNERSHIP_CHANGES
from tests.pipeline.command import Command
from tests.pipeline.fake_cluster import FakeCluster, bundle_name
from tests.pipeline.histories import reader_of
from tests.pipeline.kills.driver import CLOCK, STOPS, WAIT
from tests.pipeline.kills.story import Story
from tests.waiting import answer_within

SETTINGS = {
    "loadBalancerBundleUnloadMinThroughputThreshold": "0.001",
    # What a broker carries now is what counts: a round follows a shift of the load at once.
    "loadBalancerHistoryResourcePercentage": "0.1",
}
SHEDDER = "ThresholdShedder"
EXIT_PUT_RIGHT = 2
EXIT_STREAM_FAILED = 3
STARTS = 3
TRY_AGAIN = "that the store answers, then try again"
"""What a balancer says whose store did not answer as it began."""
JVM = "jvm"
"""Another: Spark's own process is."""
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
    story: Story = field(default_factory=Story)
    shifts: asyncio.Task[None] | None = None
    said: list[str] = field(default_factory=list)

    async def begin(self, bundles: int = 8) -> None:
        """Two brokers; the first has everything."""
        first, _ = [await self.cluster.add_broker() for _ in range(2)]
        for index in range(bundles):
            self.cluster.carry(first, bundle_name(index), 20_000.0 + index)

    async def life(
        self, point: str, nth: int = 1, enough: str = "", *, shifts: bool = True
    ) -> None:
        """Until it dies at a point, or, where it does not, has said something and is stopped.

        ``shifts``: loads do all the while, so that there is always something to move.
        """
        dies = point not in ("-", EXECUTOR, JVM)
        for left in reversed(range(STARTS)):
            run = await self.start(point if dies else "-", nth)
            try:
                with self.shifting() if shifts else contextlib.nullcontext():
                    await self._lives(run, point, nth, enough)
            except AssertionError:
                # A busy machine's store answers late: what the sentence asks for is done.
                if not (left and run.said and TRY_AGAIN in run.said[-1]):
                    raise
            else:
                break
            finally:
                await run.kill()
                self.said += [f"-- {point} {nth}", *run.said]
        assert "Traceback" not in run.text, run.text
        await asyncio.to_thread(self.judge)

    async def _lives(self, run: Command, point: str, nth: int, enough: str) -> None:
        if point in (EXECUTOR, JVM):
            await run.until(lambda line: "first batch runs" in line)
            for _ in range(nth):
                await run.until(lambda line: " moved " in line)
                if point == EXECUTOR:
                    _kill_the_workers(run.process.pid)
            if point == JVM:
                _kill_the_jvm(run.process.pid)
                assert await run.end() == EXIT_STREAM_FAILED, run.text
                assert "JVM was killed" in run.said[-1], run.text
                assert "start it again" in run.said[-1], run.text
                return
        elif point != "-":
            assert await run.end() == -signal.SIGKILL, run.text
            return
        await run.until(lambda line: (enough or " moved ") in line)
        run.process.send_signal(signal.SIGTERM)
        assert await run.end() == 0, run.text

    async def taken_over(self, point: str, nth: int = 1) -> None:
        """One stands still at a point until its heartbeat is old, another goes on, then both."""
        shifting = asyncio.create_task(self._shift())
        first = await self.start(STOPS + point, nth)
        second: Command | None = None
        try:
            await asyncio.to_thread(_stands_still, first.process.pid)
            second = await self.start()
            await second.until(lambda line: " moved " in line)
            first.process.send_signal(signal.SIGCONT)
            assert await first.end() == EXIT_PUT_RIGHT, first.text
            # Refused at its next commit, or, where it slept through an answer, as it begins again.
            refused = ("has taken", "another balancer")
            assert any(each in first.said[-1] for each in refused), first.text
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

    async def start(
        self, point: str = "-", nth: int = 1, *, clock_s: float = 0.0, waits: bool = True
    ) -> Command:
        """A life, to end at a point; its clock is so much ahead."""
        words = [self.engine, point, str(nth)]
        words += ["balance", "--admin-url", self.cluster.admin_url, "--history", self.history]
        words += ["--execute", "--interval", f"{self.every_s / 3:.1f}s"]
        words += ["--decide-every", f"{self.every_s}s", "--grace-period", f"{self.every_s}s"]
        # Eight bundles of two brokers go back and forth all the time here.
        words += ["--strategy", SHEDDER, "--thrash-span", "0s"]
        words += [word for each in SETTINGS.items() for word in ("--set", "=".join(each))]
        module = "tests.pipeline.kills.driver"
        more = {CLOCK: str(clock_s)} | ({} if waits else {WAIT: "0"})
        return await Command.start(words, cwd=self.home, module=module, environment=more)

    @contextlib.contextmanager
    def shifting(self) -> Iterator[None]:
        """Loads shift as long as the block runs."""
        if self.shifts:
            yield  # they do already
            return
        self.shifts = asyncio.create_task(self._shift())
        try:
            yield
        finally:
            self.shifts.cancel()
            self.shifts = None

    async def _shift(self) -> None:
        """Another broker's bundles become the busy ones, whenever bundles have moved.

        However slow the machine is, there is something to move at each round that way: loads that
        change by the clock are all alike on average where rounds are far apart.
        """
        while True:
            moved, busy = len(self.cluster.unloads), self._with_bundles()
            while len(self.cluster.unloads) == moved:
                self._carry(
                    {
                        bundle: (20_000.0 if owner == busy else 2_000.0) * (0.5 + self.rng.random())
                        for bundle, owner in self.cluster.owners.items()
                    }
                )
                await asyncio.sleep(self.every_s / 2)  # the pace of reports

    def _carry(self, loads: Mapping[str, float]) -> None:
        """Report new loads of bundles, of those that have an owner."""
        by_name = {each.name: each for each in self.cluster.brokers}
        for bundle, load in loads.items():
            if owner := by_name.get(self.cluster.owners[bundle]):
                self.cluster.carry(owner, bundle, load)
        self.cluster.report_time += 1

    def _with_bundles(self) -> str:
        """A broker that has some to give away."""
        count = Counter(self.cluster.owners.values())
        names = [name for name in self.cluster.names if count[name] > 1]
        return self.rng.choice(names or self.cluster.names)

    def judge(self) -> None:
        """What holds after any death: what was written stays, and nothing was done twice."""
        self.story.look(reader_of(self.history))
        asked, decided = Counter(self.cluster.unloads), Counter[tuple[str, str]]()
        for row in self.story.decisions.values():
            decided[row["bundle"], row["destination"]] += 1
        twice = {move: n for move, n in asked.items() if n > decided[move]}
        assert not twice, f"asked for more often than decided: {twice}\n" + "\n".join(self.said)

    async def end_in_peace(self) -> None:
        """Judge the end, once the last round is seen through.

        A stop cuts off a round that takes long, and the next life finishes it. It lives on even
        loads until nothing is to be moved: on a busy machine each stop might cut off another round.
        """
        if self._open_ends() != (set(), set()):
            self._carry(dict.fromkeys(self.cluster.owners, 10_000.0))
            await self.life("-", enough="nothing to move", shifts=False)
        self._judge_the_end()

    def _open_ends(self) -> tuple[set[str], set[str]]:
        """Moves without an outcome, and rounds without the memory that ends them."""
        story = self.story
        rounds = {str(poll_id) for poll_id in story.rounds}
        return story.decisions.keys() ^ story.outcomes.keys(), rounds ^ story.memories.keys()

    def _judge_the_end(self) -> None:
        """What holds when the last life ended in peace: all was seen through, and rightly so."""
        reader, story = reader_of(self.history), self.story
        assert self._open_ends() == (set(), set())
        ended = [r for r in story.outcomes.values() if not r["error"].startswith(_SLOW)]
        odd = [r for r in ended if r["status"] not in _FINE]
        assert not odd, odd
        self._owners_as_reported(reader)
        by = strategy_from(
            Properties(SETTINGS),
            shedder=SHEDDER,
            placement="LeastUsage",
            decide_every_s=self.every_s,
            grace_s=self.every_s,
        )
        assert story.judge_decisions(reader, by) > 0
        assert "" not in self.cluster.owners.values(), "an unloaded bundle has no owner"

    def _owners_as_reported(self, reader: TablesReader) -> None:
        """The table of ownership has what a look through all reports finds."""
        files = [read_file(reader.location, each) for each in reader.files(OWNERSHIP_CHANGES)]
        rows = [row for each in files for row in each.to_pylist()]
        kept = [(row["poll_id"], row["bundle"], row["destination"]) for row in rows]
        seen, owners = list[tuple[int, str, str]](), dict[str, str]()
        for poll_id, poll in sorted(self.story.polls.items()):
            reported: dict[str, list[tuple[int, bool, str]]] = {}
            for row in np.flatnonzero(poll["kind"] == "bundle").tolist():
                bundle, broker = poll["bundle"][row], poll["broker"][row]
                newer = (int(poll["report_at_ms"][row]), owners.get(bundle) != broker, broker)
                reported.setdefault(bundle, []).append(newer)
            for bundle, each in reported.items():
                if owners.get(bundle) != (broker := max(each)[2]):
                    seen.append((poll_id, bundle, broker))
                    owners[bundle] = broker
        assert sorted(kept) == sorted(seen)


_SLOW = "it took "
"""How it begins to say why nothing was asked for: this machine or the store stood still."""
_STARTS_WITHIN_S = 900.0
_FINE = {
    each.value
    for each in (MoveStatus.MOVED, MoveStatus.ALREADY_THERE, MoveStatus.STALE, MoveStatus.GONE)
}


def _stands_still(pid: int) -> None:
    """Wait until a process does, which may have to start Spark before."""
    process = psutil.Process(pid)
    stopped = answer_within(lambda: process.status() == psutil.STATUS_STOPPED, _STARTS_WITHIN_S)
    assert stopped, f"it does not stand still after {_STARTS_WITHIN_S:g} s: {process.status()}"


def _kill_the_workers(pid: int) -> None:
    """The Python processes that fold for the driver with this id."""
    for child in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # it ends as we look
            if "pyspark.daemon" in " ".join(child.cmdline()):
                child.kill()


def _kill_the_jvm(pid: int) -> None:
    for child in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if child.name() == "java":
                child.kill()
