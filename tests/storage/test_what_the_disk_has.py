"""What the disk has before anything is acknowledged, handed over or deleted."""

import asyncio
import errno
import threading
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from counterpoise.storage.files import fence
from counterpoise.storage.files import store as files_store
from counterpoise.storage.files.disk import LedgerDisk, write_all
from counterpoise.storage.files.fence import Fence
from counterpoise.storage.files.recovery import survey, take_over
from counterpoise.storage.files.store import FileLedgerStore
from counterpoise.storage.port import LogFencedError, StorageError
from tests.storage.conftest import Heard, everything, settled, write
from tests.storage.faults import NAME, Failing, FaultyDisk, Hanging, cursor_at, opened, refused
from tests.waiting import WITHIN_S, until


async def test_an_acknowledgement_is_given_after_the_last_look_at_the_fence(tmp_path: Path) -> None:
    """A successor that comes between a look at the fence and the write misses the entry."""
    disk = FaultyDisk()
    store, log, heard = await opened(tmp_path, disk)
    await write(log, heard, b"kept")
    came: list[int] = []

    def successor(what: str, path: Path) -> None:
        if what == "write" and path.suffix == ".ledger" and not came:
            came.append(0)
            found = take_over(tmp_path / NAME, "successor", FaultyDisk())
            came[0] = sum(each.entries for each in found.saved.ledgers)

    disk.before = successor
    log.append(b"in between", 1, "lost")
    await heard.until(lambda: heard.error is not None)
    assert came == [1]
    assert isinstance(heard.error, LogFencedError)
    assert (heard.entries, heard.lost_contexts) == ([b"kept"], ["lost"])
    await log.close()
    await store.close()


async def test_a_successor_fences_before_it_reads_anything(tmp_path: Path) -> None:
    """Otherwise the former owner may acknowledge what the successor has read past."""
    disk = FaultyDisk()
    store, log, heard = await opened(tmp_path, disk)
    await write(log, heard, b"kept")
    looked: list[str] = []

    def former(what: str, path: Path) -> None:
        if what == "read" and path.name != "fence":
            looked.append(path.name)
            assert not log.fence.holds(), path  # type: ignore[attr-defined]
            assert tmp_path / NAME / "fence" not in following.unsynced, path

    following = FaultyDisk()
    following.before = former
    take_over(tmp_path / NAME, "successor", following)
    assert any(name.endswith(".ledger") for name in looked)
    assert any(name.startswith("state-") for name in looked)
    await log.close()
    await store.close()


def test_the_fence_after_a_released_log_needs_no_sync_unless_another_owner_came_between(
    tmp_path: Path,
) -> None:
    """An owner that released the log writes no more; one that took over after it may."""
    disk = FaultyDisk()
    assert fence.claim(tmp_path, "first", disk).epoch == 1
    assert tmp_path / "fence" not in disk.unsynced
    assert fence.claim(tmp_path, "successor", disk, released=1).epoch == 2
    assert tmp_path / "fence" in disk.unsynced
    disk.unsynced.clear()
    assert fence.claim(tmp_path, "late", disk, released=1).epoch == 3
    assert tmp_path / "fence" not in disk.unsynced


async def test_everything_that_decides_what_is_stored_is_synced(tmp_path: Path) -> None:
    """Files and their names: when a step is over, nothing of it is in memory only."""
    disk = FaultyDisk()
    for owner in ("a", "b"):
        store, log, heard = await opened(tmp_path, disk, owner)
        await settled(store)
        # What an empty ledger begins with gets to the disk together with its first entry.
        assert {path.suffix for path in _volatile(disk)} <= {".ledger"}
        assert {path.suffix for path in _volatile(disk) & disk.unnamed} == set()
        store.ledger_bytes = 10
        for number in range(3):
            await write(log, heard, b"%d" % number * 20)
            await settled(store)  # a ledger that was closed is noted beside what goes on
            assert not _volatile(disk)
            log.save_cursor(cursor_at(log, log.end - 1))
            await log.flush()
            assert not _volatile(disk)
        log.trim(log.end - 1)
        await log.flush()
        await log.close()
        assert {path.suffix for path in _volatile(disk)} <= {".final"}
        await store.close()
        # The name of what only the next owner reads: without it that one looks for itself.
        assert {path.suffix for path in _volatile(disk) & disk.unsynced} == set()
        disk.unnamed -= {path for path in disk.unnamed if path.suffix == ".final"}
        assert not _volatile(disk)
    assert {path.name for path in disk.forgotten if "committed-" not in path.name} <= {"fence"}


