"""Damaged and lost states of a log: the one before serves, and nothing comes back."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from counterpoise.storage.files import state
from counterpoise.storage.files.disk import LedgerDisk
from counterpoise.storage.files.recovery import take_over
from counterpoise.storage.files.store import FileLedgerStore
from counterpoise.storage.files.verify import LedgerReport, LogReport, verify
from counterpoise.storage.grouplog import Log
from counterpoise.storage.port import CursorState, Lost, Position
from tests.storage.conftest import Heard, everything, settled, write
from tests.storage.faults import FaultyDisk, Hanging
from tests.storage.ledgers import ENTRIES, NAME, crashed, ends, old_ledger
from tests.waiting import WITHIN_S


async def with_cursor(root: Path) -> tuple[FileLedgerStore, Log[object]]:
    """A log whose cursor was saved at entry 0, and then at entry 2."""
    store, heard = FileLedgerStore(root), Heard()
    log = await store.open(NAME, "a", heard)
    await write(log, heard, *ENTRIES)
    for entry in (0, 2):
        log.save_cursor(CursorState("s", log.position(entry)))
        await log.flush()
    return store, log


@pytest.mark.parametrize(
    "found",
    [
        {"ledgers": (LedgerReport(0, Path("l"), 4, 40, (Lost(0, 1, 2),)),)},
        {"unreadable": (Path("state"),)},
        {"cursors_lost": True},
        {"problem": "permission denied"},
    ],
)
def test_a_log_of_which_anything_is_missing_is_not_sound(found: dict[str, Any]) -> None:
    assert LogReport(NAME, (LedgerReport(0, Path("l"), 4, 40),)).sound
    assert not LogReport(NAME, **found).sound


def test_a_state_that_comes_late_is_not_written_over_a_newer_one(tmp_path: Path) -> None:
    disk = LedgerDisk()
    states = state.StateFiles(tmp_path, 1, disk)
    first, second, third = (
        state.SavedState(1, 0, (), {"s": CursorState("s", Position(0, entry))}, b"marker")
        for entry in range(3)
    )
    states.begin(first)
    states.settle()
    states.save(third, number=2)
    states.save(second, number=1)
    assert state.load(tmp_path, 1, disk).state == third


async def test_states_of_former_owners_are_deleted(tmp_path: Path) -> None:
    store = FileLedgerStore(tmp_path)
    store.tidy_seconds = 0
    for closes in (True, False, True):
        log = await store.open(NAME, "a", Heard())
        log.save_cursor(CursorState("s", log.position(0)))
        await log.flush()
        if closes:
            await log.close()
    await (await store.open(NAME, "b", Heard())).flush()
    await settled(store)
    (epoch,) = state.epochs(tmp_path / NAME)
    names = [path.name for path in (tmp_path / NAME).glob("state-*")]
    assert {state.epoch_of(name) for name in names} == {epoch}
    assert {name[-2:] for name in names} == {".a", ".b"}, "one that is damaged has another"
    await store.close()


@pytest.mark.parametrize("damage", ["flip", "cut", "zeros", "gone"])
async def test_a_damaged_state_falls_back_to_the_one_before(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Each copy in turn: what is acknowledged may come again, and nothing is lost."""
    for number, copy in enumerate("ab"):
        root = tmp_path / copy
        store, _ = await with_cursor(root)
        await store.close()
        (path,) = (root / NAME).glob(f"state-*.{copy}")
        spoil(path, damage)
        store = FileLedgerStore(root)
        log = await store.open(NAME, "next", Heard())
        mark = log.cursors["s"].mark_delete.entry_id
        assert mark in (0, 2), number
        assert await everything(log) == ENTRIES
        assert (str(path) in caplog.text) is (damage != "gone")
        assert not log.cursors_lost
        await log.close()
        await store.close()


@pytest.mark.parametrize("damage", ["flip", "cut", "zeros", "gone"])
async def test_without_any_state_the_ledgers_are_served(tmp_path: Path, damage: str) -> None:
    store, log = await with_cursor(tmp_path)
    await log.close()
    await store.close()
    for path in (tmp_path / NAME).glob("state-*"):
        spoil(path, damage)
    for _ in range(2):
        store = FileLedgerStore(tmp_path)
        log = await store.open(NAME, "next", Heard())
        assert await everything(log) == ENTRIES
        assert log.cursors == {}
        assert log.cursors_lost
        await log.close()
        await store.close()


