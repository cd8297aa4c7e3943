"""What becomes of a move by what the cluster answers, in time that jumps."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest

from counterpoise.decide.balancing.moves import Move, MoveOutcome, MoveStatus, move_id
from counterpoise.decide.balancing.publish_latency import LatencyLimit, LatencyRise
from counterpoise.decide.plan import Decision, DecisionKind
from counterpoise.pipeline import executor as module
from counterpoise.pipeline.executor import Executor, ExecutorOptions
from counterpoise.pipeline.publish_latencies import LatencyWatchOptions, MoveStop
from tests.load.story import START
from tests.pipeline.fake_cluster import bundle_name
from tests.pipeline.rounds import EndedMoves
from tests.quota.jumping import now_ns, on_jumping_loop

SOURCE, TO, OTHER = "b1:80", "b2:80", "b3:80"
AWAY = aiohttp.ClientConnectionError("connection refused")
OPTIONS = ExecutorOptions(execute=True)


def move(to: str = TO, number: int = 0) -> Move:
    bundle = bundle_name(number)
    decision = Decision(DecisionKind.UNLOAD, bundle, SOURCE, to or None, "x", "x")
    return Move(move_id(START, bundle), START, decision, "")


class Cluster:
    """Names these owners one after the other, the last for ever, and answers unloads so."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *owners: str | Exception, status: int = 204
    ) -> None:
        self._owners = [*owners]
        self._status = status
        self.unloads: list[dict[str, str]] = []
        self.source_says = ""
        self.connects_s = 0.0
        self.reasons: list[str] = []
        monkeypatch.setattr(module, "BundleLookup", lambda *_: self)
        monkeypatch.setattr(module, "Unacknowledged", lambda *_: self)

    def _next(self) -> str:
        found = self._owners.pop(0) if len(self._owners) > 1 else self._owners[0]
        if isinstance(found, Exception):
            raise found
        return found

    async def owner(self, *_: object, **__: object) -> str:
        return self._next()

    async def seconds(self, *_: object) -> float:
        """What its consumers have not acknowledged; it takes three seconds to ask."""
        await asyncio.sleep(3.0)
        return 0.5

    async def named_by(self, *_: object) -> str:
        return self.source_says or self._next()

    @asynccontextmanager
    async def put(
        self, _: str, *, params: dict[str, str], headers: object, **more: aiohttp.ClientTimeout
    ) -> AsyncIterator[Any]:
        if self.connects_s > (more["timeout"].connect or 1e9):
            raise aiohttp.ConnectionTimeoutError
        self.unloads.append(params)

        async def text() -> str:
            return "its reason"

        yield SimpleNamespace(status=self._status, text=text)

    async def held(self) -> str:
        return self.reasons.pop(0) if self.reasons else ""

    async def outcome(
        self, made: Move, options: ExecutorOptions = OPTIONS, *, late_ms: int = 0
    ) -> MoveOutcome:
        outcomes: list[MoveOutcome] = []

        async def done(outcome: MoveOutcome) -> None:
            outcomes.append(outcome)

        clock: Callable[[], int] = lambda: START + late_ms + now_ns() // 1_000_000  # noqa: E731
        session = cast("aiohttp.ClientSession", self)
        options = replace(options, latency=LatencyWatchOptions(LatencyLimit(times=0.0)))
        await Executor(session, clock, options, self.held).carry_out([made], [TO, OTHER], done)
        (outcome,) = outcomes
        return outcome


