"""Reads what a watchdog needs besides the load: owners, leaders, settings, the state channel."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final

from counterpoise.decide.balancing.moves import imbalance
from counterpoise.decide.watchdog.observation import ChannelRecord, ClusterObservation
from counterpoise.load.rows import BROKER, BUNDLE, ReportRows
from counterpoise.pipeline.collect.admin import NOT_FOUND, UNREADABLE, Admin
from counterpoise.pipeline.collect.owned import Ownership, to_be_spared
from counterpoise.pipeline.collect.serving import CHANNEL_NOT_STARTED, SERVES_NO_LOOKUPS
from counterpoise.pipeline.collect.settings import leader_by, settings_of, sheds
from counterpoise.pipeline.collect.where import web_address
from counterpoise.pipeline.collect.words import error_text
from counterpoise.pipeline.watchdog.reported import Reported

ReadChannel = Callable[[], Mapping[str, ChannelRecord] | None]
"""Reads the bundle state channel of PIP-192.

Returns None if it cannot be read. It may take seconds, and is called in a thread."""
ASKED_MOST: Final = 64
"""The most namespaces that are read in one observation."""
Known = dict[str, Mapping[str, bool] | str]
"""By broker: its bundles, each with whether it is active, or the reason why they are not known."""


class Observer:
    """Makes the watchdog's observations from polls and a few further requests to each broker."""

    def __init__(
        self, admin: Admin, addresses: Sequence[str], read_channel: ReadChannel | None = None
    ) -> None:
        self._admin = admin
        self._addresses = addresses
        self._read_channel = read_channel
        self._ownership = Ownership(admin, partial(web_address, addresses=addresses))
        self._reported = Reported(self._ownership)

    async def observe(self, rows: ReportRows) -> ClusterObservation:
        """Make the observation that the watchdog judges at this poll; brokers that do not answer
        are listed as silent.
        """
        those = rows["kind"] == BROKER
        answering = sorted(set(rows["broker"][those].tolist()))
        silent = rows.silent
        self._reported.add_poll(rows)
        now_ms = int(rows["poll_id"][0])
        held, led = await asyncio.gather(
            self._owned(answering, rows), asyncio.gather(*map(self._leader_by, answering))
        )
        owned: dict[str, Mapping[str, bool]] = {}
        leaders: dict[str, str] = {}
        answered_s: dict[str, float] = {}
        for broker, (leader, refused, took_s) in zip(answering, led, strict=True):
            has = held[broker]
            if refused or isinstance(has, str):
                silent[broker] = refused or str(has)
            else:
                owned[broker], leaders[broker], answered_s[broker] = has, leader, took_s
        through = rows["msg_throughput_in"] + rows["msg_throughput_out"]
        bundles = rows["kind"] == BUNDLE
        records: Mapping[str, ChannelRecord] | None = {}
        if self._read_channel is not None:
            records = await asyncio.to_thread(self._read_channel) if owned else None
        return ClusterObservation(
            now_ms=now_ms,
            brokers=tuple(sorted({*answering, *silent})),
            silent=silent,
            without_lookups=frozenset(
                broker for broker, note in silent.items() if note == SERVES_NO_LOOKUPS
            ),
            starting=frozenset(
                broker for broker, note in silent.items() if note == CHANNEL_NOT_STARTED
            ),
            owned=owned,
            carried=dict(
                zip(rows["bundle"][bundles].tolist(), through[bundles].tolist(), strict=True)
            ),
            leaders=leaders,
            answered_s=answered_s,
            records=records,
            sheds=await self._sheds(next(iter(owned), "")),
            imbalance=imbalance(through[those].tolist()),
        )

    async def deleted(self, namespaces: Collection[str], broker: str) -> frozenset[str]:
        """Which of these namespaces (at most `ASKED_MOST`) do not exist, according to a broker."""
        base = f"{web_address(broker, self._addresses)}/admin/v2/namespaces"
        chosen = sorted(namespaces)[:ASKED_MOST]
        found = await asyncio.gather(*(self._is_deleted(f"{base}/{each}") for each in chosen))
        return frozenset(each for each, gone in zip(chosen, found, strict=True) if gone)

    async def _is_deleted(self, url: str) -> bool:
        try:
            return (await self._admin.ask(f"{url}/bundles", redirects=True)).status == NOT_FOUND
        except UNREADABLE:
            return False

    async def _owned(self, brokers: Sequence[str], rows: ReportRows) -> Known:
        """The bundles that each of these brokers owns, or the reason why it does not answer."""
        spared = to_be_spared(rows)
        known: Known = {}
        if spared:
            by_bundle, silent = await self._reported.owned(brokers, int(rows["poll_id"][0]))
            known = {each: by_bundle.get(each, silent.get(each, "")) for each in spared}
        free = [each for each in brokers if each not in spared]
        listed, missing = await self._ownership.listed(free)
        return {**known, **listed, **missing}

    async def _leader_by(self, broker: str) -> tuple[str, str, float]:
        """Ask a broker for the leader: its id (empty for none), the error if the broker did not
        answer, and the seconds that it took.
        """
        clock = asyncio.get_running_loop().time
        began, leader, refused = clock(), "", ""
        try:
            leader = await leader_by(self._admin, web_address(broker, self._addresses))
        except UNREADABLE as error:
            refused = error_text(error)
        return leader, refused, clock() - began

    async def _sheds(self, broker: str) -> bool:
        if not broker:
            return False
        try:
            return sheds(
                (await settings_of(self._admin, web_address(broker, self._addresses))).values
            )
        except UNREADABLE:
            return False
