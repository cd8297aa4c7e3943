"""A caller that stops waiting for a log to close leaves no file open."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from tests.storage.conftest import write
from tests.storage.faults import FaultyDisk, Hanging
from tests.storage.test_faults import opened


@pytest.mark.parametrize("store_closes", ["meanwhile", "afterwards"])
async def test_a_log_whose_closing_is_given_up(tmp_path: Path, store_closes: str) -> None:
    disk = FaultyDisk()
    store, log, heard = await opened(tmp_path, disk)
    store.tidy_seconds = 3600
    await write(log, heard, b"1")
    disk.before = hanging = Hanging("write", ".final")
    closing = asyncio.create_task(log.close())
    await asyncio.to_thread(hanging.reached.wait, 10)
    closing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await closing
    if store_closes == "meanwhile":
        ending = asyncio.create_task(store.close())
        while not store.closed:  # noqa: ASYNC110
            await asyncio.sleep(0)
        hanging.released.set()
        await ending
    else:
        hanging.released.set()
        await store.close()
    assert list(disk.paths.values()) == []
    # And what it wrote counts: the next owner finds that all is there.
    assert [each for each in disk.unsynced if each.suffix == ".final"] == []
    again, log, _ = await opened(tmp_path, FaultyDisk(), "next")
    assert log.end == 1
    await log.close()
    await again.close()