@pytest.mark.parametrize(
    ("owners", "to", "status", "unloads"),
    [
        ((SOURCE, TO), TO, MoveStatus.MOVED, 1),
        ((SOURCE, SOURCE, "", TO), TO, MoveStatus.MOVED, 1),
        ((SOURCE, OTHER), TO, MoveStatus.ELSEWHERE, 1),
        ((SOURCE, OTHER), "", MoveStatus.MOVED, 1),
        (("", TO), TO, MoveStatus.MOVED, 0),
        (("", SOURCE), TO, MoveStatus.FAILED, 0),
        ((SOURCE, ""), TO, MoveStatus.UNOWNED, 1),
        ((TO,), TO, MoveStatus.ALREADY_THERE, 0),
        ((OTHER,), TO, MoveStatus.GONE, 0),
        ((SOURCE,), TO, MoveStatus.FAILED, OPTIONS.unloads),
        # What was not known while the bundle changed hands says nothing of how it ended.
        ((SOURCE, AWAY, ""), TO, MoveStatus.UNOWNED, 1),
        ((SOURCE, AWAY), TO, MoveStatus.FAILED, 1),
        ((SOURCE, AWAY, TO), TO, MoveStatus.MOVED, 1),
        ((AWAY,), TO, MoveStatus.FAILED, 0),
        ((ValueError("no broker's name"),), TO, MoveStatus.FAILED, 0),
        ((SOURCE, ValueError("no broker's name"), TO), TO, MoveStatus.MOVED, 1),
    ],
)
def test_a_move_ends_as_the_owners_show(
    monkeypatch: pytest.MonkeyPatch,
    owners: tuple[str | Exception, ...],
    to: str,
    status: MoveStatus,
    unloads: int,
) -> None:
    cluster = Cluster(monkeypatch, *owners)

    @on_jumping_loop
    async def carried_out() -> None:
        outcome = await cluster.outcome(move(to))
        assert outcome.status is status, outcome.error
        assert bool(outcome.error) is (status is MoveStatus.FAILED)
        assert outcome.started_at_ms == START + 3000, "its clients do not wait for what is read"
        assert outcome.unacknowledged_s == (0.5 if outcome.carried_out else None)
        assert cluster.unloads == [{"destinationBroker": to} if to else {}] * unloads

    carried_out()


