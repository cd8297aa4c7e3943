"""The transaction coordinators that one broker runs: of the partitions that it owns."""

import asyncio
from collections.abc import Callable
from typing import Final

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.transactions.coordinator import Coordinator, not_here
from counterpoise.broker.transactions.coordinator_log import CoordinatorLog
from counterpoise.broker.transactions.options import TransactionOptions
from counterpoise.broker.transactions.ports import ParticipantOwner, ServedTopic, TopicServer
from counterpoise.broker.transactions.table import CoordinatorTable
from counterpoise.names.callbacks import MillisecondClock
from counterpoise.names.system_topics import TRANSACTION_COORDINATORS
from counterpoise.names.topic import TopicName
from counterpoise.storage.ledger_store import LedgerStore
from counterpoise.storage.port import LedgerIds, StorageError
from counterpoise.wire.errors import ServerError

_ASSIGNMENT: Final = TopicName.parse(TRANSACTION_COORDINATORS)
COORDINATORS: Final = 16
"""How many partitions the assignment topic of a new cluster gets, as in Pulsar."""


class Coordinators:
    """Opens the transaction coordinators that this broker owns, when clients connect to them."""

    def __init__(
        self,
        store: LedgerStore,
        owner: str,
        ids: LedgerIds,
        topics: TopicServer,
        participants: ParticipantOwner,
        options: Callable[[], TransactionOptions],
        background: BackgroundTasks,
        clock_ms: MillisecondClock,
    ) -> None:
        self._store = store
        self._owner = owner
        self._ids = ids
        self._topics = topics
        self.participants = participants
        self._options = options
        self._background = background
        self._clock_ms = clock_ms
        self.open: dict[int, Coordinator] = {}
        self._locks: dict[int, asyncio.Lock] = {}

    @property
    def enabled(self) -> bool:
        """Whether transactions are enabled."""
        return self._options().enabled

    @property
    def open_max(self) -> int:
        """How many transactions of a coordinator may be open; 0: as many as its table takes."""
        return self._options().open_max

    def find(self, number: int) -> Coordinator:
        """Return the coordinator with this id, if it is open here.

        Raises `BrokerError` (TransactionCoordinatorNotFound).
        """
        known = self.open.get(number)
        if known is None or not known.is_usable:
            raise not_here(number)
        return known

    async def connect(self, number: int) -> Coordinator:
        """Open the coordinator with this id; raises `BrokerError` if another broker owns it."""
        # First, so that a number that is no partition's gets neither a lock nor a log.
        served = await self._topics.get(_ASSIGNMENT.partition(number))
        async with self._locks.setdefault(number, asyncio.Lock()):
            known = self.open.pop(number, None)
            if known is not None:
                if known.is_usable:
                    self.open[number] = known
                    return known
                await known.close()
            try:
                made = await self._resumed(number, served)
            except StorageError as error:
                raise BrokerError(ServerError.ServiceNotReady, str(error)) from error
            self.open[number] = made
            return made

    async def _resumed(self, number: int, served: ServedTopic) -> Coordinator:
        """Open a coordinator and wait until it has read its log; raises `StorageError`."""
        log = await CoordinatorLog.open(self._store, number, self._owner, self._ids)
        made = Coordinator(
            CoordinatorTable(number),
            log,
            self.participants,
            self._background,
            self._clock_ms,
            lambda: served.is_served,
        )
        try:
            await made.resume()
        except BaseException:
            await made.close()
            raise
        return made

    async def close(self) -> None:
        """Close all coordinators, because the broker stops."""
        known, self.open = list(self.open.values()), {}
        await asyncio.gather(*(each.close() for each in known), return_exceptions=True)
