"""Disks that fail, fill up or hang: nothing acknowledged is lost, every caller gets an answer."""

import asyncio
import errno
from pathlib import Path

import pytest

from counterpoise.storage.files.store import FileLedgerStore
from counterpoise.storage.grouplog import Log
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.storage.port import StorageError
from tests.storage.conftest import Heard, everything, settled, write
from tests.storage.faults import NAME, Failing, FaultyDisk, Hanging, cursor_at, opened, refused
from tests.waiting import WITHIN_S

FAULTS = [
    ("write", ".ledger", errno.ENOSPC),
    ("write", ".ledger", errno.EIO),
    ("sync", ".ledger", errno.EIO),
    ("open", ".ledger", errno.EMFILE),
    ("open", "fence", errno.EIO),
    ("read", "fence", errno.EIO),
]


@pytest.mark.parametrize("crash", [True, False], ids=["killed", "closed"])
@pytest.mark.parametrize("first", [True, False], ids=["first write", "later write"])
@pytest.mark.parametrize(("what", "file", "code"), FAULTS)
async def test_a_failed_write_fails_its_callers_and_the_log_goes_on(
    tmp_path: Path, what: str, file: str, code: int, first: bool, crash: bool
) -> None:
    disk = FaultyDisk()
    store, log, heard = await opened(tmp_path, disk)
    kept = [] if first else [b"kept 1", b"kept 2"]
    if kept:
        await write(log, heard, *kept)
    # Private: no setting keeps no file open.
    store.descriptors._limit = -1  # files are opened again for each write
    disk.before = fault = Failing(what, file, code)
    if what == "open" and file == ".ledger":
        log._file.close()  # type: ignore[attr-defined]
    for _ in range(2):
        await refused(log, heard, b"refused 1", b"refused 2")
    assert fault.times
    assert heard.lost_contexts == [b"refused 1", b"refused 2"] * 2
    assert heard.error is None
    fault.on = False
    await write(log, heard, b"after")
    assert await everything(log) == [*kept, b"after"]
    await write(log, heard, b"and on")
    # Writes succeed again, so the ledger that was begun for them goes on.
    assert heard.positions[-1] == (heard.positions[-2][0], heard.positions[-2][1] + 1)
    if not crash:
        await log.close()
    await store.close()
    store, log, _ = await opened(tmp_path, FaultyDisk(), "next")
    # What was refused is not there, though the disk may have all of it.
    assert await everything(log) == [*kept, b"after", b"and on"]
    assert list(log.lost) == []
    await log.close()
    await store.close()


async def test_nothing_follows_a_failed_write_before_its_ledger_is_closed_for_good(
    tmp_path: Path,
) -> None:
    """With the state not to be saved, what the failed write left behind could come back."""
    disk = FaultyDisk()
    store, log, heard = await opened(tmp_path, disk)
    await write(log, heard, b"kept")
    disk.before = fault = Failing("sync", ".ledger", errno.EIO)
    await refused(log, heard, b"refused")
    fault.suffix = "state-"
    await refused(log, heard, b"refused too")
    fault.on = False
    await write(log, heard, b"after")
    await store.close()
    store, log, _ = await opened(tmp_path, FaultyDisk(), "next")
    assert await everything(log) == [b"kept", b"after"]
    await log.close()
    await store.close()


async def test_what_waits_behind_a_failed_write_is_not_stored_before_it(tmp_path: Path) -> None:
    disk = FaultyDisk()
    store, log, heard = await opened(tmp_path, disk)
    disk.before = hang = Hanging("write", ".ledger")
    log.append(b"1", 1, 1)
    await asyncio.to_thread(hang.reached.wait, WITHIN_S)
    log.append(b"2", 1, 2)
    disk.before = Failing("sync", ".ledger", errno.EIO)
    hang.released.set()
    await heard.until(lambda: bool(heard.refusals))
    assert heard.lost_contexts == [1, 2]
    disk.before = lambda _what, _path: None
    await write(log, heard, b"3")
    assert await everything(log) == [b"3"]
    await log.close()
    await store.close()


