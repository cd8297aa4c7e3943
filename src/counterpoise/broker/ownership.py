"""Which bundles this broker owns: runs one lock machine of `counterpoise.ownership` a bundle."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Final, Protocol

from counterpoise.broker import paths
from counterpoise.broker.metadata_cache import MetadataCache
from counterpoise.metadata import (
    BadVersion,
    MetadataStore,
    NodeError,
    Notification,
    NotificationKind,
    SessionEvent,
    StoreUnavailable,
)
from counterpoise.metadata.port import MUST_NOT_EXIST
from counterpoise.names.bundle import BundleName
from counterpoise.names.errors import InvalidName
from counterpoise.ownership import lock as locks
from counterpoise.ownership.records import NamespaceEphemeralData

log = logging.getLogger(__name__)


class Drain(Protocol):
    """Closes the topics of a bundle."""

    async def __call__(self, bundle: BundleName, destination: str | None) -> None:
        """Close them and send their clients to a broker, if one is named."""
        ...


class BundleOwnership:
    """The ownership locks of one broker.

    Records of one bundle are taken one after another, each with all that follows from it.
    """

    def __init__(
        self, store: MetadataStore, me: NamespaceEphemeralData, drain: Drain, *, expect_s: float
    ) -> None:
        self._store = store
        self._me = me
        self._drain = drain
        self._expect_s = expect_s
        self._locks: Final[dict[BundleName, locks.BundleLock]] = {}
        self._turns: Final[dict[BundleName, asyncio.Lock]] = {}
        self._waiting: Final[dict[BundleName, list[asyncio.Future[None]]]] = {}
        self._heirs: Final[dict[BundleName, str]] = {}
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._owners = MetadataCache(store, paths.OWNERSHIP + "/", NamespaceEphemeralData.from_json)
        self._unsubscribe = (
            store.subscribe(self._on_change),
            store.subscribe_session(self._on_session),
        )

    # What others ask.

    def serves(self, bundle: BundleName) -> bool:
        """Whether topics of the bundle may be opened here now."""
        held = self._locks.get(bundle)
        return held is not None and held.serves

    def settling(self, bundle: BundleName) -> bool:
        """Whether it will be known in a moment that the bundle is served here."""
        held = self._locks.get(bundle)
        return held is not None and held.settling

    def owned(self) -> list[BundleName]:
        """The bundles served here, sorted."""
        return sorted(bundle for bundle, held in self._locks.items() if held.serves)

    def heir(self, bundle: BundleName) -> str | None:
        """The broker that the last owner named as its successor, if none has come since."""
        return self._heirs.get(bundle)

    async def owner(self, bundle: BundleName) -> NamespaceEphemeralData | None:
        """Who holds the lock, by the store's word; raises `StoreUnavailable`."""
        found = await self._owners.get(paths.bundle_lock(bundle))
        if found is not None and found.destination is not None:
            self._heirs[bundle] = found.destination
        return found

    async def changed(self, bundle: BundleName, timeout_s: float) -> None:
        """Wait until something happens to the bundle, or the time is over."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(bundle, []).append(future)
        await asyncio.wait([future], timeout=timeout_s)

    # What others order.

    async def acquire(self, bundle: BundleName) -> bool:
        """Try to own a bundle; False when somebody else does."""
        await self._feed(bundle, locks.Acquire())
        return self.serves(bundle)

    async def expect(self, bundle: BundleName) -> None:
        """Get ready to take a bundle over from its present owner."""
        await self._feed(bundle, locks.Expect())
        asyncio.get_running_loop().call_later(self._expect_s, self._spawn, bundle, locks.GiveUp())

    async def release(self, bundle: BundleName, destination: str | None) -> None:
        """Drain a bundle and let go of it, towards a broker if one is named."""
        await self._feed(bundle, locks.Release(destination))

    async def replaced(self, bundle: BundleName) -> None:
        """Let go of a bundle whose parts this broker owns."""
        await self._feed(bundle, locks.Replaced())

    def close(self) -> None:
        """Stop listening and acting; the locks go with the session."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        self._owners.close()
        for task in self._tasks:
            task.cancel()

    # How the machine runs.

    async def _feed(self, bundle: BundleName, record: object) -> None:
        async with self._turns.setdefault(bundle, asyncio.Lock()):
            pending: list[object] = [record]
            while pending:
                before = self._locks.get(bundle) or locks.BundleLock(self._me.broker_id)
                after, effects = locks.advance(before, pending.pop(0))
                if after.phase is locks.Phase.FREE:
                    self._locks.pop(bundle, None)
                else:
                    self._locks[bundle] = after
                if after != before:
                    log.debug("%s: %s", bundle, after.phase.value)
                    self._wake(bundle)
                for effect in effects:
                    answer = await self._carry_out(bundle, effect)
                    if answer is not None:
                        pending.append(answer)

    async def _carry_out(self, bundle: BundleName, effect: object) -> object | None:
        match effect:
            case locks.CreateLock():
                return await self._create(bundle)
            case locks.MarkLock(destination):
                await self._write(bundle, self._me.draining(destination))
                return locks.Marked()
            case locks.UnmarkLock():
                written = await self._write(bundle, self._me)
                return locks.LockCreated() if written else locks.LockTaken()
            case locks.Drain(destination):
                await self._drain(bundle, destination)
                return locks.Drained()
            case locks.DeleteLock():
                await self._delete(bundle)
                return locks.LockDeleted()
            case locks.ReadLock():
                return await self._look(bundle)
            case locks.DropTopics():
                log.warning("%s is owned by another broker now: closing its topics", bundle)
                await self._drain(bundle, None)
        return None

    async def _create(self, bundle: BundleName) -> object:
        path, value = paths.bundle_lock(bundle), self._me.to_json()
        try:
            for _ in range(2):
                try:
                    await self._store.put(
                        path, value, expected_version=MUST_NOT_EXIST, ephemeral=True
                    )
                except BadVersion:
                    if not await self._clear_own(path):
                        break
                else:
                    return locks.LockCreated()
        except StoreUnavailable as error:
            log.warning("%s was not acquired: %s", bundle, error)
        finally:
            self._owners.forget(path)
        return locks.LockTaken()

    async def _clear_own(self, path: str) -> bool:
        """Remove a lock in our way that is ours, or that our former life left behind."""
        stored = await self._store.get(path)
        if stored is None:
            return True
        held_by = NamespaceEphemeralData.from_json(stored.value).broker_id
        if not stored.mine and held_by != self._me.broker_id:
            return False
        try:
            await self._store.delete(path, expected_version=stored.version)
        except NodeError:
            log.debug("%s changed while it was replaced", path)
        return True

    async def _write(self, bundle: BundleName, value: NamespaceEphemeralData) -> bool:
        path = paths.bundle_lock(bundle)
        try:
            stored = await self._store.get(path)
            if stored is None or not stored.mine:
                return False
            await self._store.put(path, value.to_json(), expected_version=stored.version)
        except (BadVersion, StoreUnavailable) as error:
            log.warning("the lock of %s was not updated: %s", bundle, error)
            return False
        finally:
            self._owners.forget(path)
        return True

    async def _delete(self, bundle: BundleName) -> None:
        path = paths.bundle_lock(bundle)
        try:
            stored = await self._store.get(path)
            if stored is not None and stored.mine:
                await self._store.delete(path, expected_version=stored.version)
        except (NodeError, StoreUnavailable) as error:
            log.warning("the lock of %s was not deleted: %s", bundle, error)
        finally:
            self._owners.forget(path)

    async def _look(self, bundle: BundleName) -> object | None:
        try:
            stored = await self._store.get(paths.bundle_lock(bundle))
        except StoreUnavailable:
            return None  # The session's return will raise the doubt again.
        return locks.LockSeen(exists=stored is not None, mine=stored is not None and stored.mine)

    # What the store tells.

    def _on_change(self, notification: Notification) -> None:
        bundle = _bundle_at(notification.path)
        if bundle is None:
            return
        if notification.kind is NotificationKind.CREATED:
            self._heirs.pop(bundle, None)
        elif notification.kind is NotificationKind.DELETED and bundle in self._locks:
            self._spawn(bundle, locks.LockVanished())
        elif notification.kind is NotificationKind.MODIFIED and bundle not in self._locks:
            self._start(self._read_mark(bundle))
        self._wake(bundle)

    def _on_session(self, event: SessionEvent) -> None:
        if event is not SessionEvent.CONNECTION_LOST:
            for bundle in list(self._locks):
                self._spawn(bundle, locks.Doubt())

    async def _read_mark(self, bundle: BundleName) -> None:
        try:
            owner = await self.owner(bundle)
        except StoreUnavailable:
            return
        if owner is not None and owner.disabled and owner.destination == self._me.broker_id:
            await self.expect(bundle)

    def _spawn(self, bundle: BundleName, record: object) -> None:
        self._start(self._feed(bundle, record))

    def _start(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _wake(self, bundle: BundleName) -> None:
        for future in self._waiting.pop(bundle, ()):
            if not future.done():
                future.set_result(None)


def _bundle_at(path: str) -> BundleName | None:
    below, _, name = path.partition(paths.OWNERSHIP + "/")
    if below or name.count("/") != 2:
        return None
    try:
        return BundleName.parse(name)
    except InvalidName:
        log.warning("ignoring a lock of what is no bundle: %s", path)
        return None
