"""Carry moves out through the admin API, and see for ourselves what came of them.

A 204 from the cluster is not believed: the destination can be lost to a lookup that came first, and
an unload can fail half-way. A move is done when the destination says that it owns the bundle.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import aiohttp

from counterpoise.decide.balancing.moves import Move, Outcome, Status
from counterpoise.names.bundle import BundleName

LOOK_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class ExecutorOptions:
    """How moves are carried out."""

    execute: bool = False
    """False: a dry run, everything but the deed."""
    verify_within_s: float = 20.0
    """How long after the unload the new owner may take to show."""
    stale_after_s: float = 120.0
    """A decision on reports older than this is not carried out any more."""
    at_once: int = 4
    """How many moves run side by side."""


class _RefusedError(Exception):
    """The cluster answered, and the answer was no."""


async def _nothing_holds() -> str:
    return ""


class Executor:
    """Unloads bundles to their destinations and verifies the new owner.

    `held` is asked before each move: why nothing may be moved just now, or an empty text.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        clock_ms: Callable[[], int],
        options: ExecutorOptions,
        held: Callable[[], Awaitable[str]] = _nothing_holds,
        where: Callable[[str], str] = "http://{}".format,
    ) -> None:
        """`where` gives the address of a broker's admin API by its id."""
        self._where = where
        self._held = held
        self._session = session
        self._clock_ms = clock_ms
        self._options = options
        self._cluster = ""

    async def carry_out(
        self, moves: Sequence[Move], brokers: Sequence[str], done: Callable[[Outcome], None]
    ) -> None:
        """Carry the moves out; `done` hears of each outcome as soon as it is known.

        `brokers` are those that may turn out to be the new owner. Never raises for what a cluster
        does or says.
        """
        gate = asyncio.Semaphore(self._options.at_once)

        async def one(move: Move) -> None:
            async with gate:
                done(await self._carry_out(move, brokers))

        tasks = [asyncio.create_task(one(move)) for move in moves]
        try:
            await asyncio.gather(*tasks)
        finally:
            # When keeping an outcome fails, nothing more may happen that nobody would write down.
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _carry_out(self, move: Move, brokers: Sequence[str]) -> Outcome:
        started = self._clock_ms()
        owner, error = "", ""
        try:
            error = await self._held() if self._options.execute else ""
            status = Status.WITHHELD
            if not error:
                status, owner = await self._attempt(move, brokers, started)
        except (TimeoutError, aiohttp.ClientError, _RefusedError) as trouble:
            status, error = Status.FAILED, str(trouble) or type(trouble).__name__
        return Outcome(
            id=move.id,
            poll_id=move.poll_id,
            bundle=move.bundle,
            source=move.source,
            destination=move.destination,
            status=status,
            owner=owner,
            started_at_ms=started,
            ended_at_ms=self._clock_ms(),
            error=error,
        )

    async def _attempt(self, move: Move, brokers: Sequence[str], now_ms: int) -> tuple[Status, str]:
        if now_ms - move.poll_id > self._options.stale_after_s * 1000:
            return Status.STALE, ""
        if not self._options.execute:
            return Status.DRY_RUN, move.source
        if not await self.owns(move.source, move.bundle):
            owner = await self._owner(move, brokers)
            if not owner:
                # Unloaded, perhaps by a balancer that was cut off then: it is brought to its heir.
                return await self._verify(move, brokers)
            return (Status.ALREADY_THERE if owner == move.destination else Status.GONE), owner
        await self._unload(move)
        return await self._verify(move, brokers)

    async def owns(self, broker: str, bundle: str) -> bool:
        """Whether a broker says that it owns a bundle."""
        cluster = await self._cluster_of(broker)
        where = f"{self._where(broker)}/admin/v2/brokers/{quote(cluster)}/{broker}/ownedNamespaces"
        return bundle in await self._json(where)

    async def _cluster_of(self, broker: str) -> str:
        if not self._cluster:
            clusters = await self._json(f"{self._where(broker)}/admin/v2/clusters")
            local = [name for name in clusters if name != "global"]
            for name in local[1:] and local:
                listed = await self._listed(broker, name)
                if broker in listed:
                    local = [name]
                    break
            if not local:
                raise _RefusedError(f"broker {broker} names no cluster")
            self._cluster = str(local[0])
        return self._cluster

    async def _listed(self, broker: str, cluster: str) -> Any:
        try:
            return await self._json(f"{self._where(broker)}/admin/v2/brokers/{quote(cluster)}")
        except (aiohttp.ClientError, _RefusedError):
            return ()

    async def _owner(self, move: Move, brokers: Sequence[str]) -> str:
        """Who owns the bundle now: the destination is asked first, a silent broker owns nothing."""
        for broker in dict.fromkeys((move.destination, *brokers)):
            try:
                if broker and await self.owns(broker, move.bundle):
                    return broker
            except (TimeoutError, aiohttp.ClientError, _RefusedError):
                continue
        return ""

    async def _unload(self, move: Move) -> None:
        bundle = BundleName.parse(move.bundle)
        there = self._where(move.source)
        url = f"{there}/admin/v2/namespaces/{bundle.namespace}/{bundle.range}/unload"
        params = {"destinationBroker": move.destination} if move.destination else {}
        # Without a body Pulsar still insists on a content type it knows: 415 otherwise.
        headers = {"Content-Type": "application/json"}
        async with self._session.put(url, params=params, headers=headers) as response:
            if response.status >= 300:
                said = (await response.text()).strip()[:300]
                raise _RefusedError(f"unload: HTTP {response.status} {said}".strip())

    async def _verify(self, move: Move, brokers: Sequence[str]) -> tuple[Status, str]:
        clock = asyncio.get_running_loop()
        deadline = clock.time() + self._options.verify_within_s
        woken = False
        while True:
            owner = await self._owner(move, brokers)
            if owner and (owner == move.destination or not move.destination):
                return Status.MOVED, owner
            if owner and owner != move.source:
                return Status.ELSEWHERE, owner
            if clock.time() >= deadline:
                break
            if not woken:
                woken = True
                await self._wake(move)
            await asyncio.sleep(LOOK_EVERY_S)
        if owner:
            raise _RefusedError(f"{owner} still owns it, though the unload was accepted")
        return Status.UNOWNED, ""

    async def _wake(self, move: Move) -> None:
        """Look up one of the bundle's topics: without that, an unloaded bundle has no owner."""
        bundle = BundleName.parse(move.bundle)
        base = self._where(move.destination or move.source)
        try:
            listing = f"{base}/admin/v2/persistent/{bundle.namespace}?bundle={bundle.range}"
            topics = await self._json(listing)
            if topics:
                path = str(topics[0]).replace("://", "/", 1)
                await self._json(f"{base}/lookup/v2/topic/{quote(path)}")
        except (TimeoutError, aiohttp.ClientError, _RefusedError):
            return  # a client may still do it; the deadline decides

    async def _json(self, url: str) -> Any:
        async with self._session.get(url) as response:
            if response.status != 200:
                said = (await response.text()).strip()[:300]
                raise _RefusedError(f"{url}: HTTP {response.status} {said}".strip())
            return await response.json(content_type=None)
