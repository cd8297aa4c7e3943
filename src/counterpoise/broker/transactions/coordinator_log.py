"""A coordinator's log, ``persistent://pulsar/system/__transaction_log_N``."""

import asyncio
from collections.abc import Sequence

from counterpoise.broker.transactions.table import Record, decode_record, encode_record
from counterpoise.storage.grouplog import Log
from counterpoise.storage.ledger_store import LedgerStore
from counterpoise.storage.log_parts import parts_from
from counterpoise.storage.port import EntryGroup, LedgerIds, Lost, StorageError

_Written = asyncio.Future[None]


class CoordinatorLog:
    """The log of one coordinator; a record is stored durably once `append` returns."""

    log: Log[_Written]

    def __init__(self) -> None:
        self.broken: StorageError | None = None
        """Why nothing more may be written: what the disk has of the last writes is unknown."""

    @classmethod
    async def open(
        cls, store: LedgerStore, coordinator: int, owner: str, ids: LedgerIds
    ) -> "CoordinatorLog":
        """Open a coordinator's log and fence its former owner; raises `StorageError`."""
        made = cls()
        name = f"pulsar/system/persistent/__transaction_log_{coordinator}"
        made.log = await store.open(name, owner, made, ids)
        return made

    async def read(self) -> list[tuple[int, Record]]:
        """All stored records, each with its index."""
        found: list[tuple[int, Record]] = []
        async for first, entries in parts_from(self.log, self.log.begin):
            # The entry of a lost record is empty.
            found += [
                (index, decode_record(entry)) for index, entry in enumerate(entries, first) if entry
            ]
        return found

    async def append(self, record: Record) -> None:
        """Store a record; raises `StorageError`, after which the log is ``broken``."""
        if self.broken is not None:
            raise self.broken
        written: _Written = asyncio.get_running_loop().create_future()
        # Where it raises, the log has ended, and `failed` or `close` has set ``broken`` before.
        self.log.append(encode_record(record), 1, written)
        await asyncio.shield(written)

    async def close(self) -> None:
        """Close the log, so that the coordinator's next owner can open it."""
        self.broken = self.broken or StorageError("the transaction coordinator is closed")
        await self.log.close()

    # As the log's listener.

    def committed(self, group: EntryGroup[_Written]) -> None:
        """Called by the log when records are stored: their `append` calls return."""
        for written in group.contexts:
            if not written.done():
                written.set_result(None)

    def refused(self, error: StorageError, contexts: Sequence[_Written]) -> None:
        """Called by the log if records were not stored: the coordinator has to be opened again."""
        self.failed(error, contexts)

    def failed(self, error: StorageError, contexts: Sequence[_Written]) -> None:
        """Called by the log if it can store no more: `append` raises."""
        self.broken = error
        for written in contexts:
            if not written.done():
                written.set_exception(error)

    def lost(self, lost: Lost) -> None:
        """Called by the log if stored records cannot be read any more; they are ignored."""
