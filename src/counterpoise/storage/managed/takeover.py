"""Taking over a log from its former owner.

The former owner's last ledger is recovered, which fences it. Then the log's node is changed by
compare-and-set to list a new ledger. From then on the former owner can begin no ledger, and the one
that it has takes no entry. Cursors are read last: what it saved before is there.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from counterpoise.bookkeeper.client_port import LedgerClient
from counterpoise.bookkeeper.cursors import COMPACTION_CURSOR, cursor_names, read_cursor_node
from counterpoise.bookkeeper.errors import BookKeeperError, NoSuchLedger
from counterpoise.bookkeeper.managed_ledgers import ROOT, ListedLedger, parse_managed_ledger
from counterpoise.metadata import BadVersion, MetadataError, MetadataStore
from counterpoise.metadata.port import MUST_NOT_EXIST, Stored
from counterpoise.storage.managed.context import ManagedContext
from counterpoise.storage.managed.cursor_keeper import CursorKeeper
from counterpoise.storage.managed.ledger_chain import LedgerChain
from counterpoise.storage.managed.purpose import messages_purpose
from counterpoise.storage.managed.topic_node import OwnedNode
from counterpoise.storage.port import CursorState, StorageError

REPLICATORS: Final = "pulsar.repl"
"""How the cursors of geo-replication begin."""


class UnsupportedLog(StorageError):
    """A log with a feature of Pulsar's that is not supported here. Nothing of it was changed."""

    def __init__(self, name: str, feature: str) -> None:
        super().__init__(
            f"{name} has {feature}, which this broker does not support; it was left as it is: "
            "serve it by Pulsar's own brokers, or end the use of that there first"
        )


@dataclass(frozen=True, slots=True)
class TakenOver:
    """A log that this broker owns now."""

    chain: LedgerChain
    keeper: CursorKeeper
    cursors: Mapping[str, CursorState]


async def take_over(context: ManagedContext, name: str, owner: str) -> TakenOver:
    """Take a log over, or create it; raises `StorageError`."""
    stored = await _node(context.metadata, name)
    owned = OwnedNode(context.metadata, context.ledgers_root, name, stored.value, stored.version)
    purpose = messages_purpose(name, owner)
    chain = LedgerChain(context.client, owned, purpose, context.now, context.wall)
    creating = asyncio.create_task(chain.create_next())
    try:
        found = await _recovered(context.client, name, stored.value)
        following = await creating
        kept = [each for each in found if each.entries]
        empty = [each.ledger for each in found if not each.entries]
        await chain.begin(following, kept, empty)
        keeper = CursorKeeper(context, owned)
        return TakenOver(chain, keeper, await keeper.load())
    except BaseException:
        with contextlib.suppress(StorageError):
            await creating
        await chain.abandon()
        raise


async def _node(metadata: MetadataStore, name: str) -> Stored:
    """The log's node, created where there is none; refused where Pulsar's features are used."""
    path = f"{ROOT}/{name}"
    try:
        while True:
            stored = await metadata.get(path)
            if stored is not None:
                await _check_supported(metadata, name, stored.value)
                return stored
            with contextlib.suppress(BadVersion):
                await metadata.put(path, b"", expected_version=MUST_NOT_EXIST)
    except (MetadataError, BookKeeperError) as error:
        raise StorageError(f"{path} cannot be read: {error}") from error


async def _check_supported(metadata: MetadataStore, name: str, value: bytes) -> None:
    if any(each.offloading for each in parse_managed_ledger(name, value).ledgers):
        raise UnsupportedLog(name, "ledgers in long-term storage (OffloadContext)")
    nodes = [read_cursor_node(metadata, name, each) for each in await cursor_names(metadata, name)]
    for node in await asyncio.gather(*nodes):
        if node is None:
            continue
        if node.name == COMPACTION_CURSOR:
            raise UnsupportedLog(name, f"a compacted ledger (its cursor {node.name})")
        if node.name.startswith(REPLICATORS):
            raise UnsupportedLog(name, f"geo-replication (its cursor {node.name})")
        if node.delayed_ledgers:
            raise UnsupportedLog(name, f"an index of delayed messages (its cursor {node.name})")


async def _recovered(client: LedgerClient, name: str, value: bytes) -> list[ListedLedger]:
    """The ledgers that the node lists, with the entries of those that a former owner wrote.

    All but the last are closed, unless their owner died at the wrong moment.
    """
    listed = parse_managed_ledger(name, value).ledgers
    written = [each for each in listed if not each.closed_ms or each is listed[-1]]
    found = await asyncio.gather(*(_recover(client, each) for each in written))
    ends = {each.ledger: each for each in found}
    return [ends.get(each.ledger, each) for each in listed]


async def _recover(client: LedgerClient, listed: ListedLedger) -> ListedLedger:
    try:
        reader = await client.recover(listed.ledger)
    except NoSuchLedger:
        # It was deleted by hand, or by an owner that could not change the list any more.
        return ListedLedger(listed.ledger, 0, 0, 0, False, False)
    except BookKeeperError as error:
        raise StorageError(f"ledger {listed.ledger} cannot be recovered: {error}") from error
    return ListedLedger(listed.ledger, reader.last_entry + 1, reader.length, 0, False, False)
