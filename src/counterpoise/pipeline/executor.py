"""Carries moves out through the admin API, and verifies each outcome.

The response 204 to an unload proves nothing: a concurrent lookup can assign the bundle to another
broker, and an unload can fail half-way. A move is done when the destination confirms that it owns
the bundle.
"""

import asyncio
import contextlib
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Sequence,
)
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp

from counterpoise.decide.balancing.moves import Move, MoveOutcome, MoveStatus
from counterpoise.decide.balancing.pace import FAILED_MOST, MovePace
from counterpoise.decide.balancing.publish_latency import LatencyRise
from counterpoise.names.bundle import BundleName, namespace_of
from counterpoise.names.callbacks import MillisecondClock
from counterpoise.names.namespace import is_left_in_place
from counterpoise.pipeline.bundle_lookup import BundleLookup, pause_after
from counterpoise.pipeline.collect.admin import UNREADABLE, Admin, AdminOptions, RefusedError
from counterpoise.pipeline.collect.where import AddressOf
from counterpoise.pipeline.collect.words import error_text
from counterpoise.pipeline.publish_latencies import LatencyWatch, LatencyWatchOptions
from counterpoise.pipeline.unacknowledged import Unacknowledged

NO_ANSWER = (*UNREADABLE, ValueError)
"""The exceptions raised when a broker does not answer, or answers with an invalid name."""


@dataclass(frozen=True, slots=True)
class ExecutorOptions:
    """How moves are carried out: dry run or not, time-outs, concurrency, retries."""

    execute: bool = False
    """False: a dry run, in which nothing is unloaded."""
    verify_within_s: float = 20.0
    """How long after the unload a broker may take to confirm that it owns the bundle."""
    stale_after_s: float = 120.0
    """The greatest age of reports at which a decision is still carried out. A decision dated
    further than this in the future, by a clock that was ahead, is not carried out either."""
    at_once: int = 4
    """The most moves at the same time; fewer are allowed when moves fail (`MovePace`)."""
    failed_most: int = FAILED_MOST
    """If this many of the last five moves failed, no further one begins; 0: no limit."""
    unloads: int = 2
    """How often a bundle is unloaded at most, if each time its source owns it again."""
    back_after_s: float = 3.0
    """How long after the unload brokers may still name the source as the owner."""
    unload_within_s: float = 60.0
    """How long a broker may take to answer an unload: as `namespaceBundleUnloadingTimeoutMs`."""
    again_after_s: float = 2.0
    """Seconds before a failed move is tried again; twice as long before each further attempt."""
    send_within_s: float = 5.0
    """The longest time from the check whether moves are withheld until the unload is sent.

    If this process was suspended in between, another may have taken over and moved the bundle."""
    latency: LatencyWatchOptions = field(default_factory=LatencyWatchOptions)
    """How far the brokers' publish latency may rise before no further move begins."""
    warm_up_s: float = 0.0
    """How long after the end of the moves that go first the others begin
    (`decide/balancing/warm_up.py`); 0: all begin together."""


async def _nothing_holds() -> str:
    return ""


