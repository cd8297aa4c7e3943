"""Reads the entries of a log: all from an index on, or a single one."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from counterpoise.storage.grouplog import Log

_READ_BYTES: Final = 1 << 20


async def parts_from(log: Log[Any], index: int) -> AsyncIterator[tuple[int, Sequence[bytes]]]:
    """Yield a log's entries from ``index`` to its end in parts: (index of the first entry,
    entries).

    Raises `StorageError`.
    """
    while index < log.end:
        index = max(index, log.begin)
        chunk = log.cached(index) or await log.read(index, _READ_BYTES)
        entries = chunk.entries[index - chunk.first :]
        yield index, entries
        index += len(entries)


async def entry_at(log: Log[Any], index: int) -> bytes:
    """The entry at ``index``, which was stored; empty if it is lost or deleted.

    Raises `StorageError`.
    """
    chunk = log.cached(index) or await log.read(index, 1)
    return chunk.entries[index - chunk.first] if chunk.entries else b""
