"""Polls a cluster: asks every listed broker for its load, in the way of its load manager.

A poll makes a row about the cluster's list of brokers, and for each broker either the rows of its
report or one row with the reason why it cannot be read.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import aiohttp
import orjson

from counterpoise.load.fields import LoadDataError
from counterpoise.load.freshness import Taken, take
from counterpoise.load.measured import Measured
from counterpoise.load.poll_rows import Fetched, Gap, poll_rows
from counterpoise.load.rows import POLL, ReportRows
from counterpoise.names.callbacks import MillisecondClock
from counterpoise.names.load_managers import EXTENSIBLE
from counterpoise.names.namespace import is_left_in_place
from counterpoise.pipeline.bundle_lookup import name_in
from counterpoise.pipeline.collect import extensible, modular
from counterpoise.pipeline.collect.admin import UNREADABLE, Admin, AdminOptions, RefusedError
from counterpoise.pipeline.collect.beside import Beside, Hung
from counterpoise.pipeline.collect.identity import UNSUPPORTED, Identity, identify
from counterpoise.pipeline.collect.serving import CHANNEL_NOT_STARTED, channel_fault, lookup_fault
from counterpoise.pipeline.collect.topic_loads import TopicLoadReader
from counterpoise.pipeline.collect.where import is_broker, web_address
from counterpoise.pipeline.collect.words import error_text, line


class ClusterUnreachableError(ConnectionError):
    """None of the cluster's addresses responded; the message has the error of each."""


@dataclass(slots=True)
class _Known:
    """What the collector remembers of a broker between two polls."""

    identity: Identity
    taken: Taken | None = None
    topics: Measured | None = None
    """Under the extensible manager: the last report, which was parsed from `body`."""
    body: bytes = b""
    usage_ms: int = 0
    """Under the extensible manager: when its host's usage was last read, by a costly request."""


