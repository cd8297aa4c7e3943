"""Deletes metadata nodes without waiting for it."""

import asyncio
import contextlib
from collections.abc import Iterable

from counterpoise.metadata.errors import MetadataError
from counterpoise.metadata.port import MetadataStore


class BackgroundDeletes:
    """Deletes metadata nodes in the background; one that cannot be deleted does no harm."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, paths: Iterable[str]) -> None:
        """Delete these nodes in their order, up to the first that cannot be deleted."""
        task = asyncio.create_task(self._delete(paths))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _delete(self, paths: Iterable[str]) -> None:
        with contextlib.suppress(MetadataError):
            for path in paths:
                await self._store.delete(path)