def test_a_source_that_names_another_owner_is_not_asked_to_unload_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The others know it late."""
    cluster = Cluster(monkeypatch, SOURCE)
    cluster.source_says = TO

    @on_jumping_loop
    async def carried_out() -> None:
        outcome = await cluster.outcome(move())
        assert (outcome.status, len(cluster.unloads)) == (MoveStatus.FAILED, 1)
        assert outcome.error == f"{SOURCE} still owns it, though the unload was accepted"

    carried_out()


@pytest.mark.parametrize("status", [300, 307, 400, 404, 412, 500])
def test_an_unload_that_is_not_accepted_fails_with_the_clusters_words(
    monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    cluster = Cluster(monkeypatch, SOURCE, TO, status=status)

    @on_jumping_loop
    async def carried_out() -> None:
        outcome = await cluster.outcome(move())
        assert (outcome.status, len(cluster.unloads)) == (MoveStatus.FAILED, 1)
        assert f"HTTP {status} its reason" in outcome.error

    carried_out()


@pytest.mark.parametrize(
    ("connects_s", "status"), [(5.0, MoveStatus.MOVED), (5.1, MoveStatus.FAILED)]
)
def test_an_unload_for_which_there_is_no_connection_in_time_is_not_sent(
    monkeypatch: pytest.MonkeyPatch, connects_s: float, status: MoveStatus
) -> None:
    """By then another may have followed this process."""
    cluster = Cluster(monkeypatch, SOURCE, TO)
    cluster.connects_s = connects_s

    @on_jumping_loop
    async def carried_out() -> None:
        outcome = await cluster.outcome(move())
        assert (outcome.status, len(cluster.unloads)) == (status, status is MoveStatus.MOVED)
        reason = f"unload: no connection to {SOURCE} within 5 s, so it was not asked for"
        assert outcome.error == ("" if cluster.unloads else reason)

    carried_out()


def test_what_stopped_moves_stops_none_of_the_next_and_a_dry_run_looks_at_no_broker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(monkeypatch, SOURCE, TO)
    rise = LatencyRise(TO, 5.0, 80.0, LatencyLimit())
    rises, watched = [rise, None, None], list[list[str]]()

    @asynccontextmanager
    async def watching(brokers: list[str], stop: MoveStop) -> AsyncIterator[None]:
        watched.append(brokers)
        if found := rises.pop(0):
            stop(found)
        yield

    monkeypatch.setattr(module, "LatencyWatch", lambda *_: SimpleNamespace(watching=watching))

    @on_jumping_loop
    async def carried_out() -> None:
        for options in (OPTIONS, replace(OPTIONS, execute=False)):
            executor, ended = Executor(cast("Any", cluster), lambda: START, options), EndedMoves()
            found = [rise, None] if options.execute else [None]
            for each in found:
                assert await executor.carry_out([move()], [TO], ended.keep) == each
            assert [each.error for each in ended] == [rise.sentence, ""][-len(found) :]

    carried_out()
    assert watched == [[SOURCE, TO], [SOURCE, TO], []]


def test_moves_go_beside_each_other_one_more_with_each_that_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    under_way, begun = set[str](), list[int]()

    class Slow(Cluster):
        async def seconds(self, bundle: str, *_: object) -> float:
            under_way.add(bundle)
            begun.append(len(under_way))
            await asyncio.sleep(1.0 + len(begun) / 10)
            return 0.0

        async def owner(self, bundle: str, *_: object, **__: object) -> str:
            under_way.remove(bundle)
            return TO

    cluster, ended = Slow(monkeypatch, TO), EndedMoves()
    options = replace(OPTIONS, at_once=3, latency=LatencyWatchOptions(LatencyLimit(times=0.0)))

    @on_jumping_loop
    async def carried_out() -> None:
        executor = Executor(cast("Any", cluster), lambda: START, options)
        await executor.carry_out([move(number=n) for n in range(9)], [TO], ended.keep)

    carried_out()
    assert begun == [1, 1, 2, 2, 3, 3, 3, 3, 3]


@pytest.mark.parametrize(
    ("reasons", "unloads"), [(["a person paused it"], 0), (["", "followed"], 0), (["", "", "x"], 1)]
)
def test_nothing_is_unloaded_once_there_is_a_reason_to_hold(
    monkeypatch: pytest.MonkeyPatch, reasons: list[str], unloads: int
) -> None:
    """It is asked for before the move, and again before each unload."""
    cluster = Cluster(monkeypatch, SOURCE)
    cluster.reasons = list(reasons)

    @on_jumping_loop
    async def carried_out() -> None:
        outcome = await cluster.outcome(move())
        assert (outcome.status, outcome.error) == (MoveStatus.WITHHELD, reasons[-1])
        assert len(cluster.unloads) == unloads

    carried_out()


@pytest.mark.parametrize("executes", [True, False])
@pytest.mark.parametrize(
    ("late_s", "owner", "status"),
    [
        (120.0, SOURCE, None),
        (-120.0, SOURCE, None),
        (120.001, SOURCE, MoveStatus.STALE),
        (-120.001, SOURCE, MoveStatus.STALE),
        (200.0, AWAY, MoveStatus.STALE),
        (200.0, ValueError("odd"), MoveStatus.STALE),
        (200.0, TO, MoveStatus.ALREADY_THERE),
        (200.0, OTHER, MoveStatus.GONE),
    ],
)
def test_an_old_decision_is_not_carried_out_and_what_came_of_it_is_kept(
    monkeypatch: pytest.MonkeyPatch,
    late_s: float,
    owner: str | Exception,
    status: MoveStatus | None,
    executes: bool,
) -> None:
    cluster = Cluster(monkeypatch, owner, TO)
    fresh = MoveStatus.MOVED if executes else MoveStatus.DRY_RUN
    expected = status or fresh if executes else MoveStatus.STALE if status else fresh

    @on_jumping_loop
    async def carried_out() -> None:
        options = replace(OPTIONS, execute=executes)
        # By the time at which its consumers are known, which takes three seconds.
        late_ms = round(1000 * late_s) - (3000 if executes else 0)
        outcome = await cluster.outcome(move(), options, late_ms=late_ms)
        assert outcome.status is expected, outcome.error
        assert len(cluster.unloads) == (status is None and executes)

    carried_out()


def test_bundles_of_brokers_own_topics_are_never_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, SOURCE, TO)
    made = move()
    own = replace(
        made, decision=made.decision._replace(bundle="pulsar/system/0x00000000_0xffffffff")
    )

    @on_jumping_loop
    async def carried_out() -> None:
        outcome = await cluster.outcome(own)
        assert (outcome.status, cluster.unloads) == (MoveStatus.WITHHELD, [])
        assert "bundles of pulsar/system are never moved" in outcome.error

    carried_out()
