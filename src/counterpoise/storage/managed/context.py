"""The settings and services that all logs of one broker's store share."""

import asyncio
from dataclasses import dataclass
from typing import Final

from counterpoise.bookkeeper.client_port import LedgerClient
from counterpoise.bookkeeper.managed_ledgers import ROOT
from counterpoise.metadata import MetadataError, MetadataStore
from counterpoise.names.callbacks import Clock
from counterpoise.storage.cache import EntryCache
from counterpoise.storage.managed_options import ManagedLedgerOptions
from counterpoise.storage.port import StorageError

RELEASED: Final = "/counterpoise/released-logs"
"""The path with a node for each log that its last owner closed in order.

The node's value is the version that the log's own node had then."""


@dataclass(slots=True)
class ManagedContext:
    """What all logs of a BookKeeper store share: connections, options and clocks.

    ``now``: seconds by which the age of ledgers is measured; ``wall``: seconds since 1970.
    """

    metadata: MetadataStore
    client: LedgerClient
    ledgers_root: str
    options: ManagedLedgerOptions
    ledger_bytes: int
    cache: EntryCache
    now: Clock
    wall: Clock
    is_closed: bool = False

    async def mark_released(self, name: str, version: int) -> None:
        """Record that the owner of log ``name`` closed it and left the log's node at this
        version.
        """
        try:
            await self.metadata.put(f"{RELEASED}/{name}", b"%d" % version)
        except MetadataError as error:
            raise StorageError(f"{RELEASED}/{name} cannot be written: {error}") from error

    async def is_released(self, name: str) -> bool:
        """Whether a log's node is unchanged since its last owner closed the log."""
        try:
            node, mark = await asyncio.gather(
                self.metadata.get(f"{ROOT}/{name}"), self.metadata.get(f"{RELEASED}/{name}")
            )
        except MetadataError as error:
            raise StorageError(f"{ROOT}/{name} cannot be read: {error}") from error
        return node is not None and mark is not None and mark.value == b"%d" % node.version
