"""Resource groups: limits that all brokers share for all namespaces of a group.

Every `RateOptions.share_interval_s` each broker that serves a group publishes its usage, and
whether producers had to wait, in an ephemeral node of its own. Every broker computes the shares
from those nodes by the same function (`quota.shares`). So there is no leader, the share of a dead
broker is divided once its session ends, and a broker that reads late is late by one interval.

Deliveries of a group are limited and shared as well; Pulsar 4.0.7 counts them, and does not limit
them.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from counterpoise.broker.base import paths
from counterpoise.broker.limits.publish import PublishLimits
from counterpoise.broker.limits.rates import Rate, Use, group_rate
from counterpoise.metadata import BadVersion, MetadataStore, NotFound, StoreUnavailable
from counterpoise.metadata.cache import MetadataCache
from counterpoise.metadata.own_node import put_own
from counterpoise.names.callbacks import NanosecondClock
from counterpoise.names.options import INT64_MAX
from counterpoise.quota import SECOND_NS, GroupUsage, RateLimit, shares

log = logging.getLogger(__name__)

WAITING: Final = 0.05
"""A broker on which a limit was reached for more than this fraction of an interval could use a
larger share."""
CHANGE: Final = 0.02
"""A usage is reported again only if it changed by more than this fraction."""


class GroupSource(Protocol):
    """Reads resource groups from the metadata store."""

    async def resource_group(self, name: str) -> Mapping[str, Any] | None:
        """A group's definition (``ResourceGroup``); None if there is none."""


_NO_RATE: Final = Rate()


_Needs = tuple[int, int, bool]
"""Messages/s and bytes/s that passed at one broker, and whether anything had to wait there."""
_NOTHING: Final[_Needs] = (0, 0, False)
_NEWCOMER: Final[_Needs] = (0, 0, True)
_Uses = Mapping[Use, _Needs]


@dataclass(slots=True)
class _GroupUse:
    """How much this broker uses of a resource group's limit, for publishing or for delivery."""

    rate: Rate = _NO_RATE
    messages_seen: int = 0
    bytes_seen: int = 0
    waited_ns: int = 0


class _Group:
    """One resource group at this broker: its definition, and this broker's use of it."""

    __slots__ = ("is_read", "is_reported", "readers", "uses")

    def __init__(self) -> None:
        self.uses = {use: _GroupUse() for use in Use}
        self.is_read = False
        """Whether its definition was read, so that its limit holds here."""
        self.readers = 0
        """How many topics that are being loaded wait until the definition is read."""
        self.is_reported = False
        """Whether this broker has a node that reports its use."""

    @property
    def limited(self) -> bool:
        """Whether the group has a limit."""
        return any(side.rate for side in self.uses.values())


