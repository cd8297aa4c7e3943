"""A ledger store whose disk a test can make fail."""

from counterpoise.storage.disk_faults import DiskFaults
from counterpoise.storage.grouplog import Log
from counterpoise.storage.ledger_store import LedgerStore
from counterpoise.storage.port import C, LedgerIds, LogListener, Persistence


class FaultableLedgers:
    """Wraps a ledger store, so that tests can inject disk faults into the logs that it opens."""

    def __init__(self, store: LedgerStore) -> None:
        self.disk = DiskFaults()
        self._store = store
        self.topics = store.topics
        self.prepare = store.prepare
        self.highest_ledger = store.highest_ledger
        self.is_released = store.is_released
        self.exists = store.exists
        self.delete = store.delete
        self.close = store.close

    async def open(
        self,
        name: str,
        owner: str,
        listener: LogListener[C],
        ids: LedgerIds | None = None,
        persistence: Persistence | None = None,
    ) -> Log[C]:
        """Open a log of the wrapped store, with this broker's disk faults."""
        log = await self._store.open(name, owner, listener, ids, persistence)
        log.disk = self.disk
        return log
