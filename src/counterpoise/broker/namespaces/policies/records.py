"""JSON objects in the metadata store: read, create, replace, change."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from counterpoise.metadata import BadVersion, MetadataStore, NotFound
from counterpoise.metadata.cache import MetadataCache
from counterpoise.metadata.port import MUST_NOT_EXIST

JsonObject = dict[str, Any]

UPDATE_ROUNDS: Final = 10
"""How often a change is tried again when somebody else changed the node meanwhile."""


class Records:
    """What the kinds of policies have in common: one store, one cache."""

    def __init__(self, store: MetadataStore, cache: MetadataCache[JsonObject]) -> None:
        self._store = store
        self._cache = cache

    @staticmethod
    def cache_of(store: MetadataStore) -> MetadataCache[JsonObject]:
        """A cache of everything below ``/admin``."""
        return MetadataCache(store, "/admin/", read_object)

    async def _get(self, path: str) -> JsonObject | None:
        return await self._cache.get(path)

    async def _put(self, path: str, value: Mapping[str, Any], *, create: bool) -> None:
        if create:
            await self._store.put(path, write_object(value), expected_version=MUST_NOT_EXIST)
        elif await self._store.exists(path):
            await self._store.put(path, write_object(value))
        else:
            raise NotFound(path)
        self._cache.forget(path)

    async def _update(
        self, path: str, change: Callable[[JsonObject], Mapping[str, Any]]
    ) -> JsonObject:
        """Read, change and write in one compare-and-set, again while others are faster."""
        for _ in range(UPDATE_ROUNDS):
            stored = await self._store.get(path)
            if stored is None:
                raise NotFound(path)
            after = dict(change(read_object(stored.value)))
            try:
                await self._store.put(path, write_object(after), expected_version=stored.version)
            except BadVersion:
                continue
            self._cache.forget(path)
            return after
        raise BadVersion(path)

    async def _delete(self, path: str) -> None:
        await self._store.delete(path)
        self._cache.forget(path)


def read_object(value: bytes) -> JsonObject:
    """A node's JSON object; an empty node, as ZooKeeper parents are, is an empty one."""
    read = json.loads(value) if value else {}
    return read if isinstance(read, dict) else {}


def write_object(value: Mapping[str, Any]) -> bytes:
    """Bytes of a JSON object, as Jackson writes them."""
    return json.dumps(value, separators=(",", ":")).encode()
