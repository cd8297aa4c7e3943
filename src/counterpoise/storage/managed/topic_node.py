"""The node of a topic's managed ledger: the log's owner and its ledgers."""

import asyncio
from collections.abc import Sequence

from counterpoise.bookkeeper import managed_ledgers
from counterpoise.bookkeeper.errors import UnreadableNode
from counterpoise.bookkeeper.ledger_metadata import read_ledger_metadata
from counterpoise.bookkeeper.ledger_paths import ledger_path
from counterpoise.metadata import BadVersion, MetadataError, MetadataStore
from counterpoise.storage.managed.purpose import OWNER
from counterpoise.storage.port import LogFencedError, StorageError
from counterpoise.storage.topic_record import TopicRecord


class ManagedLedgerTopics:
    """Reads and writes topics in their managed ledgers' nodes (`TopicCodec`)."""

    def read(self, value: bytes) -> TopicRecord:
        """Parse a value that `write` made. Raises `UnreadableNode`."""
        found = managed_ledgers.parse_managed_ledger("", value)
        return TopicRecord(dict(found.properties), found.terminated)

    def write(self, record: TopicRecord, former: bytes = b"") -> bytes:
        """The node's value for this record, in place of ``former``, whose list of ledgers stays."""
        return managed_ledgers.with_topic("", former, record.properties, record.terminated)


class OwnedNode:
    """The metadata node of a topic whose log this broker owns; changed by compare-and-set.

    Other clients may change the topic's properties in it meanwhile; those changes are kept.
    """

    def __init__(
        self, metadata: MetadataStore, ledgers_root: str, name: str, value: bytes, version: int
    ) -> None:
        """``name``: the log's; ``value`` and ``version``: read before the log was fenced."""
        self.name = name
        self.path = f"{managed_ledgers.ROOT}/{name}"
        self._metadata = metadata
        self._ledgers_root = ledgers_root
        self._value = value
        self.version = version
        self._former: tuple[int, ...] | None = _ids(
            managed_ledgers.parse_managed_ledger(name, value).ledgers
        )
        """The ledgers that the node listed before this owner; None once it listed one."""
        self._mine: set[int] = set()
        self._changing = asyncio.Lock()

    async def list_ledgers(self, ledgers: Sequence[managed_ledgers.ListedLedger]) -> None:
        """Write the list of ledgers; this owner created the last one.

        Raises `LogFencedError` if the log has another owner, and `StorageError` if it is unknown
        whether the list was written.
        """
        self._mine.add(ledgers[-1].ledger)
        async with self._changing:
            while True:
                value = managed_ledgers.with_ledgers(self.name, self._value, ledgers)
                try:
                    version = await self._metadata.put(
                        self.path, value, expected_version=self.version
                    )
                except BadVersion:
                    await self._read_again()
                except MetadataError as error:
                    raise StorageError(f"{self.path} cannot be written: {error}") from error
                else:
                    self._value, self.version, self._former = value, version, None
                    return

    def lists(self, ledger: int) -> bool:
        """Whether the node listed a ledger when it was last read or written."""
        return ledger in _ids(managed_ledgers.parse_managed_ledger(self.name, self._value).ledgers)

    async def check_mine(self) -> None:
        """Raise `LogFencedError` unless this owner still has the log."""
        async with self._changing:
            await self._read_again()

    async def _read_again(self) -> None:
        try:
            stored = await self._metadata.get(self.path)
        except MetadataError as error:
            raise StorageError(f"{self.path} cannot be read: {error}") from error
        if stored is None:
            raise LogFencedError(f"{self.name} was taken over by its deletion")
        listed = _ids(managed_ledgers.parse_managed_ledger(self.name, stored.value).ledgers)
        if listed and listed[-1] in self._mine:
            self._former = None
        elif listed != self._former:
            raise LogFencedError(f"{self.name} was taken over by {await self._owner(listed)}")
        self._value, self.version = stored.value, stored.version

    async def _owner(self, listed: tuple[int, ...]) -> str:
        """The broker that created the ledger being written, if its metadata says so."""
        if not listed:
            return "its deletion"
        path = ledger_path(self._ledgers_root, listed[-1])
        try:
            stored = await self._metadata.get(path)
            if stored is not None:
                found = read_ledger_metadata(listed[-1], path, stored.value).custom.get(OWNER)
                if found is not None:
                    return found.decode("utf-8", "replace")
        except (MetadataError, UnreadableNode):
            pass
        return "another broker"


def _ids(ledgers: Sequence[managed_ledgers.ListedLedger]) -> tuple[int, ...]:
    return tuple(each.ledger for each in ledgers)
