"""Measures brokers' publish latency while bundles move, and stops moves if it rises too far."""

import asyncio
import math
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from counterpoise.decide.balancing import publish_latency
from counterpoise.pipeline.collect.admin import UNREADABLE, Admin
from counterpoise.pipeline.collect.where import AddressOf

_COUNTS: Final = re.compile(
    rb"^pulsar_broker_publish_latency_(count|sum)(?:\{[^}\n]*\})?[ \t]+(\S+)", re.MULTILINE
)
REMEMBERED_S: Final = 600.0
"""Older measurements are not compared with new ones, since load changes with time (seconds)."""


@dataclass(frozen=True, slots=True)
class LatencyWatchOptions:
    """The rise of publish latency that stops moves, and how often latency is measured."""

    limit: publish_latency.LatencyLimit = field(default_factory=publish_latency.LatencyLimit)
    every_s: float = 1.5
    """Seconds between two measurements; more if they are slow, so that they take at most half of
    the time."""
    first_s: float = 2.0
    """Seconds between the two measurements that are made before the first moves."""


MoveStop = Callable[[publish_latency.LatencyRise], None]
"""Called when publish latency has risen too far, so that no further move may begin."""


@dataclass(frozen=True, slots=True)
class _Timed:
    at_s: float
    look: publish_latency.LatencyLook


class LatencyWatch:
    """Measures the publish latency of the brokers between which an executor moves bundles."""

    def __init__(self, admin: Admin, where: AddressOf, options: LatencyWatchOptions) -> None:
        self._admin = admin
        self._where = where
        self._options = options
        self._before: deque[_Timed] = deque(maxlen=60)

    @asynccontextmanager
    async def watching(self, brokers: Collection[str], stop: MoveStop) -> AsyncIterator[None]:
        """Measure during the block; call `stop` once if latency rose so far that moves have to
        stop.

        Two measurements are made first, unless earlier moves left some, or no broker reports its
        latency.
        """
        if not self._options.limit.times or not brokers:
            yield
            return
        clock = asyncio.get_running_loop().time
        while self._before and self._before[0].at_s < clock() - REMEMBERED_S:
            self._before.popleft()
        known = bool(self._before)
        await self._add(brokers, self._before)
        if not known and any(each.messages for each in self._before[-1].look.values()):
            await asyncio.sleep(self._options.first_s)
            await self._add(brokers, self._before)
        since = deque([self._before[-1]], maxlen=60)
        watching = asyncio.create_task(self._watch(brokers, since, stop))
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        if not watching.cancelled():
            return  # latency had risen, so these measurements are no basis for judging later moves
        self._before.extend(since)

    async def _watch(self, brokers: Collection[str], since: deque[_Timed], stop: MoveStop) -> None:
        """Measure repeatedly until publish latency has risen too far, then call `stop`."""
        clock, options = asyncio.get_running_loop().time, self._options
        before = [each.look for each in self._before]
        if not any(before):
            return
        took_s = 0.0
        while True:
            await asyncio.sleep(max(options.every_s - took_s, took_s))
            began_s = clock()
            await self._add(brokers, since)
            took_s = clock() - began_s
            if rise := publish_latency.latency_rise(
                before, [each.look for each in since], options.limit
            ):
                stop(rise)
                return

    async def _add(self, brokers: Collection[str], to: deque[_Timed]) -> None:
        found = await asyncio.gather(*(self._counts(each) for each in brokers))
        look = {broker: each for broker, each in zip(brokers, found, strict=True) if each}
        to.append(_Timed(asyncio.get_running_loop().time(), look))

    async def _counts(self, broker: str) -> publish_latency.PublishCounts | None:
        try:
            body = await self._admin.get(f"{self._where(broker)}/metrics/", of_itself=True)
        except UNREADABLE:
            return None  # other parts report that the broker does not answer
        return await asyncio.to_thread(publish_counts, body)


def publish_counts(body: bytes) -> publish_latency.PublishCounts | None:
    """The number and total latency of publishes in a broker's `/metrics/`; None without them."""
    found: dict[bytes, float] = {}
    for name, text in _COUNTS.findall(body):
        try:
            figure = float(text)
        except ValueError:
            return None
        found[name] = found.get(name, 0.0) + figure
    if len(found) < 2 or not all(map(math.isfinite, found.values())):
        return None
    return publish_latency.PublishCounts(found[b"count"], found[b"sum"])
