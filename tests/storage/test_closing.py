"""A log leaves no file open, whatever happened while it opened or closed."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from counterpoise.storage.files.store import FileLedgerStore
from counterpoise.storage.local_ids import LocalLedgerIds
from tests.storage.conftest import Heard, write
from tests.storage.faults import FaultyDisk, Hanging
from tests.storage.test_faults import NAME, opened
from tests.waiting import WITHIN_S


@pytest.mark.parametrize("store_closes", ["meanwhile", "afterwards"])
async def test_a_log_whose_closing_is_given_up(tmp_path: Path, store_closes: str) -> None:
    disk = FaultyDisk()
    store, log, heard = await opened(tmp_path, disk)
    store.tidy_seconds = 3600
    await write(log, heard, b"1")
    disk.before = hanging = Hanging("write", ".final")
    closing = asyncio.create_task(log.close())
    await asyncio.to_thread(hanging.reached.wait, WITHIN_S)
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


class LateIds(LocalLedgerIds):
    """None is at hand when a log is opened."""

    fetched = 0

    def next_id(self, above: int) -> int:
        return super().next_id(above) if self.fetched else None  # type: ignore[return-value]

    async def fetch(self, above: int) -> None:
        self.fetched += 1


async def test_a_log_that_waited_for_a_ledger_id_leaves_no_file_open(tmp_path: Path) -> None:
    disk, heard, ids = FaultyDisk(), Heard(), LateIds()
    store = FileLedgerStore(tmp_path, disk=disk)
    log = await store.open(NAME, "a", heard, ids)
    await write(log, heard, b"x")
    await log.close()
    await store.close()
    assert (ids.fetched, list(disk.paths.values())) == (1, [])
