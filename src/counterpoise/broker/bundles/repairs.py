"""Ownership repair by the leader: of bundles of dead brokers, and of changes that never ended."""

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Any, Final

from counterpoise import metadata
from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.base.clock import wall_clock_ms
from counterpoise.broker.bundles.placement import Placer
from counterpoise.broker.bundles.records import record_paths
from counterpoise.broker.bundles.tally import FAILURE, SKIP, SUCCESS, BundleTally
from counterpoise.broker.load.registry import BrokerRegistry
from counterpoise.broker.namespaces.policies import Policies
from counterpoise.metadata.cache import MetadataCache
from counterpoise.metadata.errors import BadVersion, NotFound
from counterpoise.metadata.listeners import follow
from counterpoise.names.bundle import BundleName
from counterpoise.names.callbacks import MillisecondClock, StopListening
from counterpoise.names.namespace import SYSTEM_NAMESPACE, NamespaceName
from counterpoise.ownership.port import BundleProtocol, Repair

log = logging.getLogger(__name__)

RETRY_S: Final = 1.0
"""Seconds between the write of an invalid record and its repair."""


class OwnershipRepairs:
    """On the leader, repairs bundles' records: at an interval, and whenever a broker joins or
    leaves.

    It acts only while the leader's own session is healthy: a broker whose session was interrupted a
    moment ago may not see brokers that are alive.
    """

    def __init__(
        self,
        store: metadata.MetadataStore,
        protocol: BundleProtocol[Any],
        registry: BrokerRegistry,
        placer: Placer,
        *,
        leads: Callable[[], bool],
        every_s: float,
        at_once: Callable[[], int],
        wary_s: float,
        background: BackgroundTasks,
        namespaces: Policies,
        tally: BundleTally | None = None,
        clock_ms: MillisecondClock = wall_clock_ms,
    ) -> None:
        """``every_s``: seconds between checks; ``at_once``: how many bundles are repaired in
        parallel.

        ``wary_s``: for how many seconds after a lost session this broker repairs nothing.
        """
        self._store = store
        self._protocol = protocol
        self._registry = registry
        self._placer = placer
        self._leads = leads
        self._every_s = every_s
        self._at_once = at_once
        self._wary_s = wary_s
        self._background = background
        self._namespaces = namespaces
        self._clock_ms = clock_ms
        self._tally = tally or BundleTally()
        self._due = asyncio.Event()
        self._news = asyncio.Event()
        self._written: Final[set[str]] = set()
        """Paths of the records written since they were last checked, while this broker leads."""
        self._missing: set[NamespaceName] = set()
        """Namespaces that the last check did not find."""
        self._wary_until = 0.0
        self._sound = True
        self._values = {root: MetadataCache(store, root, lambda v: v) for root in protocol.roots}
        self._unsubscribe: StopListening | None = None
        self.repaired = 0
        """How many bundles this broker has repaired."""

    def start(self) -> None:
        """Start checking. Does nothing under lock and redirect, whose locks need no repair."""
        if not self._protocol.changes_by_record:
            return
        self._unsubscribe = follow(self._store, self._on_change, self._on_session)
        self._background.keep("ownership repairs", self._run)
        self._background.keep("checks of bundles' records", self._watch)

    def check_soon(self) -> None:
        """Check now, because bundles may have lost their owner."""
        self._due.set()

    def close(self) -> None:
        """Stop checking, and stop listening to the metadata store."""
        if self._unsubscribe is not None:
            self._unsubscribe()
        for values in self._values.values():
            values.close()

    async def repair_all(self) -> list[Repair]:
        """Repair all records that need it; returns the repairs. Raises `MetadataError`."""
        if not self._leads() or not self._is_sound():
            return []
        active = await self._registry.active()
        paths = await self._paths()
        found = (
            *self._protocol.repairs(
                {name: value for name, (_, value) in paths.items()}, active, self._clock_ms()
            ),
            *await self._of_no_namespace(paths, active),
        )
        gate = asyncio.Semaphore(self._at_once())

        async def repair_all(repair: Repair) -> None:
            async with gate:
                await self._repair(repair, *paths[repair.bundle])

        await asyncio.gather(*map(repair_all, found))
        return list(found)

    async def _of_no_namespace(
        self, bundles: Collection[str], active: Collection[str]
    ) -> list[Repair]:
        """Repairs for bundles whose namespace was missing both at this check and at the one before.

        Once is not enough: the store may not yet show a namespace that was just created.
        """
        names = {BundleName.parse(bundle).namespace for bundle in bundles}
        known = {SYSTEM_NAMESPACE}
        for tenant in sorted({name.tenant for name in names}):
            known |= {*await self._namespaces.namespaces(tenant)}
        missing = {name for name in names - known if name.bound_broker not in active}
        still, self._missing = missing & self._missing, missing
        why = "its namespace does not exist"
        return [
            Repair(bundle, why, remove=True)
            for bundle in bundles
            if BundleName.parse(bundle).namespace in still
        ]

    async def _repair(self, repair: Repair, path: str, judged: bytes) -> None:
        stored = await self._store.get(path)
        if stored is None or not self._leads() or not self._is_sound():
            return
        if stored.value != judged:
            return  # It was written since, and the notification is on its way.
        try:
            if repair.remove:
                await self._store.delete(path, expected_version=stored.version)
            else:
                successor = await self._placer.choose(BundleName.parse(repair.bundle))
                value = self._protocol.repaired(stored.value, successor, self._clock_ms())
                await self._store.put(path, value, expected_version=stored.version)
                log.warning(
                    "%s goes to %s: %s", repair.bundle, successor or "no broker", repair.why
                )
        except (BadVersion, NotFound):
            return  # It was written or removed since.
        self.repaired += 1
        self._tally.repaired(removed=repair.remove)

    async def _paths(self) -> dict[str, tuple[str, bytes]]:
        """The path and value of every bundle's record, by the bundle's name."""
        found: dict[str, tuple[str, bytes]] = {}
        for path, name in (await record_paths(self._store, self._protocol)).items():
            root = next(each for each in self._values if path.startswith(each))
            value = await self._values[root].get(path)
            if value is not None:
                found[name] = path, value
        return found

    def _is_sound(self) -> bool:
        return self._sound and asyncio.get_running_loop().time() >= self._wary_until

    def _pause_s(self) -> float:
        """Seconds until the next check, if nothing happens before; after a lost session, no longer
        than repairs are suspended.
        """
        left_s = self._wary_until - asyncio.get_running_loop().time()
        return min(left_s, self._every_s) if left_s > 0 else self._every_s

    def _on_change(self, notification: metadata.Notification) -> None:
        gone = notification.kind is metadata.NotificationKind.DELETED
        if self._registry.concerns(notification.path):
            # A broker that comes or goes; a modified node is a load report.
            if notification.kind is not metadata.NotificationKind.MODIFIED:
                self._due.set()
        elif not gone and self._leads() and self._protocol.bundle_of(notification.path):
            self._written.add(notification.path)
            self._news.set()

    def _on_session(self, event: metadata.SessionEvent) -> None:
        self._sound = event in (
            metadata.SessionEvent.RECONNECTED,
            metadata.SessionEvent.SESSION_REESTABLISHED,
        )
        if event is metadata.SessionEvent.SESSION_REESTABLISHED:
            self._wary_until = asyncio.get_running_loop().time() + self._wary_s
        if self._sound:
            # A broker may have left unnoticed while the session was interrupted.
            self._due.set()

    async def _watch(self) -> None:
        """Check each record when it is written; repair an invalid one after `RETRY_S`."""
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                suspect = await self._is_suspect()
            except metadata.MetadataError as error:
                log.warning("records of bundles could not be checked: %s", error)
                suspect = True
            if suspect:
                # A broker that has just registered may not be known here yet.
                await asyncio.sleep(RETRY_S)
                self._due.set()

    async def _is_suspect(self) -> bool:
        written = [*self._written]
        self._written.clear()
        active, now_ms = await self._registry.active(), self._clock_ms()
        for path in written:
            root = next(each for each in self._values if path.startswith(each))
            value, name = await self._values[root].get(path), self._protocol.bundle_of(path)
            if value is None or name is None:
                continue
            if self._protocol.is_unbelievable(name, value, active, now_ms):
                return True
        return False

    async def _run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._pause_s()):
                    await self._due.wait()
            except TimeoutError:
                pass
            is_due = self._due.is_set()
            self._due.clear()
            try:
                acts = self._leads() and self._is_sound()
                await self.repair_all()
                if is_due:
                    self._tally.cleanups[SUCCESS if acts else SKIP] += 1
            except metadata.MetadataError as error:
                self._tally.cleanups[FAILURE] += 1
                log.warning("bundles without an owner are looked for later: %s", error)
