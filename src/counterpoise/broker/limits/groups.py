"""Resource groups: limits that hold for all namespaces of a group, on all brokers together.

Each broker that serves a group says every `RateOptions.share_interval_s` what of it passed and
whether its producers had to wait, in a node of its own session; everybody computes the parts from
those nodes by the same function (`quota.shares`). So nobody leads, a broker that dies gives its
part back with its session, and one that hears late is late by one interval.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from counterpoise.broker import paths
from counterpoise.broker.limits.publish import PublishLimits
from counterpoise.broker.limits.rates import Rate, group_rate
from counterpoise.metadata import BadVersion, MetadataStore, NotFound, StoreUnavailable
from counterpoise.quota import SECOND_NS, Need, PublishLimit, shares

log = logging.getLogger(__name__)

WAITING: Final = 0.05
"""Who had to wait for more than this part of an interval has use for more."""
CHANGE: Final = 0.02
"""A usage that changed by less is not reported again."""


class GroupSource(Protocol):
    """Resource groups, as the metadata store has them."""

    async def resource_group(self, name: str) -> Mapping[str, Any] | None:
        """A group's ``ResourceGroup``."""


_NO_RATE: Final = Rate()


@dataclass(slots=True)
class _Group:
    """One group, as this broker knows it."""

    rate: Rate = _NO_RATE
    messages_seen: int = 0
    bytes_seen: int = 0
    waited_ns: int = 0
    said: tuple[int, int, bool] | None = None


class ResourceGroups:
    """This broker's parts of the groups that its topics are in."""

    def __init__(
        self,
        broker: str,
        store: MetadataStore,
        source: GroupSource,
        publish: PublishLimits,
        interval_s: Callable[[], float],
        clock_ns: Callable[[], int],
    ) -> None:
        self._broker = broker
        self._store = store
        self._source = source
        self._publish = publish
        self._interval_s = interval_s
        self._now = clock_ns
        self._groups: dict[str, _Group] = {}
        self._measured = clock_ns()
        self._busy = asyncio.Event()

    async def know(self, name: str) -> None:
        """A topic is in this group: its limit holds from the topic's first entry on."""
        if name not in self._groups:
            self._groups[name] = _Group()
            self._busy.set()
            await self.refresh(name)

    async def refresh(self, name: str) -> None:
        """Read a group's definition again; nothing for one that no topic here is in."""
        group = self._groups.get(name)
        if group is None:
            return
        group.rate = group_rate(await self._source.resource_group(name))
        await self._divide(name, group)

    @property
    def names(self) -> list[str]:
        """The groups that topics here are in."""
        return sorted(self._groups)

    async def run(self) -> None:
        """Report and divide, every interval, while there is any group."""
        while True:
            await self._busy.wait()
            await asyncio.sleep(self._interval_s())
            try:
                await self.round()
            except StoreUnavailable as error:
                # The parts stay as they are; the next round finds what has changed.
                log.warning("resource groups: usage was not shared: %s", error)

    async def round(self) -> None:
        """Say what was used since the last round, and take the part that follows."""
        now = self._now()
        seconds = max(1e-3, (now - self._measured) / SECOND_NS)
        self._measured = now
        served = {self._publish.group_of(topic) for topic in self._publish.topics}
        for name, group in list(self._groups.items()):
            if name not in served:
                await self._leave(name)
                continue
            if group.rate:
                await self._report(name, self._measure(name, group, seconds, now), group)
                await self._divide(name, group)
            elif group.said is not None:
                await self._withdraw(name, group)

    def _measure(self, name: str, group: _Group, seconds: float, now: int) -> tuple[int, int, bool]:
        limit = self._publish.group(name)
        if limit is None:
            return 0, 0, False
        messages = round((limit.passed_messages - group.messages_seen) / seconds)
        size = round((limit.passed_bytes - group.bytes_seen) / seconds)
        waited_ns = _waited_ns(limit, now)
        waiting = waited_ns - group.waited_ns > WAITING * seconds * SECOND_NS
        group.messages_seen, group.bytes_seen = limit.passed_messages, limit.passed_bytes
        group.waited_ns = waited_ns
        return messages, size, waiting

    async def _report(self, name: str, need: tuple[int, int, bool], group: _Group) -> None:
        if group.said is not None and not _differs(group.said, need):
            return
        messages, size, waiting = need
        value = json.dumps({"messages": messages, "bytes": size, "waiting": waiting})
        path = paths.group_usage(name, self._broker)
        await self._store.put(path, value.encode(), ephemeral=group.said is None)
        group.said = need

    async def _divide(self, name: str, group: _Group) -> None:
        needs = await self._needs(name) if group.rate else {}
        # Until it is known what the others need, an equal part; alone, the whole.
        needs.setdefault(self._broker, (0, 0, len(needs) > 0))
        parts: list[int] = []
        for index, limit in enumerate((group.rate.messages, group.rate.size)):
            said = {who: Need(need[index], need[2]) for who, need in needs.items()}
            parts.append(shares(limit, said)[self._broker] if limit else 0)
        if name in self._groups:
            self._publish.set_group_rate(name, Rate(parts[0], parts[1]))

    async def _needs(self, name: str) -> dict[str, tuple[int, int, bool]]:
        needs: dict[str, tuple[int, int, bool]] = {}
        parent = paths.group_usages(name)
        for who in await self._store.children(parent):
            found = await self._store.get(f"{parent}/{who}")
            if found is not None:
                needs[who] = _need(found.value)
        return needs

    async def _leave(self, name: str) -> None:
        group = self._groups.pop(name)
        if not self._groups:
            self._busy.clear()
        self._publish.set_group_rate(name, Rate())
        await self._withdraw(name, group)

    async def _withdraw(self, name: str, group: _Group) -> None:
        if group.said is not None:
            group.said = None
            with contextlib.suppress(NotFound, BadVersion):
                await self._store.delete(paths.group_usage(name, self._broker))


def _waited_ns(limit: PublishLimit, now: int) -> int:
    since = limit.throttled_since
    return limit.throttled_ns + (now - since if since is not None else 0)


def _differs(said: tuple[int, int, bool], now: tuple[int, int, bool]) -> bool:
    if said[2] != now[2]:
        return True
    return any(abs(a - b) > CHANGE * max(a, b) for a, b in zip(said[:2], now[:2], strict=True))


def _need(value: bytes) -> tuple[int, int, bool]:
    """What a broker said; nothing, where it cannot be read."""
    try:
        found = json.loads(value)
        return int(found["messages"]), int(found["bytes"]), bool(found["waiting"])
    except (ValueError, KeyError, TypeError):
        return 0, 0, False
