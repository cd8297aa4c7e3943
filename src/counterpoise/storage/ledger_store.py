"""The interface of ledger stores: where the brokers of a cluster store their topics' logs."""

from typing import Protocol, TypeVar

from counterpoise.storage.grouplog import Log
from counterpoise.storage.port import LedgerIds, LogListener, Persistence
from counterpoise.storage.topic_record import TopicCodec

C = TypeVar("C")


class LedgerStore(Protocol):
    """A place where the brokers of a cluster store their topics' logs."""

    @property
    def topics(self) -> TopicCodec:
        """Encodes topics' metadata as this store lays them out in metadata nodes."""

    async def open(
        self,
        name: str,
        owner: str,
        listener: LogListener[C],
        ids: LedgerIds | None = None,
        persistence: Persistence | None = None,
    ) -> Log[C]:
        """Fence the former owner of log ``name``, recover what it committed, take it over.

        ``owner`` names the new owner in messages. ``ids`` supplies ids of its ledgers, by default a
        sequence of this store alone. ``persistence`` has quorums that differ from the store's.
        Creates the log if it does not exist.
        """

    async def prepare(self, name: str, ids: LedgerIds | None = None) -> None:
        """Read in advance what opening log ``name`` will need, while its owner still has it.

        Changes nothing that another broker sees, and `open` reads again whatever may have changed.
        Raises `StorageError`, after which `open` is as slow as without it.
        """

    async def highest_ledger(self) -> int:
        """The largest ledger id of all stored logs; -1 if there is none. Raises `StorageError`."""

    async def is_released(self, name: str) -> bool:
        """Whether the last owner of log ``name`` has closed it in order.

        Then all that it acknowledged is stored, and it acknowledges nothing any more. False also if
        that is unknown: it died, or there is no such log. Raises `StorageError`.
        """

    async def exists(self, name: str) -> bool:
        """Whether a log of this name has been created and not deleted."""

    async def delete(self, name: str) -> None:
        """Fence the owner, then delete the log with its cursors; ignored if there is none."""

    async def close(self) -> None:
        """Stop the store's own threads. Logs must have been closed."""
