"""Resource groups: limits that hold for all namespaces of a group, on all brokers together.

Each broker that serves a group says every `RateOptions.share_interval_s` what of it passed and
whether somebody had to wait, in a node of its own session; everybody computes the parts from
those nodes by the same function (`quota.shares`). So nobody leads, a broker that dies gives its
part back with its session, and one that hears late is late by one interval.

What a group delivers is shared like what it publishes; 4.0.7 counts that, and limits it nowhere.
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
from counterpoise.broker.limits.ports import Reached
from counterpoise.broker.limits.publish import PublishLimits
from counterpoise.broker.limits.rates import Rate, Use, group_rate
from counterpoise.broker.limits.seen import waited_ns
from counterpoise.metadata import BadVersion, MetadataStore, NotFound, StoreUnavailable
from counterpoise.names.options import INT64_MAX
from counterpoise.quota import SECOND_NS, Need, shares

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


_Needs = tuple[int, int, bool]
"""Messages and bytes a second that passed, and whether somebody had to wait."""
_NOTHING: Final[_Needs] = (0, 0, False)


@dataclass(slots=True)
class _Side:
    """One use of a group, as this broker knows it."""

    rate: Rate = _NO_RATE
    messages_seen: int = 0
    bytes_seen: int = 0
    waited_ns: int = 0


class _Group:
    """One group, as this broker knows it."""

    __slots__ = ("said", "sides")

    def __init__(self) -> None:
        self.sides = {use: _Side() for use in Use}
        self.said: dict[Use, _Needs] | None = None

    @property
    def limited(self) -> bool:
        """Whether it limits anything."""
        return any(side.rate for side in self.sides.values())


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
        found = await self._source.resource_group(name)
        for use, side in group.sides.items():
            side.rate = group_rate(found, use)
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
            if group.limited:
                needs = {use: self._measure(name, use, group, seconds, now) for use in Use}
                await self._report(name, needs, group)
                await self._divide(name, group)
            elif group.said is not None:
                await self._withdraw(name, group)

    def _limit(self, name: str, use: Use) -> Reached | None:
        limits = self._publish
        return limits.group(name) if use is Use.PUBLISH else limits.dispatch.group(name)

    def _measure(self, name: str, use: Use, group: _Group, seconds: float, now: int) -> _Needs:
        limit, side = self._limit(name, use), group.sides[use]
        if limit is None:
            return _NOTHING
        messages = round((limit.passed_messages - side.messages_seen) / seconds)
        size = round((limit.passed_bytes - side.bytes_seen) / seconds)
        waited = waited_ns(limit, now)
        waiting = waited - side.waited_ns > WAITING * seconds * SECOND_NS
        side.messages_seen, side.bytes_seen = limit.passed_messages, limit.passed_bytes
        side.waited_ns = waited
        return messages, size, waiting

    async def _report(self, name: str, needs: dict[Use, _Needs], group: _Group) -> None:
        said = group.said
        if said is not None and not any(_differs(said[use], needs[use]) for use in Use):
            return
        path = paths.group_usage(name, self._broker)
        await self._store.put(path, _written(needs), ephemeral=said is None)
        group.said = needs

    async def _divide(self, name: str, group: _Group) -> None:
        needs = await self._needs(name) if group.limited else {}
        # Until it is known what the others need, an equal part; alone, the whole.
        needs.setdefault(self._broker, dict.fromkeys(Use, (0, 0, len(needs) > 0)))
        if self._groups.get(name) is group:
            for use, side in group.sides.items():
                said = {who: uses[use] for who, uses in needs.items()}
                self._set_rate(name, use, _part(self._broker, side.rate, said))

    def _set_rate(self, name: str, use: Use, rate: Rate) -> None:
        if use is Use.PUBLISH:
            self._publish.set_group_rate(name, rate)
        else:
            self._publish.dispatch.set_group_rate(name, rate)

    async def _needs(self, name: str) -> dict[str, dict[Use, _Needs]]:
        needs: dict[str, dict[Use, _Needs]] = {}
        parent = paths.group_usages(name)
        for who in await self._store.children(parent):
            found = await self._store.get(f"{parent}/{who}")
            if found is not None:
                needs[who] = _read(found.value)
        return needs

    async def _leave(self, name: str) -> None:
        group = self._groups.pop(name)
        if not self._groups:
            self._busy.clear()
        for use in Use:
            self._set_rate(name, use, Rate())
        await self._withdraw(name, group)

    async def _withdraw(self, name: str, group: _Group) -> None:
        if group.said is not None:
            group.said = None
            with contextlib.suppress(NotFound, BadVersion):
                await self._store.delete(paths.group_usage(name, self._broker))


def _part(broker: str, rate: Rate, said: Mapping[str, _Needs]) -> Rate:
    """A broker's part of a rate, by what every broker said."""
    parts = []
    for index, limit in enumerate((rate.messages, rate.size)):
        needs = {who: Need(need[index], need[2]) for who, need in said.items()}
        parts.append(shares(limit, needs)[broker] if limit else 0)
    return Rate(parts[0], parts[1])


def _differs(said: _Needs, now: _Needs) -> bool:
    if said[2] != now[2]:
        return True
    return any(abs(a - b) > CHANGE * max(a, b) for a, b in zip(said[:2], now[:2], strict=True))


def _written(needs: Mapping[Use, _Needs]) -> bytes:
    told = {
        use.value: {"messages": messages, "bytes": size, "waiting": waiting}
        for use, (messages, size, waiting) in needs.items()
    }
    return json.dumps(told).encode()


def _read(value: bytes) -> dict[Use, _Needs]:
    """What a broker said; nothing, where it cannot be read."""
    try:
        told = json.loads(value)
        return {use: _needs_of(told[use.value]) for use in Use}
    except (ValueError, KeyError, TypeError, OverflowError):
        return dict.fromkeys(Use, _NOTHING)


def _needs_of(told: Mapping[str, Any]) -> _Needs:
    messages, size = (min(max(0, int(told[what])), INT64_MAX) for what in ("messages", "bytes"))
    return messages, size, bool(told["waiting"])