async def test_what_comes_while_a_group_is_written_is_one_group(tmp_path: Path) -> None:
    disk = FaultyDisk()
    store, log, heard = await opened(tmp_path, disk)
    disk.before = hang = Hanging("write", ".ledger")
    groups: list[int] = []
    heard.committed = lambda group: groups.append(len(group.entries))  # type: ignore[method-assign]
    log.append(b"1", 1, 1)
    await asyncio.to_thread(hang.reached.wait, WITHIN_S)
    for entry in (b"2", b"3"):
        log.append(entry, 1, entry)
        await asyncio.sleep(0)
    hang.released.set()
    await log.drain()
    assert groups == [1, 2]
    await log.close()
    await store.close()


async def test_a_read_that_fails_is_an_error_and_loses_nothing(tmp_path: Path) -> None:
    disk = FaultyDisk()
    store, log, heard = await opened(tmp_path, disk)
    await write(log, heard, b"kept")
    disk.before = fault = Failing("read", ".ledger", errno.EIO)
    with pytest.raises(StorageError, match=r"0-.*\.ledger cannot be read"):
        await log.read(0, 100)
    fault.on = False
    assert list((await log.read(0, 100)).entries) == [b"kept"]
    assert (list(log.lost), heard.damage) == ([], [])
    await log.close()
    await store.close()


async def test_a_full_disk_keeps_cursors_where_they_are_and_saves_them_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FaultyDisk()
    store, log, heard = await opened(tmp_path, disk)
    await write(log, heard, b"1", b"2")
    disk.before = fault = Failing("write", "state-", errno.ENOSPC)
    log.drop_cursor("never there")
    for _ in range(2):
        log.save_cursor(cursor_at(log, 1))
        with pytest.raises(StorageError, match="its state cannot be saved"):
            await log.flush()
    fault.on = False
    await log.flush()
    await store.close()
    store, log, _ = await opened(tmp_path, FaultyDisk(), "next")
    assert log.cursors["s"].mark_delete.entry_id == 1
    await log.close()
    await store.close()


@pytest.mark.parametrize("file", [".ledger", "state-"])
async def test_closing_waits_for_a_silent_disk_only_so_long(tmp_path: Path, file: str) -> None:
    disk = FaultyDisk()
    store, log, heard = await opened(tmp_path, disk)
    assert isinstance(log, Log)
    log.close_seconds = 0.05
    disk.before = hang = Hanging("write", file)
    log.append(b"1", 1, "waits")
    with pytest.raises(StorageError, match=r"did not answer within 0\.05 s"):
        await log.close()
    if file == ".ledger":
        assert heard.lost_contexts == ["waits"]
        assert heard.entries == []
    hang.released.set()
    await store.close()