async def test_cursors_are_lost_as_long_as_a_ledger_is_left_from_before(tmp_path: Path) -> None:
    """A subscription that comes later than that cannot have been there."""
    store, log = await with_cursor(tmp_path)
    await log.close()
    await store.close()
    for path in (tmp_path / NAME).glob("state-*"):
        spoil(path, "zeros")
    store, heard = FileLedgerStore(tmp_path), Heard()
    log = await store.open(NAME, "next", heard)
    await write(log, heard, b"new")
    assert log.cursors_lost
    log.trim(log.end - 1)
    assert not log.cursors_lost
    await log.close()
    assert not (await store.open(NAME, "last", Heard())).cursors_lost
    await store.close()


async def test_a_state_of_the_old_format_is_read(tmp_path: Path) -> None:
    directory = tmp_path / NAME
    await asyncio.to_thread(directory.mkdir, parents=True)
    entries = [b"old %d" % n for n in range(3)]
    (directory / f"7-{1:016x}.ledger").write_bytes(old_ledger(entries))
    (directory / f"state-{1:016x}.json").write_text(
        '{"epoch":1,"first":7,"ledgers":[[7,1,3,15]],"cursors":'
        '[{"name":"s","markDelete":[7,0],"acked":[[[7,2],[7,2]]],"properties":{"a":"b"}}]}'
    )
    (directory / "fence").write_bytes(f"{1:016x} old".encode().ljust(255) + b"\n")
    for added in ([], [b"new"]):
        store, heard = FileLedgerStore(tmp_path), Heard()
        log = await store.open(NAME, "next", heard)
        assert await everything(log) == [*entries, *added]
        assert log.cursors["s"].acked == ((Position(7, 2), Position(7, 2)),)
        assert log.cursors["s"].properties == {"a": "b"}
        if not added:
            await write(log, heard, b"new")
        await log.close()
        await store.close()


def spoil(path: Path, damage: str) -> None:
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[data.index(b"{") + 30] ^= 2
    elif damage == "cut":
        del data[60:]
    elif damage == "zeros":
        data[:] = bytes(len(data))
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(data)


async def test_a_lost_fence_does_not_bring_an_epoch_back(tmp_path: Path) -> None:
    await crashed(tmp_path, ENTRIES)
    directory = tmp_path / NAME
    (before,) = state.epochs(directory)
    (directory / "fence").write_bytes(b"")
    recovered = take_over(directory, "next", LedgerDisk())
    assert recovered.fence.epoch > before
    assert [s.entries for s in recovered.saved.ledgers] == [len(ENTRIES)]


async def test_a_ledger_that_was_closed_while_the_state_was_saved_is_in_the_state(
    tmp_path: Path,
) -> None:
    """The next ledger begins, and its first entries are still on their way to the disk."""
    disk = FaultyDisk()
    store, heard = FileLedgerStore(tmp_path, ledger_bytes=1, disk=disk), Heard()
    log = await store.open(NAME, "dead", heard)
    await write(log, heard, *ENTRIES)
    disk.before = late = Hanging("write", "1-")
    log.append(b"in the next ledger", 1, None)
    await asyncio.to_thread(late.reached.wait, WITHIN_S)
    await log.cursors_saved()
    late.released.set()
    await log.flush()
    await store.close()
    first, _ = sorted((tmp_path / NAME).glob("*.ledger"))
    first.write_bytes(first.read_bytes()[: ends()[1]])
    (report,) = verify(tmp_path)
    assert [ledger.lost for ledger in report.ledgers] == [(Lost(0, 2, 3),), ()]


@pytest.mark.parametrize("copy", ["a", "b"])
async def test_either_copy_of_the_state_knows_how_much_a_closed_ledger_has(
    tmp_path: Path, copy: str
) -> None:
    """Otherwise what is missing at its end is no loss, and nobody hears of it."""
    store, heard = FileLedgerStore(tmp_path, ledger_bytes=1), Heard()
    log = await store.open(NAME, "dead", heard)
    await write(log, heard, *ENTRIES)
    await log.flush()
    await write(log, heard, b"in the next ledger")
    await log.flush()
    await store.close()
    ledger, _ = sorted((tmp_path / NAME).glob("*.ledger"))
    ledger.write_bytes(ledger.read_bytes()[: ends()[1]])
    (path,) = (tmp_path / NAME).glob(f"state-*.{copy}")
    spoil(path, "zeros")
    store = FileLedgerStore(tmp_path)
    log = await store.open(NAME, "next", Heard())
    assert await everything(log) == [*ENTRIES[:2], b"", b"", b"in the next ledger"]
    assert list(log.lost) == [Lost(0, 2, 3)]
    await log.close()
    await store.close()