@pytest.mark.parametrize(
    ("file", "new"),
    [("state-", False), ("x", False), (".ledger", False), ("persistent", True), ("x", True)],
)
async def test_nothing_is_acknowledged_before_the_disk_has_all_of_it(
    tmp_path: Path, file: str, new: bool
) -> None:
    """The ledger, the state that counts it in, the directory that has their names, and its own."""
    disk = FaultyDisk()
    disk.before = hang = Hanging("sync", file)
    store, heard = FileLedgerStore(tmp_path, disk=disk), Heard()
    if not new:
        (tmp_path / NAME).mkdir(parents=True)
        (tmp_path / NAME / "fence").touch()
    log = await store.open(NAME, "a", heard)
    log.append(b"entry", 1, "waits")
    await asyncio.to_thread(hang.reached.wait, WITHIN_S)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await log.drain()
    assert heard.entries == []
    hang.released.set()
    await heard.until(lambda: heard.entries == [b"entry"])
    await store.close()


@pytest.mark.parametrize("waits", [True, False], ids=["with a write under way", "before any write"])
@pytest.mark.parametrize("name", ["state-", Path(NAME).name], ids=["state", "its name"])
async def test_a_state_that_cannot_be_saved_fails_no_later_write(
    tmp_path: Path, waits: bool, name: str
) -> None:
    """The later one is acknowledged once a state is on disk, by its name."""
    disk = FaultyDisk()
    disk.before = fault = Failing("sync", name, errno.EIO)
    store, log, heard = await opened(tmp_path, disk)
    if waits:
        await refused(log, heard, b"refused")
        assert "its state is not saved" in str(heard.refusals[0])
    else:
        await settled(store)
    fault.on = False
    await write(log, heard, b"stored")
    assert len(heard.refusals) == waits
    assert {*(tmp_path / NAME).glob("state-*")} - disk.unsynced - disk.unnamed
    await store.close()  # as by a kill
    store, log, _ = await opened(tmp_path, FaultyDisk(), "next")
    assert await everything(log) == [b"stored"]
    await store.close()


async def test_an_owner_that_closes_leaves_the_disk_to_the_next_one_first(tmp_path: Path) -> None:
    """Two that make a disk wait at the same time wait for each other."""
    disk = FaultyDisk()
    store, log, heard = await opened(tmp_path, disk)
    store.tidy_seconds = 3600
    await write(log, heard, b"1")
    await log.close()
    again, log, _ = await opened(tmp_path, FaultyDisk(), "next")
    assert any(path.suffix == ".final" for path in disk.unsynced)
    await store.close()
    assert not any(path.suffix == ".final" for path in disk.unsynced)
    await log.close()
    await again.close()


async def test_of_many_logs_that_close_at_once_most_do_not_wait_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor do they keep a file open until it has their last states, and nothing of them is lost.

    Of those that close one after the other, the disk has each last state.
    """
    most = 5
    monkeypatch.setattr(files_store, "UNFINISHED_MAX", most)
    disk = FaultyDisk()
    store = FileLedgerStore(tmp_path, disk=disk)
    store.tidy_seconds = 0
    for number in range(2 * most):
        await (await store.open(f"t/n/persistent/{number}", "first", Heard())).close()
        await until(lambda: not any(path.suffix == ".final" for path in disk.paths.values()))
    assert not any(path.suffix == ".final" for path in disk.forgotten)
    store.tidy_seconds = 3600
    names, logs = [f"t/n/persistent/{number}" for number in range(most + 3)], []
    for name in names:
        heard = Heard()
        logs.append(await store.open(name, "a", heard))
        await write(logs[-1], heard, name.encode())
    await asyncio.gather(*(log.close() for log in logs))
    still_open = [path for path in disk.paths.values() if path.suffix == ".final"]
    assert len(still_open) == most
    await store.close()
    assert list(disk.paths.values()) == []
    again = FileLedgerStore(tmp_path)
    for name in names:
        log = await again.open(name, "next", Heard())
        assert await everything(log) == [name.encode()]
        await log.close()
    await again.close()


async def test_what_is_deleted_while_it_is_read_is_not_there(tmp_path: Path) -> None:
    disk, heard = FaultyDisk(), Heard()
    store = FileLedgerStore(tmp_path, disk=disk, ledger_bytes=1, cache_bytes=1)
    log = await store.open(NAME, "a", heard)
    for entry in (b"1", b"2"):
        await write(log, heard, entry)
    disk.before = hanging = Hanging("open", ".ledger")
    reading = asyncio.create_task(log.read(0, 100))
    await asyncio.to_thread(hanging.reached.wait, WITHIN_S)
    log.trim(1)
    await log.flush()
    hanging.released.set()
    assert await reading == (0, (), ())
    await log.close()
    await store.close()


async def test_a_log_that_is_open_leaves_its_place_to_others_that_are_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether those are released is answered at once, however busy the threads are."""
    monkeypatch.setattr(files_store, "PREPARED_MAX", 1)
    successor = FileLedgerStore(tmp_path)
    await successor.prepare(NAME)
    await (await successor.open(NAME, "next", Heard())).close()
    await successor.prepare("t/n/persistent/other")
    monkeypatch.setattr(successor, "in_thread", AsyncMock(side_effect=TimeoutError))
    assert not await successor.is_released("t/n/persistent/other")