class Collector:
    """Polls a cluster's brokers for their load; recognises reports that it has read before.

    `addresses` are admin URLs, tried in turn, then those of brokers found at the last poll; the one
    that listed the brokers last is tried first. Responses are parsed in a thread, so that a large
    cluster does not block the event loop. With `keeps_topic_loads`, one report of each broker in
    half an hour has the loads of its topics.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        addresses: Sequence[str],
        clock_ms: MillisecondClock,
        *,
        after_poll: int = 0,
        options: AdminOptions | None = None,
        keeps_topic_loads: bool = False,
    ) -> None:
        options = options or AdminOptions()
        self._admin = Admin(session, options)
        self._aside = self._admin.aside
        self._beside = Beside(self._seen_aside, self._admin.timeout_s, clock_ms)
        self._listed_by = ""
        self._addresses = tuple(url.rstrip("/") for url in addresses)
        self._clock_ms = clock_ms
        self._last_poll = after_poll
        self._known: dict[str, _Known] = {}
        self._in_use = ""
        # One thread: more would only contend with each other and the event loop for the GIL.
        self._parsers = ThreadPoolExecutor(1, "parse-reports")
        self._topic_loads = (
            TopicLoadReader(self._aside, self._parsers) if keeps_topic_loads else None
        )

    async def poll(self) -> ReportRows:
        """Ask all brokers for their load, and return the rows of the poll.

        If a broker or the cluster does not respond, nothing is raised: a row has the reason.
        """
        self._last_poll = poll_id = max(self._clock_ms(), self._last_poll + 1)
        began = asyncio.get_running_loop().time()
        try:
            brokers = await self._brokers()
        except ClusterUnreachableError as error:
            return await self._rows(poll_id, str(error), [])
        self._known = {name: known for name, known in self._known.items() if name in brokers}
        self._in_use = in_use = self.name_in_use()
        self._beside.keep(brokers)
        if self._topic_loads is not None:
            self._topic_loads.keep(brokers)
        those = self._in_turn(broker for broker in brokers if broker not in self._beside)
        seen = await asyncio.gather(*(self._seen(broker, self._admin) for broker in those))
        fetched = await self._beside.answers(began)
        for broker, answer in zip(those, seen, strict=True):
            fetched.append(self._answered(broker, answer))
        if not in_use and (found := self.name_in_use()):
            # In the first poll no bundle with load was known yet when the brokers were asked.
            fetched = await asyncio.gather(*(self._checked(each, found) for each in fetched))
        fetched.sort(key=lambda one: one.broker)
        return await self._rows(poll_id, "", fetched)

    def name_in_use(self) -> str:
        """A topic name in a bundle with load, under the extensible manager; empty if none is known.

        A lookup of it changes nothing: the bundle has an owner, or clients are looking for one.
        """
        for known in self._known.values():
            if known.topics is not None and not known.topics.idle:
                bundles = known.topics.bundles
                for bundle in bundles["bundle"][bundles["msg_rate_in"] > 0].tolist():
                    if not is_left_in_place(bundle.rpartition("/")[0]):
                        return name_in(bundle)
        return ""

    def _in_turn(self, brokers: Iterable[str]) -> list[str]:
        """Sort brokers: those that were slow last time first, since asked last they would delay
        the poll.
        """
        slow = self._admin.slow()
        return sorted(brokers, key=lambda broker: (self._address(broker) not in slow, broker))

    def close(self) -> None:
        """Cancel the pending requests to brokers."""
        self._beside.keep(())
        if self._topic_loads is not None:
            self._topic_loads.keep(())

    async def brokers(self) -> tuple[str, ...]:
        """The ids of the cluster's brokers; raises `ClusterUnreachableError`."""
        return tuple(sorted(await self._brokers()))

    async def look_at(self, broker: str) -> ReportRows:
        """Poll this broker alone, and return its rows."""
        self._last_poll = poll_id = max(self._clock_ms(), self._last_poll + 1)
        seen = self._answered(broker, await self._seen(broker, self._admin))
        rows = await self._rows(poll_id, "", [seen])
        return rows.take(rows["kind"] != POLL)

    async def _rows(self, poll_id: int, trouble: str, fetched: Sequence[Fetched]) -> ReportRows:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._parsers, poll_rows, poll_id, trouble, fetched)

    def _address(self, broker: str) -> str:
        return web_address(broker, self._addresses)

    async def _brokers(self) -> frozenset[str]:
        refusals = []
        known = (self._address(broker) for broker in sorted(self._known))
        first = (self._listed_by,) if self._listed_by else ()
        for address in dict.fromkeys((*first, *self._addresses, *known)):
            try:
                listed = orjson.loads(await self._admin.get(f"{address}/admin/v2/brokers"))
            except (*UNREADABLE, orjson.JSONDecodeError) as error:
                refusals.append(f"{address}: {error_text(error)}")
                continue
            if isinstance(listed, list):
                self._listed_by = address
                return frozenset(line(str(broker)) or "(no name)" for broker in listed)
            refusals.append(f"{address}: the list of brokers is not a list")
        raise ClusterUnreachableError("; ".join(refusals))

    async def _seen(self, broker: str, admin: Admin) -> Fetched | Hung:
        """A broker's report; if it cannot be read, the reason: a `Gap` or a `Hung`."""
        serving = asyncio.create_task(
            lookup_fault(admin, self._address(broker), broker, self._in_use)
        )
        try:
            measured = await self._measured(broker, admin)
            if fault := await serving:
                if fault == CHANNEL_NOT_STARTED:  # it answered at once, so it does not hang
                    return Fetched(broker, self._clock_ms(), Gap(fault))
                return Hung(fault, fault)
        except TimeoutError:
            return Hung(f"no answer within {self._admin.timeout_s:g} s")
        except (*UNREADABLE, LoadDataError) as error:
            return Fetched(broker, self._clock_ms(), Gap(error_text(error)))
        finally:
            serving.cancel()
        at_ms, known = self._clock_ms(), self._known[broker]
        known.taken, fresh = take(known.taken, measured, at_ms, known.identity.stats_every_ms)
        if fresh and self._topic_loads is not None:
            body = known.body if known.identity.extensible else b""
            measured = await self._topic_loads.add_to_report(
                broker, self._address(broker), measured, at_ms, body
            )
        return Fetched(
            broker, at_ms, measured, fresh, known.taken.reported_ms or known.taken.taken_ms
        )

    async def _checked(self, seen: Fetched, in_use: str) -> Fetched:
        """Return a broker's answer, or a gap if its bundle state channel has not started."""
        if isinstance(seen.answer, Gap):
            return seen
        fault = await channel_fault(self._admin, self._address(seen.broker), in_use)
        return Fetched(seen.broker, seen.at_ms, Gap(fault)) if fault else seen

    def _answered(self, broker: str, seen: Fetched | Hung) -> Fetched:
        return self._beside.hung(broker, seen) if isinstance(seen, Hung) else seen

    async def _seen_aside(self, broker: str) -> Fetched | Hung:
        return await self._seen(broker, self._aside)

    async def _measured(self, broker: str, admin: Admin) -> Measured:
        if not is_broker(broker):
            raise RefusedError("it is listed by a name that is no host:port")
        address = self._address(broker)
        known = self._known.get(broker)
        if known is None:
            known = self._known[broker] = _Known(await identify(admin, address))
        if known.identity.extensible:
            return await self._by_topics(broker, address, known, admin)
        try:
            body = await modular.fetch(admin, address)
        except RefusedError as error:
            if UNSUPPORTED in error.body:
                # The broker runs another load manager than assumed, perhaps since a restart.
                known.identity = replace(known.identity, load_manager=EXTENSIBLE)
                return await self._by_topics(broker, address, known, admin)
            raise
        return await self._parsed(modular.parse, body, broker)

    async def _by_topics(self, broker: str, address: str, known: _Known, admin: Admin) -> Measured:
        body = await extensible.fetch_topics(admin, address)
        identity, now_ms = known.identity, self._clock_ms()
        recent = now_ms - known.usage_ms < identity.stats_every_ms
        if known.topics is not None and body == known.body and recent:
            return known.topics
        usage = await extensible.fetch_usage(admin, address)
        row = {
            **usage,
            "load_manager": identity.load_manager,
            "broker_version": identity.version,
            "web_service_url": address,
        }
        measured = await self._parsed(extensible.parse, body, broker, row)
        known.body, known.topics, known.usage_ms = body, measured, now_ms
        return measured

    async def _parsed(self, parse: Callable[..., Measured], *given: object) -> Measured:
        return await asyncio.get_running_loop().run_in_executor(self._parsers, parse, *given)
