"""The metadata nodes of a bundle: its ownership lock and the announcement of a hand-over."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from counterpoise.broker import paths
from counterpoise.metadata import (
    BadVersion,
    MetadataError,
    MetadataStore,
    NodeError,
    SessionEvent,
    StoreUnavailable,
)
from counterpoise.metadata.cache import MetadataCache
from counterpoise.metadata.port import MUST_NOT_EXIST
from counterpoise.names.bundle import BundleName
from counterpoise.ownership import lock as locks
from counterpoise.ownership.records import HandOver, NamespaceEphemeralData

log = logging.getLogger(__name__)


class BundleNodes:
    """Reads and writes these nodes on behalf of one broker."""

    def __init__(self, store: MetadataStore, me: NamespaceEphemeralData) -> None:
        self._store = store
        self._me = me
        self._known_mine: Final[dict[BundleName, int]] = {}
        self._owners = MetadataCache(store, paths.OWNERSHIP + "/", NamespaceEphemeralData.from_json)
        self._hand_overs = MetadataCache(store, paths.HAND_OVERS + "/", HandOver.from_json)
        self._unsubscribe = store.subscribe_session(self._on_session)

    async def owner(self, bundle: BundleName) -> NamespaceEphemeralData | None:
        """Who holds the lock; raises `StoreUnavailable`."""
        return await self._owners.get(paths.bundle_lock(bundle))

    async def hand_over(self, bundle: BundleName) -> HandOver | None:
        """Whether the bundle is changing hands, and to whom; raises `StoreUnavailable`."""
        return await self._hand_overs.get(paths.hand_over(bundle))

    async def create(self, bundle: BundleName) -> locks.LockCreated | locks.LockTaken:
        """Create the lock, replacing one that our former life left behind."""
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

    async def announce(self, bundle: BundleName, destination: str | None) -> None:
        """Write the hand-over; a failure is only logged, it must not keep a bundle here."""
        path = paths.hand_over(bundle)
        value = HandOver(self._me.broker_id, destination).to_json()
        try:
            _, stored = await asyncio.gather(
                self._store.put(path, value, ephemeral=True),
                self._store.get(paths.bundle_lock(bundle)),
            )
            if stored is not None and stored.mine:
                self._known_mine[bundle] = stored.version
        except MetadataError as error:
            log.warning("the hand-over of %s was not announced: %s", bundle, error)
        finally:
            self._hand_overs.forget(path)

    async def withdraw(self, bundle: BundleName) -> None:
        """Delete our hand-over."""
        path = paths.hand_over(bundle)
        try:
            stored = await self._store.get(path)
            if stored is not None and stored.mine:
                await self._store.delete(path, expected_version=stored.version)
        except MetadataError as error:
            log.warning("the hand-over of %s was not withdrawn: %s", bundle, error)
        finally:
            self._hand_overs.forget(path)

    async def delete(self, bundle: BundleName) -> None:
        """Delete our lock; a failure is only logged, the lock ends with the session anyway."""
        path = paths.bundle_lock(bundle)
        # Looked at before the topics were closed, while nobody was waiting for us.
        version = self._known_mine.pop(bundle, None)
        try:
            if version is None:
                stored = await self._store.get(path)
                version = stored.version if stored is not None and stored.mine else None
            if version is not None:
                await self._store.delete(path, expected_version=version)
        except MetadataError as error:
            log.warning("the lock of %s was not deleted: %s", bundle, error)
        finally:
            self._owners.forget(path)

    async def look(self, bundle: BundleName) -> locks.LockSeen | None:
        """Read the lock; None when the store cannot be reached."""
        try:
            stored = await self._store.get(paths.bundle_lock(bundle))
        except StoreUnavailable:
            return None  # The session's return will raise the doubt again.
        return locks.LockSeen(exists=stored is not None, mine=stored is not None and stored.mine)

    def close(self) -> None:
        """Stop listening."""
        self._unsubscribe()
        self._owners.close()
        self._hand_overs.close()

    def _on_session(self, _: SessionEvent) -> None:
        self._known_mine.clear()