async def test_a_hand_over_waits_for_a_slow_disk_once(tmp_path: Path) -> None:
    """The former owner for none of its syncs, the next one for all of them at the same time."""
    disk, theirs = FaultyDisk(), FaultyDisk()
    store, log, heard = await opened(tmp_path, disk)
    await write(log, heard, b"1", b"2")
    log.save_cursor(cursor_at(log, 0))
    await settled(store)
    log.save_cursor(cursor_at(log, 1))
    disk.before = ours = Hanging("sync", "")
    next_store, next_heard = FileLedgerStore(tmp_path, disk=theirs), Heard()
    await next_store.prepare(NAME)
    log.close_seconds = 5  # type: ignore[attr-defined]
    await log.close()
    waiting: set[str] = set()
    all_wait, released = threading.Event(), threading.Event()

    def wait(what: str, path: Path) -> None:
        if what == "sync":
            waiting.add(path.suffix or path.name)
            if waiting == {".b", "x", ".ledger"}:
                all_wait.set()
            released.wait(WITHIN_S)

    theirs.before = wait
    next_log = await next_store.open(NAME, "next", next_heard)
    assert next_log.cursors["s"].mark_delete == (0, 1)
    next_heard.entries += [b"1", b"2"]
    next_log.append(b"3", 1, "goes on")
    assert await asyncio.to_thread(all_wait.wait, WITHIN_S), waiting
    assert next_heard.entries == [b"1", b"2"]
    released.set()
    await next_heard.until(lambda: next_heard.entries[2:] == [b"3"])
    ours.released.set()
    await store.close()
    await next_store.close()


def _volatile(disk: FaultyDisk) -> set[Path]:
    """What a power failure would take, but for the note that nothing depends on."""
    return {p for p in disk.unsynced | disk.unnamed if not p.name.startswith("committed-")}


async def test_what_a_failed_write_left_is_ruled_out_before_anything_follows(
    tmp_path: Path,
) -> None:
    disk = FaultyDisk()
    store, log, heard = await opened(tmp_path, disk)
    await write(log, heard, b"first")
    disk.before = Failing("write", ".ledger", errno.EIO)
    await refused(log, heard, b"lost")
    done: list[str] = []
    disk.before = lambda what, path: done.append(path.name) if what == "write" else None
    await write(log, heard, b"second")
    kinds = ["state" if name.startswith("state-") else name[-7:] for name in done]
    assert kinds[:2] == ["state", ".ledger"], done
    await log.close()
    await store.close()


def test_a_disk_that_takes_nothing_fails_the_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it took before."""
    disk, took = LedgerDisk(), iter([1, 0])
    monkeypatch.setattr(disk, "write", lambda *_, **__: next(took))
    with pytest.raises(OSError, match="took nothing"):
        write_all(disk, 0, [b"abc"], 0)


async def test_deleted_ledgers_are_in_no_copy_of_the_state(tmp_path: Path) -> None:
    disk = FaultyDisk()
    store, log, heard = await opened(tmp_path, disk)
    store.ledger_bytes = 10
    for number in range(4):
        await write(log, heard, b"%d" % number * 20)
    await log.flush()
    log.trim(log.end - 1)
    disk.before = Failing("write", "state-", errno.EIO)
    with pytest.raises(StorageError, match="state cannot be saved"):
        await log.flush()
    assert len(list((tmp_path / NAME).glob("*.ledger"))) == 4, "a copy may list them still"
    disk.before = Failing("remove", ".ledger", errno.EIO)
    with pytest.raises(StorageError, match="state cannot be saved"):
        await log.flush()
    disk.before = lambda _what, _path: None
    found = survey(tmp_path / NAME, disk)
    assert [each.ledger_id for each in found.sealed] == [3], "whatever files are left"
    await log.flush()
    assert len(list((tmp_path / NAME).glob("*.ledger"))) == 1
    await store.close()
    newest = max((tmp_path / NAME).glob("state-*"), key=lambda path: path.stat().st_mtime_ns)
    newest.write_bytes(b"damaged")
    store, log, _ = await opened(tmp_path, FaultyDisk(), "next")
    assert list(log.lost) == []
    assert await everything(log) == [b"3" * 20]
    await log.close()
    await store.close()


async def test_an_owner_that_was_fenced_while_it_saved_deletes_no_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its successor may count on the files."""
    store, log, heard = await opened(tmp_path, FaultyDisk())
    store.ledger_bytes = 10
    for number in range(4):
        await write(log, heard, b"%d" % number * 20)
    await log.flush()
    looks = iter([True, False])
    monkeypatch.setattr(Fence, "holds", lambda _: next(looks, False))
    log.trim(log.end - 1)
    with pytest.raises(LogFencedError):
        await log.flush()
    assert next(looks, None) is None, "it looked before the save and after"
    assert len(list((tmp_path / NAME).glob("*.ledger"))) == 4
    await store.close()
