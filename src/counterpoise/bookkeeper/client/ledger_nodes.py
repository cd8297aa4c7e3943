"""Creates, reads, changes and deletes ledgers' metadata in the metadata store."""

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Final

from counterpoise.bookkeeper.client.background_deletes import BackgroundDeletes
from counterpoise.bookkeeper.client.ledger_ids import LedgerIdGenerator
from counterpoise.bookkeeper.client.metadata_changes import (
    MetadataChange,
    VersionedMetadata,
    change_metadata,
)
from counterpoise.bookkeeper.errors import BookKeeperError, NoSuchLedger
from counterpoise.bookkeeper.ledger_metadata import (
    LedgerMetadata,
    read_ledger_metadata,
    write_ledger_metadata,
)
from counterpoise.bookkeeper.ledger_paths import ledger_path
from counterpoise.metadata.errors import BadVersion, MetadataError, NotFound, StoreUnavailable
from counterpoise.metadata.port import MUST_NOT_EXIST, MetadataStore, SessionEvent, parent_of

_TOKENS: Final = 1 << 63
_ROUNDS: Final = 16
"""How often a change is tried: again whenever another client was first, or the store did not
answer."""


class LedgerNodes:
    """Reads and changes the metadata of the ledgers below ``root``."""

    def __init__(
        self, store: MetadataStore, root: str, rng: Random, *, unavailable_s: float
    ) -> None:
        """``root``: the node below which ledgers' metadata is, such as ``/ledgers``.
        ``unavailable_s``: how many seconds a change waits for a store that cannot be reached.
        """
        self._store = store
        self._root = root
        self._rng = rng
        self._ids = LedgerIdGenerator(store, root)
        self._unavailable_s = unavailable_s
        self._deletes = BackgroundDeletes(store)

    async def create(self, template: LedgerMetadata) -> VersionedMetadata:
        """Write the metadata of a new ledger, with an id chosen here.

        Raises `MetadataError`; an empty ledger that nothing refers to may then be left behind.
        """
        for _ in range(_ROUNDS):
            ledger = await self._ids.next_id()
            made = replace(template, ledger=ledger, token=self._rng.randrange(1, _TOKENS))
            path = ledger_path(self._root, ledger)
            value = write_ledger_metadata(made)
            try:
                version = await self._store.put(path, value, expected_version=MUST_NOT_EXIST)
            except BadVersion:
                # Ours, if an answer was lost and the store's client sent the request again.
                found = await self._store.get(path)
                if found is None or found.value != value:
                    continue
                version = found.version
            return VersionedMetadata(made, version)
        raise BookKeeperError(f"{_ROUNDS} new ledger ids were in use already")

    async def read(self, ledger: int) -> VersionedMetadata:
        """A ledger's metadata; raises `NoSuchLedger`, `UnreadableNode` and `MetadataError`."""
        path = ledger_path(self._root, ledger)
        found = await self._store.get(path)
        if found is None:
            raise NoSuchLedger(ledger)
        return VersionedMetadata(read_ledger_metadata(ledger, path, found.value), found.version)

    async def change(
        self, ledger: int, change: MetadataChange, known: VersionedMetadata | None = None
    ) -> VersionedMetadata:
        """Make a change despite concurrent changes; returns the metadata afterwards.

        ``known``: the metadata as last read or written, to be tried without reading.

        Raises what the change raises, and as `read` does; `StoreUnavailable` if the store cannot be
        reached in time: the change may have been made then.
        """
        steps = change_metadata(change, known)
        answer: VersionedMetadata | None = None
        # Of each attempt the first step reads, the second writes.
        for left in range(2 * _ROUNDS, -1, -1):
            try:
                update = steps.send(answer)
            except StopIteration as done:
                result: VersionedMetadata = done.value
                return result
            if not left:
                break
            try:
                answer = await self._step(ledger, update)
            except StoreUnavailable:
                await self._within_reach()
                # None has the metadata read again: of a write it is unknown whether it happened.
                answer = None
        raise BookKeeperError(
            f"the metadata of ledger {ledger} could not be changed in {_ROUNDS} attempts: other "
            "clients change it, too, or the metadata store does not answer; try again"
        )

    async def delete(self, ledger: int) -> None:
        """Delete a ledger's metadata, then parents without children; ignored if it is gone."""
        path = ledger_path(self._root, ledger)
        with contextlib.suppress(NotFound):
            await self._store.delete(path)
        # A parent that stays empty does no harm: it is used again.
        self._deletes.start(self._parents(path))

    def _parents(self, path: str) -> Iterator[str]:
        while (path := parent_of(path)) != self._root:
            yield path

    async def _step(
        self, ledger: int, update: VersionedMetadata | None
    ) -> VersionedMetadata | None:
        if update is None:
            return await self.read(ledger)
        path = ledger_path(self._root, ledger)
        value = write_ledger_metadata(update.metadata)
        try:
            version = await self._store.put(path, value, expected_version=update.version)
        except BadVersion:
            return None
        return VersionedMetadata(update.metadata, version)

    async def _within_reach(self) -> None:
        """Wait until the store is connected; raises `StoreUnavailable` when that takes too long."""
        changed = asyncio.Event()

        def notify(_: SessionEvent) -> None:
            changed.set()

        unsubscribe = self._store.subscribe_session(notify)
        try:
            async with asyncio.timeout(self._unavailable_s):
                while not self._store.connected:
                    await changed.wait()
                    changed.clear()
        except TimeoutError:
            why = f"not within reach for {self._unavailable_s:g} s"
            raise StoreUnavailable("a change of a ledger", why) from None
        finally:
            unsubscribe()


def as_bookkeeper_error(error: MetadataError) -> BookKeeperError:
    """The `BookKeeperError` to raise in place of a metadata error."""
    return BookKeeperError(str(error))
