"""Logs on BookKeeper, in the layout of Pulsar's managed ledgers."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Final, TypeVar

from counterpoise.bookkeeper.client_port import LedgerClient
from counterpoise.bookkeeper.errors import BookKeeperError
from counterpoise.bookkeeper.ledger_paths import DEFAULT_ROOT, ledger_ids
from counterpoise.bookkeeper.managed_ledgers import ROOT
from counterpoise.metadata import MetadataError, MetadataStore, NotEmpty, NotFound
from counterpoise.names.callbacks import Clock
from counterpoise.storage.cache import EntryCache
from counterpoise.storage.managed.log import ManagedLog
from counterpoise.storage.managed.takeover import Takeover
from counterpoise.storage.managed.topic_node import ManagedLedgerTopics
from counterpoise.storage.managed_options import ManagedLedgerOptions
from counterpoise.storage.port import LedgerIds, Log, LogListener, StorageError
from counterpoise.storage.topic_record import TopicCodec

C = TypeVar("C")

RELEASED: Final = "/counterpoise/released-logs"
"""Below it, for each log whose last owner closed it: the version of the log's node then."""
_DELETE_ATTEMPTS: Final = 10
_DEFAULTS = ManagedLedgerOptions()


class ManagedLedgerStore:
    """One broker's access to the logs of a cluster; it lives on one event loop.

    BookKeeper gives ledgers their ids, so whatever else supplies ids is not asked.
    """

    def __init__(
        self,
        metadata: MetadataStore,
        client: LedgerClient,
        *,
        ledgers_root: str = DEFAULT_ROOT,
        options: ManagedLedgerOptions = _DEFAULTS,
        ledger_bytes: int = 64 << 20,
        cache_bytes: int = 64 << 20,
        now: Clock = time.monotonic,
        wall: Clock = time.time,
    ) -> None:
        """``metadata`` and ``client`` are this store's own: it closes them."""
        self.client = client
        self.options = options
        self.ledger_bytes = ledger_bytes
        self.cache = EntryCache(cache_bytes)
        self.now = now
        self.topics: TopicCodec = ManagedLedgerTopics()
        self.closed = False
        self._metadata = metadata
        self._ledgers_root = ledgers_root
        self._takeover = Takeover(metadata, client, ledgers_root, options, now, wall)

    async def open(
        self, name: str, owner: str, listener: LogListener[C], ids: LedgerIds | None = None
    ) -> Log[C]:
        """Recover the last ledger of the former owner, list a new one, read the cursors."""
        _check(name)
        return ManagedLog(name, listener, self, await self._takeover.take(name, owner))

    async def prepare(self, name: str, ids: LedgerIds | None = None) -> None:
        """Nothing is kept of what could be read: all of it may change until the log is opened."""

    async def highest_ledger(self) -> int:
        """The largest ledger id of the BookKeeper cluster, whatever the ledger is for."""
        highest = -1
        try:
            async for ids in ledger_ids(self._metadata, self._ledgers_root):
                highest = max(highest, *ids)
        except MetadataError as error:
            raise StorageError(f"{self._ledgers_root} cannot be listed: {error}") from error
        return highest

    async def is_released(self, name: str) -> bool:
        """Whether the log's node is as its last owner left it."""
        try:
            node, mark = await asyncio.gather(
                self._metadata.get(f"{ROOT}/{name}"), self._metadata.get(f"{RELEASED}/{name}")
            )
        except MetadataError as error:
            raise StorageError(f"{ROOT}/{name} cannot be read: {error}") from error
        return node is not None and mark is not None and mark.value == b"%d" % node.version

    async def mark_released(self, name: str, version: int) -> None:
        """Note that a log's owner has closed it, when its node had this version."""
        try:
            await self._metadata.put(f"{RELEASED}/{name}", b"%d" % version)
        except MetadataError as error:
            raise StorageError(f"{RELEASED}/{name} cannot be written: {error}") from error

    async def exists(self, name: str) -> bool:
        """Whether the log has a node."""
        try:
            return await self._metadata.exists(f"{ROOT}/{_check(name)}")
        except MetadataError as error:
            raise StorageError(f"{ROOT}/{name} cannot be read: {error}") from error

    async def delete(self, name: str) -> None:
        """Take the log over, then delete its cursors, its ledgers and its node."""
        if not await self.exists(name):
            return
        taken = await self._takeover.take(name, "its deletion")
        await taken.keeper.delete()
        try:
            await taken.chain.delete()
            for _ in range(_DELETE_ATTEMPTS):
                try:
                    for each in await self._metadata.children(f"{ROOT}/{name}"):
                        # Of a former owner that does not know of the deletion yet.
                        await self._metadata.delete(f"{ROOT}/{name}/{each}")
                    version = taken.chain.owned.version
                    await self._metadata.delete(f"{ROOT}/{name}", expected_version=version)
                except NotEmpty:
                    continue
                break
            await self._metadata.delete(f"{RELEASED}/{name}")
        except NotFound:
            pass
        except (MetadataError, BookKeeperError) as error:
            raise StorageError(f"{name} cannot be deleted: {error}") from error

    async def close(self) -> None:
        """Close the connections. Logs that are still open are abandoned, as in a crash."""
        self.closed = True
        with contextlib.suppress(BookKeeperError):
            await self.client.close()
        await self._metadata.close()


def _check(name: str) -> str:
    if any(part in ("", ".", "..") for part in name.split("/")):
        raise StorageError(f"{name!r} is no name for a log")
    return name
