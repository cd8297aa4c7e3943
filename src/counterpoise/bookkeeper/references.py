"""The ledgers to which Pulsar refers: topics, cursors, schemas, compaction, delayed messages."""

import asyncio
from array import array
from collections.abc import AsyncIterator, Iterable
from typing import Final

import numpy as np

from counterpoise.bookkeeper import cursors, managed_ledgers
from counterpoise.bookkeeper.errors import UnreadableNode
from counterpoise.bookkeeper.ledger_owners import schema_topic
from counterpoise.bookkeeper.ledger_rows import LedgerCluster
from counterpoise.bookkeeper.managed_ledgers import parse_node
from counterpoise.bookkeeper.proto import managed_pb2 as pb
from counterpoise.metadata.port import MetadataReader

SCHEMAS: Final = "/schemas"


async def schema_ledgers(store: MetadataReader, schema: str) -> set[int]:
    """The ledgers that the node of a schema (``tenant/namespace/topic``) names.

    Raises `UnreadableNode`.
    """
    path = f"{SCHEMAS}/{schema}"
    node = await store.get(path)
    if node is None or not node.value:
        return set()
    found = parse_node(pb.SchemaLocator, path, node.value)
    return {each.position.ledgerId for each in (found.info, *found.index)}


async def schema_names(store: MetadataReader) -> AsyncIterator[list[str]]:
    """All schema ids (``tenant/namespace/topic``), those of one namespace at a time."""
    for tenant in await store.children(SCHEMAS):
        for namespace in await store.children(f"{SCHEMAS}/{tenant}"):
            parent = f"{tenant}/{namespace}"
            names = await store.children(f"{SCHEMAS}/{parent}")
            if names:
                yield [f"{parent}/{name}" for name in names]


AT_ONCE: Final = 128
"""Topics or schemas that are read at the same time."""


class LedgerReferences:
    """The ids of all ledgers that something in Pulsar refers to.

    A topic in `unknown` could not be read: it may refer to any ledger whose metadata names it.
    """

    def __init__(self) -> None:
        self._found = array("q")
        self._sorted = np.empty(0, np.int64)
        self.unknown: dict[str, str] = {}
        """Why references could not be read, by topic; those of a schema are under its topic."""

    def add(self, ledgers: Iterable[int]) -> None:
        """Add ledgers that something refers to."""
        self._found.extend(ledgers)

    def unreferenced(self, ledgers: list[int]) -> list[int]:
        """Those of the given ledgers that nothing refers to."""
        if len(self._found):
            more = np.frombuffer(self._found, np.int64)
            self._sorted = np.unique(np.concatenate([self._sorted, more]))
            del more
            self._found = array("q")
        ids = np.asarray(ledgers, np.int64)
        if not len(self._sorted):
            return ledgers
        at = np.searchsorted(self._sorted, ids).clip(max=len(self._sorted) - 1)
        return [int(each) for each in ids[self._sorted[at] != ids]]

    async def read_topic(self, cluster: LedgerCluster, name: str) -> None:
        """Add what a managed ledger and its cursors refer to."""
        try:
            found = await managed_ledgers.read_managed_ledger(cluster.store, name)
            if found is not None:
                self.add(each.ledger for each in found.ledgers)
            for cursor in await cursors.cursor_names(cluster.store, name):
                node = await cursors.read_cursor_node(cluster.store, name, cursor)
                if node is not None:
                    await self._add_cursor(cluster, name, node)
        except UnreadableNode as error:
            self.unknown[managed_ledgers.topic_of(name)] = str(error)
        cluster.counts.topics += 1

    async def _add_cursor(
        self, cluster: LedgerCluster, name: str, node: cursors.CursorNode
    ) -> None:
        self.add([node.ledger, *node.delayed_ledgers])
        numbers = node.positions.numbers
        if node.name == cursors.COMPACTION_CURSOR:
            # The latest state is on bookies; the ledger that the node names may be in use still.
            reading = await cursors.read_cursor(cluster.store, cluster.root, cluster.bookies, node)
            numbers += reading.positions.numbers
            if reading.problem:
                self.unknown[managed_ledgers.topic_of(name)] = reading.problem
        self.add(value for name, value in numbers if name == cursors.COMPACTED_LEDGER)

    async def read_schema(self, cluster: LedgerCluster, schema: str) -> None:
        """Add the ledgers that a schema's node refers to."""
        try:
            self.add(await schema_ledgers(cluster.store, schema))
        except UnreadableNode as error:
            self.unknown[schema_topic(schema)] = str(error)


async def read_references(cluster: LedgerCluster) -> LedgerReferences:
    """Read all references of the cluster; topics with a node that cannot be parsed are in
    `unknown`.
    """
    found = LedgerReferences()
    async for names in _parts(managed_ledgers.managed_ledger_names(cluster.store)):
        await asyncio.gather(*(found.read_topic(cluster, name) for name in names))
    async for names in _parts(schema_names(cluster.store)):
        await asyncio.gather(*(found.read_schema(cluster, name) for name in names))
    return found


async def _parts(names: AsyncIterator[list[str]]) -> AsyncIterator[list[str]]:
    async for each in names:
        for begin in range(0, len(each), AT_ONCE):
            yield each[begin : begin + AT_ONCE]