class ResourceGroupShares:
    """Sets this broker's share of the rates of each resource group that its topics are in."""

    def __init__(
        self,
        broker: str,
        store: MetadataStore,
        source: GroupSource,
        publish: PublishLimits,
        interval_s: Callable[[], float],
        clock_ns: NanosecondClock,
    ) -> None:
        self._broker = broker
        self._store = store
        self._source = source
        self._publish = publish
        self._interval_s = interval_s
        self._now = clock_ns
        self._groups: dict[str, _Group] = {}
        self._usages = MetadataCache(store, f"{paths.RESOURCE_USAGE}/", _read)
        self._measured = clock_ns()
        self._busy = asyncio.Event()

    async def know(self, name: str) -> None:
        """Set a group's limits on this broker, before a topic of the group is loaded."""
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = _Group()
            self._busy.set()
        if group.is_read:
            return
        group.readers += 1
        try:
            await self.refresh(name)
            group.is_read = True
        finally:
            # If that failed, the next topic reads it again, or the next round forgets the group.
            group.readers -= 1

    async def refresh(self, name: str) -> None:
        """Read a group's definition again, if a topic of this broker is in it."""
        group = self._groups.get(name)
        if group is None:
            return
        found = await self._source.resource_group(name)
        if self._groups.get(name) is not group:
            return  # Its last topic has left meanwhile.
        for use, side in group.uses.items():
            side.rate = group_rate(found, use)
        reported = await self._reported(name) if group.limited else {}
        if group.limited and self._broker not in reported:
            # The other brokers must share the rate with this one before its first entry passes.
            reported = await self._report(name, group, reported, dict.fromkeys(Use, _NEWCOMER))
        self._divide(name, group, reported)

    @property
    def names(self) -> list[str]:
        """The groups that this broker's topics are in."""
        return sorted(self._groups)

    def close(self) -> None:
        """Stop following what the other brokers report."""
        self._usages.close()

    async def run(self) -> None:
        """Call `round` at every interval, until cancelled."""
        while True:
            await self._busy.wait()
            await asyncio.sleep(self._interval_s())
            try:
                await self.round()
            except StoreUnavailable as error:
                # The shares stay as they are; the next round reports what has changed.
                log.warning("resource groups: usage was not shared: %s", error)

    async def round(self) -> None:
        """Publish this broker's use of each group since the last round, and apply new shares."""
        now = self._now()
        seconds = max(1e-3, (now - self._measured) / SECOND_NS)
        self._measured = now
        served = self._served()
        for name, group in list(self._groups.items()):
            if name not in served:
                await self._leave(name)
                continue
            if group.limited:
                needs = {use: self._measure(name, use, group, seconds, now) for use in Use}
                reported = await self._reported(name)
                if _differs(reported.get(self._broker), needs):
                    reported = await self._report(name, group, reported, needs)
                self._divide(name, group, reported)
            elif group.is_reported:
                await self._withdraw(name, group)

    def _limit(self, name: str, use: Use) -> RateLimit | None:
        limits = self._publish
        return limits.group(name) if use is Use.PUBLISH else limits.dispatch.group(name)

    def _measure(self, name: str, use: Use, group: _Group, seconds: float, now: int) -> _Needs:
        limit, side = self._limit(name, use), group.uses[use]
        if limit is None:
            return _NOTHING
        messages = round((limit.passed_messages - side.messages_seen) / seconds)
        size = round((limit.passed_bytes - side.bytes_seen) / seconds)
        waited = limit.waited_ns(now)
        waiting = waited - side.waited_ns > WAITING * seconds * SECOND_NS
        side.messages_seen, side.bytes_seen = limit.passed_messages, limit.passed_bytes
        side.waited_ns = waited
        return messages, size, waiting

    async def _reported(self, name: str) -> dict[str, _Uses]:
        """Return what each broker published last, by its id; only brokers that have published."""
        parent = paths.group_usages(name)
        brokers = await self._store.children(parent)
        read = {who: await self._usages.get(f"{parent}/{who}") for who in brokers}
        return {who: uses for who, uses in read.items() if uses is not None}

    async def _report(
        self, name: str, group: _Group, reported: Mapping[str, _Uses], needs: _Uses
    ) -> dict[str, _Uses]:
        """Publish this broker's use of a group; returns what all brokers have published."""
        group.is_reported = True
        await put_own(self._store, paths.group_usage(name, self._broker), _written(needs))
        if self._groups.get(name) is not group:
            # The group's last topic has left meanwhile: no round would remove the report.
            await self._withdraw(name, group)
        return {**reported, self._broker: needs}

    def _divide(self, name: str, group: _Group, reported: Mapping[str, _Uses]) -> None:
        if self._groups.get(name) is group:
            for use, side in group.uses.items():
                needs = {who: uses[use] for who, uses in reported.items()}
                self._set_rate(name, use, _part(self._broker, side.rate, needs))

    def _set_rate(self, name: str, use: Use, rate: Rate) -> None:
        if use is Use.PUBLISH:
            self._publish.set_group_rate(name, rate)
        else:
            self._publish.dispatch.set_group_rate(name, rate)

    async def _leave(self, name: str) -> None:
        """Withdraw from a group without topics here; if that fails, the next round tries again."""
        group = self._groups[name]
        await self._withdraw(name, group)
        if group.is_reported or group.readers or name in self._served():
            return  # It was reported again meanwhile, or a topic of the group was loaded.
        del self._groups[name]
        if not self._groups:
            self._busy.clear()
        for use in Use:
            self._set_rate(name, use, Rate())

    async def _withdraw(self, name: str, group: _Group) -> None:
        if not group.is_reported:
            return
        group.is_reported = False
        try:
            with contextlib.suppress(NotFound, BadVersion):
                await self._store.delete(paths.group_usage(name, self._broker))
        except BaseException:
            group.is_reported = True
            raise

    def _served(self) -> set[str | None]:
        """Return the resource groups of the loaded topics; None among them if a topic has none."""
        return {self._publish.group_of(topic) for topic in self._publish.topics}


def _part(broker: str, rate: Rate, reported: Mapping[str, _Needs]) -> Rate:
    """This broker's share of a group's rate, by the use that all brokers published."""
    parts = []
    for index, limit in enumerate((rate.messages, rate.size)):
        needs = {who: GroupUsage(need[index], need[2]) for who, need in reported.items()}
        parts.append(shares(limit, needs)[broker] if limit else 0)
    return Rate(parts[0], parts[1])


def _differs(reported: _Uses | None, now: _Uses) -> bool:
    return reported is None or any(_differ(reported[use], now[use]) for use in Use)


def _differ(reported: _Needs, now: _Needs) -> bool:
    if reported[2] != now[2]:
        return True
    return any(abs(a - b) > CHANGE * max(a, b) for a, b in zip(reported[:2], now[:2], strict=True))


def _written(needs: _Uses) -> bytes:
    report = {
        use.value: {"messages": messages, "bytes": size, "waiting": waiting}
        for use, (messages, size, waiting) in needs.items()
    }
    return json.dumps(report).encode()


def _read(value: bytes) -> _Uses:
    """Parse what a broker published; zero use, without waiting, if it is unreadable."""
    try:
        report = json.loads(value)
        return {use: _needs_of(report[use.value]) for use in Use}
    except (ValueError, KeyError, TypeError, OverflowError):
        return dict.fromkeys(Use, _NOTHING)


def _needs_of(report: Mapping[str, Any]) -> _Needs:
    messages, size = (min(max(0, int(report[what])), INT64_MAX) for what in ("messages", "bytes"))
    return messages, size, bool(report["waiting"])
