"""Logs on BookKeeper, in the layout of Pulsar's managed ledgers."""

import contextlib
import time
from typing import Final, TypeVar

from counterpoise.bookkeeper.client_port import LedgerClient
from counterpoise.bookkeeper.errors import BookKeeperError
from counterpoise.bookkeeper.ledger_paths import DEFAULT_ROOT, ledger_ids
from counterpoise.bookkeeper.managed_ledgers import ROOT
from counterpoise.bookkeeper.quorums import ONE_BOOKIE
from counterpoise.metadata import MetadataError, MetadataStore, NotEmpty, NotFound
from counterpoise.names.callbacks import Clock
from counterpoise.storage.cache import EntryCache
from counterpoise.storage.grouplog import Log
from counterpoise.storage.managed.context import RELEASED, ManagedContext
from counterpoise.storage.managed.log import ManagedLog
from counterpoise.storage.managed.takeover import take_over
from counterpoise.storage.managed.topic_node import ManagedLedgerTopics
from counterpoise.storage.managed_options import ManagedLedgerOptions
from counterpoise.storage.port import LedgerIds, LogListener, Persistence, StorageError
from counterpoise.storage.topic_record import TopicCodec

C = TypeVar("C")

_DELETE_ATTEMPTS: Final = 10
_DEFAULTS = ManagedLedgerOptions()


class ManagedLedgerStore:
    """One broker's access to the logs of a BookKeeper cluster, on one event loop.

    BookKeeper assigns ledger ids, so other sources of ids are not used.
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
        """``metadata`` and ``client`` belong to this store, which closes them."""
        self.topics: TopicCodec = ManagedLedgerTopics()
        self._context = ManagedContext(
            metadata,
            client,
            ledgers_root,
            options,
            ledger_bytes,
            EntryCache(cache_bytes),
            now,
            wall,
        )

    async def open(
        self,
        name: str,
        owner: str,
        listener: LogListener[C],
        ids: LedgerIds | None = None,
        persistence: Persistence | None = None,
    ) -> Log[C]:
        """Recover the last ledger of the former owner, list a new one, read the cursors."""
        _check(name)
        chosen = persistence or self._context.options.persistence
        taken = await take_over(self._context, name, owner, chosen.quorums)
        return ManagedLog(name, listener, self._context, taken, chosen)

    async def prepare(self, name: str, ids: LedgerIds | None = None) -> None:
        """Does nothing: all that could be read may change until the log is opened."""

    async def highest_ledger(self) -> int:
        """The largest ledger id of the BookKeeper cluster, whatever the ledger's purpose."""
        highest = -1
        try:
            async for ids in ledger_ids(self._context.metadata, self._context.ledgers_root):
                highest = max(highest, *ids)
        except MetadataError as error:
            raise StorageError(f"{self._context.ledgers_root} cannot be listed: {error}") from error
        return highest

    async def is_released(self, name: str) -> bool:
        """Whether the log's node is unchanged since its last owner closed the log."""
        return await self._context.is_released(name)

    async def exists(self, name: str) -> bool:
        """Whether the log exists: it has a node in the metadata store."""
        try:
            return await self._context.metadata.exists(f"{ROOT}/{_check(name)}")
        except MetadataError as error:
            raise StorageError(f"{ROOT}/{name} cannot be read: {error}") from error

    async def delete(self, name: str) -> None:
        """Take the log over, then delete its cursors, ledgers and node."""
        if not await self.exists(name):
            return
        taken = await take_over(self._context, name, "its deletion", ONE_BOOKIE)
        await taken.keeper.delete()
        try:
            await taken.chain.delete()
            for _ in range(_DELETE_ATTEMPTS):
                try:
                    for each in await self._context.metadata.children(f"{ROOT}/{name}"):
                        # A cursor's node, written by a former owner that does not know of the
                        # deletion yet.
                        await self._context.metadata.delete(f"{ROOT}/{name}/{each}")
                    version = taken.chain.owned.version
                    await self._context.metadata.delete(f"{ROOT}/{name}", expected_version=version)
                except NotEmpty:
                    continue
                break
            await self._context.metadata.delete(f"{RELEASED}/{name}")
        except NotFound:
            pass
        except (MetadataError, BookKeeperError) as error:
            raise StorageError(f"{name} cannot be deleted: {error}") from error

    async def close(self) -> None:
        """Close the connections. Logs that are still open are abandoned, as in a crash."""
        self._context.is_closed = True
        with contextlib.suppress(BookKeeperError):
            await self._context.client.close()
        await self._context.metadata.close()


def _check(name: str) -> str:
    if any(part in ("", ".", "..") for part in name.split("/")):
        raise StorageError(f"{name!r} is no name for a log")
    return name