class Executor:
    """Unloads bundles to their destinations and verifies the new owner.

    `withheld` is called before each move and unload: it returns why nothing may be moved now, or an
    empty text.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        clock_ms: MillisecondClock,
        options: ExecutorOptions,
        withheld: Callable[[], Awaitable[str]] = _nothing_holds,
        where: AddressOf = "http://{}".format,
    ) -> None:
        """`withheld` returns why no move may begin now, or an empty text if moves may begin;
        `where` returns the admin address of a broker by its id.
        """
        self._where = where
        self._withheld = withheld
        self._session = session
        self._clock_ms = clock_ms
        self._options = options
        admin = Admin(session, AdminOptions())
        self._unacknowledged = Unacknowledged(admin)
        self._lookup = BundleLookup(admin, where)
        self._latencies = LatencyWatch(admin, where, options.latency)

    async def carry_out(
        self,
        moves: Sequence[Move],
        brokers: Sequence[str],
        done: Callable[[MoveOutcome], Awaitable[None]],
        first: Collection[Move] = (),
    ) -> LatencyRise | None:
        """Carry out moves concurrently; `done` is called with each outcome as soon as it is known.

        `brokers` are possible new owners; `first` are those of `moves` that come before the others.
        Failures and errors of the cluster never raise: the outcomes have the reasons. Returns the
        rise of publish latency that stopped the moves early; None if none did.
        """
        carried_out: list[bool] = []
        turns = _MoveTurns(MovePace.of(self._options.at_once, self._options.failed_most))
        rises: list[LatencyRise] = []

        def stop(rise: LatencyRise) -> None:
            rises.append(rise)
            turns.pace = replace(turns.pace, stopped=rise.sentence)

        async def one(move: Move) -> None:
            async with turns.one() as stop:
                outcome = await self._carry_out(move, brokers, stop)
                carried_out.append(outcome.carried_out)
                if outcome.status is not MoveStatus.WITHHELD:
                    failed = outcome.status is MoveStatus.FAILED
                    turns.pace = turns.pace.after(failed=failed, seconds=outcome.seconds)
                await done(outcome)

        if not (self._options.execute and self._options.warm_up_s):
            first = ()
        async with self._latencies.watching(self._touched(moves), stop):
            await _all_or_none(one(move) for move in first)
            others = [move for move in moves if move not in first]
            if any(carried_out) and others and not turns.pace.stop:
                await asyncio.sleep(self._options.warm_up_s)
            await _all_or_none(one(move) for move in others)
        return rises[-1] if rises else None

    def _touched(self, moves: Sequence[Move]) -> list[str]:
        """The brokers that these moves concern, sorted; empty in a dry run."""
        free = [each for each in moves if not is_left_in_place(namespace_of(each.bundle))]
        touched = {each for move in free for each in (move.source, move.destination) if each}
        return sorted(touched) if self._options.execute else []

    async def pause_before(self, attempt: int) -> None:
        """Wait before retrying failed moves; ``attempt`` counts from 1, later ones wait longer."""
        if attempt > 1:
            await asyncio.sleep(self._options.again_after_s * 2 ** (attempt - 2))

    async def _carry_out(self, move: Move, brokers: Sequence[str], stop: str) -> MoveOutcome:
        started, waiting = self._clock_ms(), None
        owner, error = "", ""
        try:
            if stop:
                raise _WithheldError(stop)
            if is_left_in_place(namespace := namespace_of(move.bundle)):
                raise _WithheldError(
                    f"bundles of {namespace} are never moved: the cluster's load manager places "
                    "them"
                )
            if self._options.execute:
                await self._may()
                there = self._where(move.source)
                waiting = await self._unacknowledged.seconds(move.bundle, there)
                # The move's time begins here: its clients did not wait for the reads before.
                started = self._clock_ms()
            status, owner = await self._attempt(move, brokers, started)
        except _WithheldError as reason:
            status, error = MoveStatus.WITHHELD, str(reason)
        except NO_ANSWER as trouble:
            status, error = MoveStatus.FAILED, error_text(trouble)
        outcome = move.ended(status, owner, started, self._clock_ms(), error)
        return replace(outcome, unacknowledged_s=waiting if outcome.carried_out else None)

    async def _may(self) -> None:
        clock = asyncio.get_running_loop().time
        began = clock()
        if reason := await self._withheld():
            raise _WithheldError(reason)
        if (took := clock() - began) > self._options.send_within_s:
            raise RefusedError(f"it took {took:.1f} s to ask whether it may be moved")

    async def _attempt(
        self, move: Move, brokers: Sequence[str], now_ms: int
    ) -> tuple[MoveStatus, str]:
        stale = abs(now_ms - move.poll_id) > self._options.stale_after_s * 1000
        if not self._options.execute:
            return (MoveStatus.STALE, "") if stale else (MoveStatus.DRY_RUN, move.source)
        owner = await (self._owner_by_now(move, brokers) if stale else self._owner(move, brokers))
        if owner and owner != move.source:
            return (
                MoveStatus.ALREADY_THERE if owner == move.destination else MoveStatus.GONE
            ), owner
        if stale:
            return MoveStatus.STALE, ""
        # A bundle without an owner was unloaded before, perhaps by a balancer that then ended. The
        # destination acquires it without another unload.
        tries = self._options.unloads if owner else 1
        for left in reversed(range(tries)):
            if owner:
                # Checked again: if this process was suspended since, another may have taken over.
                await self._may()
                await self._unload(move)
            try:
                return await self._verify(move, brokers)
            except _CameBackError:
                if not left:
                    raise
        raise AssertionError("the last try returns or raises")

    async def _owner(self, move: Move, brokers: Sequence[str]) -> str:
        """Look up the bundle's owner; empty if no broker owns it."""
        # By an authoritative lookup, as after the leader's redirect, the destination acquires a
        # bundle without an owner.
        return await self._lookup.owner(
            move.bundle,
            move.destination or move.source,
            (move.source, *brokers),
            takes=bool(move.destination),
            believed=(move.source,),
        )

    async def _owner_by_now(self, move: Move, brokers: Sequence[str]) -> str:
        """The present owner of a bundle whose decision is stale; empty if no broker answers.

        The bundle is not moved now, but may have been moved before this process was restarted.
        """
        with contextlib.suppress(*NO_ANSWER):
            return await self._lookup.owner(
                move.bundle, move.source, brokers, believed=(move.source,)
            )
        return ""

    async def _unload(self, move: Move) -> None:
        bundle = BundleName.parse(move.bundle)
        there = self._where(move.source)
        url = f"{there}/admin/v2/namespaces/{bundle.namespace}/{bundle.range}/unload"
        params = {"destinationBroker": move.destination} if move.destination else {}
        # Pulsar answers 415 without a content type that it knows, even if there is no body.
        headers = {"Content-Type": "application/json"}
        connects_s = self._options.send_within_s
        within = aiohttp.ClientTimeout(total=self._options.unload_within_s, connect=connects_s)
        request = self._session.put(url, params=params, headers=headers, timeout=within)
        try:
            async with request as response:
                if response.status >= 300:
                    text = (await response.text()).strip()[:300]
                    raise RefusedError(f"unload: HTTP {response.status} {text}".strip())
        except aiohttp.ConnectionTimeoutError:
            raise RefusedError(
                f"unload: no connection to {move.source} within {connects_s:g} s, so it was not "
                "asked for"
            ) from None
        except TimeoutError:
            raise RefusedError(
                f"unload: {move.source} gave no answer within {within.total:g} s; it may still be "
                "carried out"
            ) from None

    async def _verify(self, move: Move, brokers: Sequence[str]) -> tuple[MoveStatus, str]:
        """Look up the bundle until a broker confirms that it owns it, or `verify_within_s` are
        over.
        """
        owner, trouble, pause = "", "", 0.0
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            async with asyncio.timeout(self._options.verify_within_s):
                while True:
                    try:
                        owner = await self._owner(move, brokers)
                        trouble = ""
                    except NO_ANSWER as error:
                        trouble = error_text(error)  # for instance while the owner changes
                    if owner and (owner == move.destination or not move.destination):
                        return MoveStatus.MOVED, owner
                    if owner and owner != move.source:
                        return MoveStatus.ELSEWHERE, owner
                    if owner and clock() - began >= self._options.back_after_s:
                        await self._came_back(move)
                    pause = pause_after(pause)
                    await asyncio.sleep(pause)
        except TimeoutError:
            if owner:
                raise RefusedError(
                    f"{owner} still owns it, though the unload was accepted"
                ) from None
            if trouble:
                raise RefusedError(
                    f"unloaded, and no owner shows within {self._options.verify_within_s:g} s: "
                    f"{trouble}"
                ) from None
            return MoveStatus.UNOWNED, ""

    async def _came_back(self, move: Move) -> None:
        """Raise `_CameBackError` if the source itself confirms that it owns the bundle.

        Other brokers may still name it for a while after it released the bundle.
        """
        owner = ""
        with contextlib.suppress(*NO_ANSWER):
            owner = await self._lookup.named_by(move.source, move.bundle, (move.source,))
        if owner == move.source:
            raise _CameBackError(
                f"{owner} still owns it, or owns it again, though the unload was accepted"
            )


async def _all_or_none(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run moves concurrently; if one raises, cancel the others.

    It raises if its outcome cannot be recorded; then the others' could not be recorded either.
    """
    tasks = [asyncio.create_task(each) for each in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _MoveTurns:
    """Limits how many moves run at the same time, as their pace (`MovePace`) allows."""

    def __init__(self, pace: MovePace) -> None:
        self.pace = pace
        self._under_way = 0
        self._changed = asyncio.Condition()

    @contextlib.asynccontextmanager
    async def one(self) -> AsyncIterator[str]:
        """Wait for a turn to move; yields the reason why no move may begin, empty if one may."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._under_way < self.pace.at_once)
            self._under_way += 1
        try:
            yield self.pace.stop
        finally:
            self._under_way -= 1
            async with self._changed:
                self._changed.notify_all()


class _WithheldError(Exception):
    """Nothing may be moved now; the message says why."""


class _CameBackError(RefusedError):
    """The source owns the bundle still, or again because a lookup assigned it to the source."""
