"""Reads a log for a dispatcher: from the cache at once, from the store in the background."""

import asyncio
import logging
from functools import partial
from typing import Any

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.names.callbacks import Notify
from counterpoise.storage.grouplog import Log
from counterpoise.storage.port import Chunk, StorageError

_log = logging.getLogger(__name__)

READ_BYTES = 1 << 20
"""How many bytes are read at a time for a consumer that lags behind the cache."""

_RETRY_SECONDS = 5.0


class EntryReader:
    """Reads a log for one dispatcher: at once from memory, or in the background from the store."""

    __slots__ = ("_background", "_chunk", "_complaint", "_log", "_reading", "_wake")

    def __init__(self, log: Log[Any], wake: Notify) -> None:
        """``wake`` is called when entries have been read for which `at` returned None."""
        self._log = log
        self._background = BackgroundTasks()
        self._wake = wake
        self._chunk: Chunk | None = None
        self._complaint = ""
        self._reading: asyncio.Task[None] | None = None

    def at(self, index: int) -> Chunk | None:
        """Return the chunk of entries that contains ``index``, if it is in memory.

        Otherwise None: it is read now, and ``wake`` is called when it has been.
        """
        chunk = self.in_memory(index)
        if chunk is not None:
            if chunk is not self._chunk:
                self._chunk = None
            return chunk
        if self._reading is None:
            self._reading = self._background.keep(
                f"reading {self._log.name}", partial(self._read, index)
            )
        return None

    @property
    def is_reading(self) -> bool:
        """Whether a chunk is being read."""
        return self._reading is not None

    def in_memory(self, index: int) -> Chunk | None:
        """The chunk of entries that contains ``index``; None if it is not in memory."""
        chunk = self._log.cached(index)
        if chunk is not None:
            return chunk
        chunk = self._chunk
        is_read = chunk is not None and chunk.first <= index < chunk.first + len(chunk.entries)
        return chunk if is_read else None

    async def _read(self, index: int) -> None:
        try:
            self._chunk = await self._log.read(index, READ_BYTES)
        except StorageError as error:
            # The disk may recover: entries that cannot be read now are not lost, and not skipped.
            if str(error) != self._complaint:
                self._complaint = str(error)
                _log.error("%s: %s; this is tried again", self._log.position(index), error)
            await asyncio.sleep(_RETRY_SECONDS)
        else:
            self._complaint = ""
        self._reading = None
        self._wake()

    def close(self) -> None:
        """Stop reading, and drop the chunk in memory."""
        self._chunk = None
        if self._reading is not None:
            self._reading.cancel()
