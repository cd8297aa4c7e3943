"""The ledgers of schemas: each version is an entry of a ledger that a node names."""

from collections.abc import AsyncIterator
from typing import Final

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
