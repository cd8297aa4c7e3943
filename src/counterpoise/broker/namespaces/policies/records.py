"""JSON objects in the metadata store: read, create, replace, change."""

import asyncio
import json
import logging
import random
from collections.abc import Callable, Mapping
from typing import Any, Final

from counterpoise.broker.base.errors import BrokerError
from counterpoise.metadata import BadVersion, MetadataStore, NotFound
from counterpoise.metadata.cache import MetadataCache
from counterpoise.metadata.port import MUST_NOT_EXIST
from counterpoise.wire.errors import ServerError

log = logging.getLogger(__name__)

JsonObject = dict[str, Any]

UPDATE_ROUNDS: Final = 40
"""How often a change is tried again when another client changed the node meanwhile."""
UPDATE_PAUSE_S: Final = 0.002
"""The most seconds to pause after the first such conflict; each further one adds as many."""
NODE_BYTES_MAX: Final = 256 * 1024
"""The most bytes in one node. ZooKeeper keeps all nodes in memory and refuses one of a megabyte;
the largest useful value, the boundaries of 16,384 bundles, has 210 kB."""


class TooLarge(BrokerError):
    """A value is larger than one node of the metadata store may be."""

    def __init__(self, size: int) -> None:
        super().__init__(
            ServerError.NotAllowedError,
            f"{size} bytes are too many for one metadata node; at most {NODE_BYTES_MAX}",
        )


class JsonNode:
    """A node of the metadata store whose value is a JSON object; reads are cached."""

    __slots__ = ("_cache", "_store", "path")

    def __init__(self, store: MetadataStore, cache: MetadataCache[JsonObject], path: str) -> None:
        self._store = store
        self._cache = cache
        self.path = path

    async def get(self) -> JsonObject | None:
        """The JSON object; None if there is no such node."""
        return await self._cache.get(self.path)

    async def create(self, value: Mapping[str, Any]) -> None:
        """Create the node; raises `BadVersion` if it exists."""
        await self._store.put(self.path, write_object(value), expected_version=MUST_NOT_EXIST)
        self._cache.forget(self.path)

    async def change(
        self, change: Callable[[JsonObject], Mapping[str, Any]], *, create: bool = False
    ) -> JsonObject:
        """Change the object by compare-and-set, retried if another client wrote it; returns the new
        one.

        A missing node raises `NotFound`, or with ``create`` counts as an empty object. Raises
        `BadVersion` after `UPDATE_ROUNDS` attempts.
        """
        for lost in range(UPDATE_ROUNDS):
            stored = await self._store.get(self.path)
            if stored is None and not create:
                raise NotFound(self.path)
            after = dict(change({} if stored is None else read_object(stored.value)))
            expected = MUST_NOT_EXIST if stored is None else stored.version
            try:
                await self._store.put(self.path, write_object(after), expected_version=expected)
            except BadVersion:
                await asyncio.sleep(random.random() * UPDATE_PAUSE_S * (lost + 1))
                continue
            self._cache.forget(self.path)
            return after
        raise BadVersion(self.path)

    async def replace(self, value: Mapping[str, Any], *, create: bool = False) -> None:
        """Replace the object by ``value``; raises as `change` does."""
        await self.change(lambda _: value, create=create)

    async def delete(self, *, missing_ok: bool = False) -> None:
        """Delete the node; raises `NotFound`, and `NotEmpty` while there are nodes below it."""
        try:
            await self._store.delete(self.path)
        except NotFound:
            if not missing_ok:
                raise
        self._cache.forget(self.path)


def read_object(value: bytes) -> JsonObject:
    """Parse a node's JSON object; an empty node, as ZooKeeper parents are, is an empty object.

    Any other content counts as an empty object, too: one wrong write must not stop every reader.
    """
    try:
        read = json.loads(value) if value else {}
    except (ValueError, RecursionError) as error:
        log.warning("a metadata node holds no JSON, taken as empty: %s: %r", error, value[:80])
        return {}
    return read if isinstance(read, dict) else {}


def write_object(value: Mapping[str, Any]) -> bytes:
    """The bytes of a JSON object, formatted as Jackson does; raises `TooLarge`."""
    data = json.dumps(value, separators=(",", ":")).encode()
    if len(data) > NODE_BYTES_MAX:
        raise TooLarge(len(data))
    return data
