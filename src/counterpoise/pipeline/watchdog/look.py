"""What a watchdog needs to see beside the load: owners, leaders, settings, the state channel."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import orjson

from counterpoise.decide.balancing.round import imbalance
from counterpoise.decide.watchdog.sight import Owned, Record, Sight
from counterpoise.load.rows import BROKER, BUNDLE, GAP, ReportRows
from counterpoise.pipeline.collect.admin import UNREADABLE, Admin, RefusedError
from counterpoise.pipeline.collect.shedder import settings_of
from counterpoise.pipeline.collect.where import web_address
from counterpoise.pipeline.collect.words import said
from counterpoise.pipeline.watchdog.careful import Careful, could_be_harmed

ReadChannel = Callable[[], Mapping[str, Record] | None]
"""Reads the bundle state channel of PIP-192, None when it cannot be; may take seconds, and is
called in a thread."""
TRUE = "true"


class Looker:
    """Turns polls into sights; asks each broker two questions more for each."""

    def __init__(
        self, admin: Admin, addresses: Sequence[str], read_channel: ReadChannel | None = None
    ) -> None:
        self._admin = admin
        self._addresses = addresses
        self._read_channel = read_channel
        self._cluster = ""
        self._careful = Careful()
        self._versions: dict[str, str] = {}

    @property
    def asks_late(self) -> bool:
        """Whether there are brokers that are asked only when nothing changes (`careful.py`)."""
        return bool(self._careful.fragile)

    async def sight(self, rows: ReportRows) -> Sight:
        """What there is to see at a poll. Who cannot be asked is silent; never raises for that."""
        those = rows["kind"] == BROKER
        answering = sorted(set(rows["broker"][those].tolist()))
        gaps = rows["kind"] == GAP
        silent = dict(zip(rows["broker"][gaps].tolist(), rows["note"][gaps].tolist(), strict=True))
        self._careful.take(rows)
        await self._know(rows)
        now_ms = int(rows["poll_id"][0])
        told = await asyncio.gather(*(self._asked(broker, now_ms) for broker in answering))
        owned: dict[str, Mapping[str, Owned]] = {}
        leaders: dict[str, str] = {}
        for broker, answer in zip(answering, told, strict=True):
            if isinstance(answer, str):
                silent[broker] = answer
            else:
                owned[broker], leaders[broker] = answer
        through = rows["msg_throughput_in"] + rows["msg_throughput_out"]
        bundles = rows["kind"] == BUNDLE
        records: Mapping[str, Record] | None = {}
        if self._read_channel is not None:
            records = await asyncio.to_thread(self._read_channel) if owned else None
        return Sight(
            now_ms=now_ms,
            brokers=tuple(sorted({*answering, *silent})),
            silent=silent,
            owned=owned,
            carried=dict(
                zip(rows["bundle"][bundles].tolist(), through[bundles].tolist(), strict=True)
            ),
            leaders=leaders,
            records=records,
            sheds=await self._sheds(next(iter(owned), "")),
            imbalance=imbalance(through[those].tolist()),
        )

    async def _know(self, rows: ReportRows) -> None:
        """Find out once of each broker whether it may be asked at any time."""
        those = rows["kind"] == BROKER
        for broker, manager in zip(rows["broker"][those], rows["load_manager"][those], strict=True):
            if broker in self._versions:
                continue
            url = f"{web_address(broker, self._addresses)}/admin/v2/brokers/version"
            try:
                self._versions[broker] = (await self._admin.get(url)).decode(errors="replace")
            except UNREADABLE:
                self._versions[broker] = ""
            if could_be_harmed(manager, self._versions[broker]):
                self._careful.fragile.add(broker)

    async def _asked(self, broker: str, now_ms: int) -> tuple[Mapping[str, Owned], str] | str:
        base = f"{web_address(broker, self._addresses)}/admin/v2/brokers"
        try:
            if (known := self._careful.known(broker, now_ms)) is not None:
                return known, await self._leader(base)
            cluster = quote(await self._cluster_of(broker))
            found = await self._json(f"{base}/{cluster}/{broker}/ownedNamespaces")
            owned = {
                str(bundle): Owned(bool((state or {}).get("is_active", True)))
                for bundle, state in (found or {}).items()
            }
            self._careful.told(broker, owned)
            return owned, await self._leader(base)
        except (*UNREADABLE, ValueError, AttributeError) as error:
            return said(error)

    async def _leader(self, base: str) -> str:
        try:
            found = await self._json(f"{base}/leaderBroker")
        except RefusedError as error:
            if error.status == 404:
                return ""
            raise
        named = str(found.get("brokerId") or found.get("serviceUrl") or "")
        return named.partition("://")[2] or named

    async def _cluster_of(self, broker: str) -> str:
        if not self._cluster:
            base = f"{web_address(broker, self._addresses)}/admin/v2"
            names = [each for each in await self._json(f"{base}/clusters") if each != "global"]
            for name in names:
                if len(names) == 1 or broker in await self._json(f"{base}/brokers/{quote(name)}"):
                    self._cluster = str(name)
        if not self._cluster:
            raise RefusedError("it does not say of which cluster it is")
        return self._cluster

    async def _sheds(self, broker: str) -> bool:
        if not broker:
            return False
        try:
            settings = await settings_of(self._admin, web_address(broker, self._addresses))
            names = ("loadBalancerEnabled", "loadBalancerSheddingEnabled")
            return all(str(settings.get(name, TRUE)).lower() == TRUE for name in names)
        except (*UNREADABLE, ValueError, AttributeError, TypeError):
            return False

    async def _json(self, url: str) -> Any:
        return orjson.loads(await self._admin.get(url))