async def test_a_store_closes_although_its_disk_answers_no_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every thread that reads may hang there; the broker has to end all the same."""
    monkeypatch.setattr("counterpoise.storage.files.store.CLOSE_SECONDS", 0.05)
    disk = FaultyDisk()
    store, log, heard = await opened(tmp_path, disk)
    await write(log, heard, b"1")
    disk.before = hang = Hanging("open", "fence")
    waiting = [
        asyncio.ensure_future(store.open(f"{NAME}-{each}", "a", Heard())) for each in range(6)
    ]
    assert await asyncio.to_thread(hang.reached.wait, WITHIN_S)
    async with asyncio.timeout(WITHIN_S):
        await store.close()
    assert not any(each.done() for each in waiting)
    hang.released.set()
    for each in waiting:
        each.cancel()


async def test_a_full_disk_takes_the_last_cursors_over_an_older_copy(tmp_path: Path) -> None:
    disk = FaultyDisk()
    store, log, heard = await opened(tmp_path, disk)
    await write(log, heard, b"1", b"2")
    await settled(store)
    disk.before = Failing("write", ".final", errno.ENOSPC)
    log.save_cursor(cursor_at(log, 1))
    await log.close()
    await store.close()
    store, log, _ = await opened(tmp_path, FaultyDisk(), "next")
    assert log.cursors["s"].mark_delete == (0, 1)
    assert await everything(log) == [b"1", b"2"]
    await store.close()


@pytest.mark.parametrize("what", ["open", "write"])
async def test_a_disk_that_takes_no_ledger_lets_a_log_be_read(tmp_path: Path, what: str) -> None:
    store, log, heard = await opened(tmp_path, FaultyDisk())
    await write(log, heard, b"1")
    await log.close()
    await store.close()
    disk = FaultyDisk()
    disk.before = fault = Failing(what, ".ledger", errno.ENOSPC)
    store, log, heard = await opened(tmp_path, disk, "next")
    assert fault.times
    fault.on = False
    assert await everything(log) == [b"1"]
    await write(log, heard, b"2")
    assert await everything(log) == [b"1", b"2"]
    await log.close()
    await store.close()


@pytest.mark.parametrize("kind", ["memory", "files"])
async def test_whatever_is_raised_in_a_commit_fails_that_group_only(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryLedgerStore() if kind == "memory" else FileLedgerStore(tmp_path)
    heard = Heard()
    log = await store.open(NAME, "a", heard)
    await write(log, heard, b"before")

    def wrong(group: object) -> None:
        raise ValueError("a fault of ours")

    with monkeypatch.context() as patched:
        patched.setattr(log, "_write", wrong)
        await refused(log, heard, b"refused")
    assert "a fault of ours" in str(heard.refusals[0])
    await write(log, heard, b"after")
    committed = heard.committed

    def deaf(group: object) -> None:
        raise KeyError("the listener's fault")

    with monkeypatch.context() as patched:
        patched.setattr(heard, "committed", deaf)
        await refused(log, heard, b"stored, but not acknowledged")
    heard.entries.append(b"stored, but not acknowledged")
    assert heard.committed == committed
    await write(log, heard, b"last")
    assert (await everything(log))[-1] == b"last"
    await log.close()
    await store.close()


async def test_what_is_deleted_while_its_loss_is_looked_into_is_no_loss(tmp_path: Path) -> None:
    """Whose the log is has to be read first, and its owner deletes the ledger meanwhile."""
    disk = FaultyDisk()
    store, log, heard = await opened(tmp_path, disk)
    store.ledger_bytes = 1
    for entry in (b"0", b"1", b"2"):
        await write(log, heard, entry)
    await log.flush()
    first = min((tmp_path / NAME).glob("*.ledger"))
    content = bytearray(first.read_bytes())
    content[-1] ^= 1
    first.write_bytes(content)
    disk.before = late = Hanging("read", "fence")
    reading = asyncio.create_task(log.read(0, 100))
    await asyncio.to_thread(late.reached.wait, 10)
    log.trim(1)
    late.released.set()
    assert (await reading).entries == ()
    assert (list(log.lost), heard.damage) == ([], [])
    await log.flush()
    assert list((await log.read(1, 100)).entries) == [b"1"]
    await log.close()
    await store.close()


@pytest.mark.parametrize("goes_on", [False, True])
async def test_what_was_refused_does_not_come_back_once_cursors_were_saved_after_it(
    tmp_path: Path, goes_on: bool
) -> None:
    """The file has all of it, since only its sync failed: its producer sends it again."""
    disk = FaultyDisk()
    store, log, heard = await opened(tmp_path, disk)
    await write(log, heard, b"kept")
    disk.before = fault = Failing("sync", ".ledger", errno.EIO)
    await refused(log, heard, b"refused")
    fault.on = False
    if goes_on:
        await write(log, heard, b"later")
    log.save_cursor(cursor_at(log, 0))
    await log.cursors_saved()
    await store.close()
    store = FileLedgerStore(tmp_path)
    log = await store.open(NAME, "next", Heard())
    assert await everything(log) == [b"kept", *([b"later"] if goes_on else [])]
    await log.close()
    await store.close()
