"""Takes over a log from its former owner.

The former owner's last ledger is recovered, which fences it. Then the log's node is changed by
compare-and-set to list a new ledger. From then on the former owner can start no ledger, and the one
that it has takes no entry. Cursors are read last, so that everything that the former owner saved
before is found.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from counterpoise.bookkeeper.client_port import LedgerClient
from counterpoise.bookkeeper.cursors import (
    COMPACTED_LEDGER,
    COMPACTION_CURSOR,
    NO_LEDGER,
    CursorNode,
    cursor_names,
    read_cursor_node,
)
from counterpoise.bookkeeper.errors import BookKeeperError, NoSuchLedger
from counterpoise.bookkeeper.managed_ledgers import ROOT, ListedLedger, parse_managed_ledger
from counterpoise.bookkeeper.quorums import Quorums
from counterpoise.metadata import BadVersion, MetadataError
from counterpoise.metadata.port import MUST_NOT_EXIST, Stored
from counterpoise.names.topic import url_encoded
from counterpoise.storage.managed.context import ManagedContext
from counterpoise.storage.managed.cursor_keeper import CursorKeeper, latest_positions
from counterpoise.storage.managed.ledger_chain import LedgerChain, create_ledger, delete_unlisted
from counterpoise.storage.managed.purpose import messages_purpose
from counterpoise.storage.managed.topic_node import OwnedNode
from counterpoise.storage.port import CursorState, LogFencedError, StorageError

_NO_NODE: Final = Stored(b"", 0, False, False)
REPLICATORS: Final = "pulsar.repl"
"""The prefix of the names of the cursors that belong to geo-replication."""


class UnsupportedLog(StorageError):
    """A log with a feature of Pulsar's that is not supported here. It was not changed."""

    def __init__(self, name: str, feature: str) -> None:
        super().__init__(
            f"{name} has {feature}, which this broker does not support; it was left as it is: "
            "serve it by Pulsar's own brokers, or end the use of that there first"
        )


@dataclass(frozen=True, slots=True)
class TakenOver:
    """What a takeover returns: the log's ledgers and its cursors."""

    chain: LedgerChain
    keeper: CursorKeeper
    cursors: Mapping[str, CursorState]


async def take_over(context: ManagedContext, name: str, owner: str, quorums: Quorums) -> TakenOver:
    """Take a log over from its former owner, or create it; raises `StorageError`.

    ``quorums`` are those of the new ledger.
    """
    purpose = messages_purpose(name, owner)
    client = context.client
    # Started first: creating a ledger takes longest, and needs nothing of what is read meanwhile.
    creating = asyncio.create_task(create_ledger(client, name, purpose, context.now, quorums))
    try:
        stored, cursors = await _node(context, name)
        # Recovers the cursors' ledgers as well, so that reading the cursors at the end is quick.
        found, _ = await asyncio.gather(
            _recovered(client, name, stored.value),
            asyncio.gather(*(_recover_cursor(client, each) for each in cursors)),
        )
        await asyncio.wait([creating])
        following = creating.result()
    except BaseException:
        await asyncio.wait([creating])
        if creating.exception() is None:
            await delete_unlisted(client, creating.result())
        raise
    while True:
        owned = OwnedNode(
            context.metadata, context.ledgers_root, name, stored.value, stored.version
        )
        chain = LedgerChain(client, owned, purpose, context.now, context.wall, quorums)
        try:
            kept = [each for each in found if each.entries]
            empty = [each.ledger for each in found if not each.entries]
            try:
                await chain.begin(following, kept, empty)
            except LogFencedError:
                # The former owner may have deleted its oldest ledgers since its list was read.
                stored, left = await _trimmed(context, name, found)
                if not left:
                    raise
                found = left
                continue
            keeper = CursorKeeper(context, owned)
            names = [url_encoded(each.name) for each in cursors]
            return TakenOver(chain, keeper, await keeper.load(names))
        except BaseException:
            await chain.abandon()
            raise


async def _trimmed(
    context: ManagedContext, name: str, found: Sequence[ListedLedger]
) -> tuple[Stored, list[ListedLedger]]:
    """The log's node as it is now, and the ledgers ``found`` that it still lists.

    None is left unless exactly the oldest of them have gone: then another owner, or the former one,
    has begun a ledger.
    """
    try:
        stored = await context.metadata.get(f"{ROOT}/{name}") or _NO_NODE
    except MetadataError as error:
        raise StorageError(f"{ROOT}/{name} cannot be read: {error}") from error
    listed = [each.ledger for each in parse_managed_ledger(name, stored.value).ledgers]
    left = list(found)[len(found) - len(listed) :] if 0 < len(listed) < len(found) else []
    return stored, left if [each.ledger for each in left] == listed else []


async def _node(context: ManagedContext, name: str) -> tuple[Stored, list[CursorNode]]:
    """The log's node, created if missing, and its cursors' nodes.

    Raises `UnsupportedLog` if unsupported features of Pulsar are in use.
    """
    metadata, path = context.metadata, f"{ROOT}/{name}"
    try:
        while True:
            stored, cursors = await asyncio.gather(metadata.get(path), cursor_names(metadata, name))
            if stored is not None:
                return stored, await _supported_cursors(context, name, stored.value, cursors)
            with contextlib.suppress(BadVersion):
                await metadata.put(path, b"", expected_version=MUST_NOT_EXIST)
    except (MetadataError, BookKeeperError) as error:
        raise StorageError(f"{path} cannot be read: {error}") from error


async def _supported_cursors(
    context: ManagedContext, name: str, value: bytes, cursors: Sequence[str]
) -> list[CursorNode]:
    if any(each.offloading for each in parse_managed_ledger(name, value).ledgers):
        raise UnsupportedLog(name, "ledgers in long-term storage (OffloadContext)")
    nodes = [read_cursor_node(context.metadata, name, each) for each in cursors]
    found = [node for node in await asyncio.gather(*nodes) if node is not None]
    for node in found:
        if node.name == COMPACTION_CURSOR and await _names_compacted_ledger(context.client, node):
            raise UnsupportedLog(name, f"a compacted ledger (its cursor {node.name})")
        if node.name.startswith(REPLICATORS):
            raise UnsupportedLog(name, f"geo-replication (its cursor {node.name})")
        if node.delayed_ledgers:
            raise UnsupportedLog(name, f"an index of delayed messages (its cursor {node.name})")
    return found


async def _names_compacted_ledger(client: LedgerClient, node: CursorNode) -> bool:
    """Whether the compaction cursor names a compacted ledger; if it names none, the topic was never
    compacted.
    """
    latest, _ = await latest_positions(client, node)
    # The ledger that the cursor's node names may be in use still.
    names = {name for name, _ in (*node.positions.numbers, *latest.numbers)}
    return COMPACTED_LEDGER in names


async def _recover_cursor(client: LedgerClient, node: CursorNode) -> None:
    """Recover a cursor's ledger. A failure is noticed when the cursor is read."""
    if node.ledger != NO_LEDGER:
        with contextlib.suppress(BookKeeperError):
            await client.recover(node.ledger)


async def _recovered(client: LedgerClient, name: str, value: bytes) -> list[ListedLedger]:
    """The ledgers that the node lists, after those that were not closed have been recovered.

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
