"""What a crash leaves behind: torn tails are cut, damage is never served, nothing acked is lost."""

import asyncio
import errno
import os
import shutil
import struct
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest
from crc32c import crc32c

from counterpoise.storage.files import committed, state
from counterpoise.storage.files.disk import Disk
from counterpoise.storage.files.ledger import LedgerFile
from counterpoise.storage.files.record import FILE_HEADER_SIZE, HEADER_SIZE, MarkedFormat
from counterpoise.storage.files.recovery import take_over
from counterpoise.storage.files.store import FileLedgerStore
from counterpoise.storage.port import CursorState, Log, Lost, Position
from tests.storage.conftest import Heard, everything, write

NAME = "t/n/persistent/x"
ENTRIES = [b"first", b"s" * 40, b"3", b"the last entry"]
MESSAGES = [1, 12, 1, 3]


MARKER = b"\x81marker\x82"
SEVEN = MarkedFormat(7, MARKER)


def records(
    entries: list[bytes], messages: list[int], first_entry: int, kind: MarkedFormat = SEVEN
) -> bytes:
    """One group."""
    return b"".join(kind.encode(entries, messages, first_entry))


def ledger_bytes() -> bytes:
    """Four groups of one entry each."""
    return SEVEN.file_header() + b"".join(
        records([entry], [count], n)
        for n, (entry, count) in enumerate(zip(ENTRIES, MESSAGES, strict=True))
    )


def seven(path: Path, marker: bytes = MARKER) -> LedgerFile:
    return LedgerFile(path, 7, marker)


def ends() -> list[int]:
    """Where each record ends."""
    return [
        FILE_HEADER_SIZE + len(records(ENTRIES[: n + 1], MESSAGES[: n + 1], 0))
        for n in range(len(ENTRIES))
    ]


def test_a_ledger_cut_at_any_byte_has_its_whole_records(tmp_path: Path) -> None:
    whole = ledger_bytes()
    path = tmp_path / "x.ledger"
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        file = seven(path)
        scan = file.scan()
        assert scan.entries == sum(end <= size for end in ends())
        assert scan.size == sum(map(len, ENTRIES[: scan.entries]))
        assert scan.lost == ()
        if size >= FILE_HEADER_SIZE:
            good = ends()[scan.entries - 1] if scan.entries else FILE_HEADER_SIZE
            assert scan.torn == size - good
        if scan.entries:
            piece = file.read(0, scan.entries, 10**6)
            assert (piece.entries, piece.messages, piece.lost) == (
                ENTRIES[: scan.entries],
                MESSAGES[: scan.entries],
                None,
            )


def test_what_is_cut_off_and_was_stored_is_lost_and_named(tmp_path: Path) -> None:
    whole = ledger_bytes()
    path = tmp_path / "x.ledger"
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        scan = seven(path).scan(stored=len(ENTRIES))
        kept = sum(end <= size for end in ends())
        assert (scan.entries, scan.lost, scan.torn) == (4, ((kept, 3),), 0)


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_a_damaged_byte_costs_the_record_it_lies_in_and_no_other(tmp_path: Path, flip: int) -> None:
    whole = ledger_bytes()
    path = tmp_path / "x.ledger"
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])
        bad = None if at < FILE_HEADER_SIZE else sum(end <= at for end in ends())
        damaged = () if bad is None else ((bad, bad),)
        assert seven(path).scan(stored=4).lost == damaged, f"byte {at}"
        for cold in range(4):
            piece = seven(path).read(cold, 4, 10**6)
            if cold == bad:
                assert (piece.entries, piece.lost) == ([], (bad, bad)), f"byte {at}"
            else:
                until = bad if bad is not None and bad > cold else 4
                assert (piece.entries, piece.lost) == (ENTRIES[cold:until], None), f"byte {at}"
        # Nobody noted how many there were: the last may look as if it had not been finished.
        assert seven(path).scan().lost in (damaged, ()) if bad == 3 else (damaged,)


@pytest.mark.parametrize("tail", [b"\0" * 4096, b"\xff" * 100, b"\0" * 5, ledger_bytes()])
def test_what_follows_the_last_record_is_no_entry(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "x.ledger"
    path.write_bytes(ledger_bytes() + tail)
    scan = seven(path).scan()
    assert (scan.entries, scan.lost, scan.torn) == (len(ENTRIES), (), len(tail))


def test_records_of_another_ledger_are_none(tmp_path: Path) -> None:
    path = tmp_path / "x.ledger"
    other = MarkedFormat(8, MARKER)
    path.write_bytes(SEVEN.file_header() + records(ENTRIES, MESSAGES, 0, other))
    assert seven(path).scan(stored=4).lost == ((0, 3),)


def test_an_entry_that_holds_a_record_is_not_taken_for_one(tmp_path: Path) -> None:
    """Whoever writes entries does not know the log's marker."""
    path = tmp_path / "x.ledger"
    forged = records([b"forged"], [1], 3, MarkedFormat(7, b"guessed!"))
    whole = SEVEN.file_header() + records([b"a", b"b", forged * 9, b"c", b"d"], [1] * 5, 0)
    at = whole.index(forged)
    path.write_bytes(whole[:at] + b"?" + whole[at + 1 :])
    assert seven(path).scan(stored=5).lost == ((2, 2),)
    assert seven(path).read(3, 5, 100).entries == [b"c", b"d"]


def test_a_hole_in_the_group_that_was_being_written_keeps_what_is_sound(tmp_path: Path) -> None:
    """After a power failure a later page may be there and an earlier one not."""
    path = tmp_path / "x.ledger"
    whole = ledger_bytes() + records([b"p" * 50, b"q" * 50, b"r" * 50], [1] * 3, 4)
    at = whole.index(b"q" * 50)
    path.write_bytes(whole[:at] + bytes(50) + whole[at + 50 :])
    scan = seven(path).scan()
    assert (scan.entries, scan.lost, scan.stored) == (7, ((5, 5),), 4)


@pytest.mark.parametrize("marker", [MARKER, b""], ids=["marker saved", "nothing saved"])
def test_a_damaged_head_costs_no_entry(tmp_path: Path, marker: bytes) -> None:
    path = tmp_path / "x.ledger"
    path.write_bytes(bytes(FILE_HEADER_SIZE) + ledger_bytes()[FILE_HEADER_SIZE:])
    assert seven(path, marker).scan().entries == 4
    assert seven(path, marker).read(0, 4, 1000).entries == ENTRIES


def old_ledger(entries: list[bytes]) -> bytes:
    """As ledgers were written before records had markers."""
    made = [b"CPLEDGR1" + (7).to_bytes(8, "big")]
    for entry_id, entry in enumerate(entries):
        checksum = crc32c(entry, entry_id * 0x9E3779B1 & 0xFFFFFFFF ^ 1)
        made.append(struct.pack(">III", len(entry), checksum, 1) + entry)
    return b"".join(made)


def test_a_ledger_of_the_old_format_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.ledger"
    entries = [b"%d" % n * 30 for n in range(200)]
    path.write_bytes(old_ledger(entries))
    assert seven(path, b"").scan().entries == 200
    assert seven(path).read(150, 200, 10**6).entries == entries[150:]
    whole = bytearray(path.read_bytes())
    whole[whole.index(entries[100]) - 12] ^= 0x40  # its length
    path.write_bytes(whole)
    assert seven(path).scan().lost == ((100, 100),)
    assert seven(path).read(101, 200, 10**6).entries == entries[101:]


def test_entries_larger_than_the_read_window(tmp_path: Path) -> None:
    large = [os.urandom(n) for n in (3_000_000, 10, 1 << 20, (1 << 20) - HEADER_SIZE, 5)]
    path = tmp_path / "x.ledger"
    path.write_bytes(SEVEN.file_header() + records(large, [1] * 5, 0) + b"torn")
    file = seven(path)
    scan = file.scan()
    assert (scan.entries, scan.size, scan.torn) == (5, sum(map(len, large)), 4)
    for cold in (file, seven(path)):
        assert [cold.read(n, 5, 1).entries for n in range(5)] == [[e] for e in large]
        assert cold.read(0, 5, 10**8).entries == large


def test_reading_from_anywhere_in_a_long_ledger(tmp_path: Path) -> None:
    entries = [b"%d" % n * (n % 50 + 1) for n in range(5000)]
    path = tmp_path / "x.ledger"
    path.write_bytes(SEVEN.file_header() + records(entries, [1] * 5000, 0))
    file = seven(path)
    for at in (4999, 0, 63, 64, 65, 2500, 128, 4800):
        found = file.read(at, 5000, 200).entries
        assert found == entries[at : at + len(found)]
        assert found


def test_a_wrong_length_does_not_lead_past_sound_records(tmp_path: Path) -> None:
    entries = [b"%d" % n * 9 for n in range(300)]
    whole = bytearray(SEVEN.file_header() + records(entries, [1] * 300, 0))
    path = tmp_path / "x.ledger"
    at = whole.index(entries[100]) - HEADER_SIZE + 8
    whole[at + 2] ^= 0x04  # the length of entry 100 grows by a kilobyte
    path.write_bytes(whole)
    assert seven(path).scan(stored=300).lost == ((100, 100),)
    for wanted in (99, 101, 102, 150, 299):
        assert seven(path).read(wanted, 300, 1).entries == [entries[wanted]]
    assert seven(path).read(100, 300, 1).lost == (100, 100)


class Reluctant(Disk):
    """Takes only so many bytes at once."""

    def __init__(self, at_once: int) -> None:
        self.at_once = at_once

    def write(
        self,
        descriptor: int,
        pieces: Sequence[bytes | memoryview],
        offset: int,
        *,
        synced: bool = False,
    ) -> int:
        taken, left = [], self.at_once
        for piece in pieces:
            taken.append(piece[:left])
            left -= len(taken[-1])
        return super().write(descriptor, taken, offset, synced=synced)


@pytest.mark.parametrize("at_once", [7, 700, 100_000], ids="{} B at once".format)
def test_a_disk_that_takes_less_than_it_is_given(tmp_path: Path, at_once: int) -> None:
    """Small entries are written together and large ones by themselves; all must come out whole."""
    entries = [os.urandom(n) for n in (1, 8 * 1024 - 1, 8 * 1024, 2, 3, 9_000, 9_001, 4)]
    if at_once > 700:
        entries *= 600  # more pieces than one call may have
    file = LedgerFile(tmp_path / "x.ledger", 7, MARKER, Reluctant(at_once))
    counts = [1] * len(entries)
    assert file.write(file.encode(entries[:3], counts[:3], 0)) == FILE_HEADER_SIZE
    file.write(file.encode(entries[3:], counts[3:], 3))
    assert file.read(0, len(entries), 1 << 30).entries == entries


class Watched(Disk):
    """Knows which files have writes that nobody has synced."""

    def __init__(self) -> None:
        self.unsynced: set[int] = set()

    def write(
        self,
        descriptor: int,
        pieces: Sequence[bytes | memoryview],
        offset: int,
        *,
        synced: bool = False,
    ) -> int:
        if not (synced and self.syncs_writes):
            self.unsynced.add(descriptor)
        return super().write(descriptor, pieces, offset, synced=synced)

    def sync(self, descriptor: int) -> None:
        super().sync(descriptor)
        self.unsynced.discard(descriptor)


@pytest.mark.parametrize("syncs_writes", [True, False])
@pytest.mark.parametrize(
    "entries", [[b"small"], [b"x" * 300_000] * 4, [b"x" * 9_000] * 600], ids=["one", "MBs", "many"]
)
def test_a_write_returns_when_all_of_it_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: list[bytes], syncs_writes: bool
) -> None:
    monkeypatch.setattr(Disk, "syncs_writes", syncs_writes and Disk().syncs_writes)
    disk = Watched()
    file = LedgerFile(tmp_path / "x.ledger", 7, MARKER, disk)
    file.write([])
    for _ in range(2):
        disk.unsynced.clear()  # the file's head may go with the first records
        file.write(file.encode(entries, [1] * len(entries), 0))
        assert not disk.unsynced


def test_a_file_system_that_takes_no_advice_still_has_the_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, "no advice")

    monkeypatch.setattr(os, "posix_fadvise", refuse)
    file = seven(tmp_path / "x.ledger")
    flood = [os.urandom(300_000)]
    file.write(file.encode(flood, [1], 0))
    assert file.read(0, 1, 1).entries == flood


async def crashed(root: Path, entries: list[bytes]) -> Path:
    """A log whose owner died after these entries; returns its only ledger's file."""
    store, heard = FileLedgerStore(root), Heard()
    log = await store.open(NAME, "dead", heard)
    await write(log, heard, *entries)
    await log.flush()
    await store.close()
    (ledger,) = (root / NAME).glob("*.ledger")
    return ledger


async def test_a_torn_tail_is_cut_and_appending_goes_on(tmp_path: Path) -> None:
    ledger = await crashed(tmp_path, ENTRIES)
    whole = ledger.read_bytes()
    for size in range(len(whole), len(whole) - 40, -3):
        root = tmp_path / str(size)
        shutil.copytree(tmp_path / NAME, root / NAME)
        torn = root / NAME / ledger.name
        torn.write_bytes(whole[:size])
        store, heard = FileLedgerStore(root), Heard()
        log = await store.open(NAME, "next", heard)
        survived = ENTRIES[: log.end]
        assert len(survived) >= 2
        await write(log, heard, b"more")
        assert await everything(log) == [*survived, b"more"]
        await log.close()
        log = await store.open(NAME, "last", Heard())
        assert await everything(log) == [*survived, b"more"]
        await log.close()
        await store.close()


async def test_what_a_fenced_owner_writes_into_its_old_file_is_not_part_of_the_log(
    tmp_path: Path,
) -> None:
    ledger = await crashed(tmp_path, ENTRIES)
    store = FileLedgerStore(tmp_path)
    log = await store.open(NAME, "next", Heard())
    (kind,) = [MarkedFormat(0, ledger.read_bytes()[16:24])]
    with ledger.open("ab") as file:
        file.write(records([b"stray"], [1], len(ENTRIES), kind))
    assert await everything(log) == ENTRIES
    await log.close()
    log = await store.open(NAME, "last", Heard())
    assert await everything(log) == ENTRIES
    await log.close()
    await store.close()


async def test_a_ledger_a_fenced_owner_begins_is_removed(tmp_path: Path) -> None:
    await crashed(tmp_path, ENTRIES)
    store = FileLedgerStore(tmp_path)
    log = await store.open(NAME, "next", Heard())
    stray = tmp_path / NAME / f"9-{1:016x}.ledger"
    kind = MarkedFormat(9, b"8 bytes!")
    stray.write_bytes(kind.file_header() + records([b"stray"], [1], 0, kind))
    await log.close()
    log = await store.open(NAME, "last", Heard())
    assert await everything(log) == ENTRIES
    await asyncio.wait(store._tasks)
    assert not stray.exists()
    await log.close()
    await store.close()


async def test_damage_in_a_closed_ledger_is_named_once_and_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = await crashed(tmp_path, ENTRIES)
    store = FileLedgerStore(tmp_path)
    await (await store.open(NAME, "closes it", Heard())).close()
    data = bytearray(ledger.read_bytes())
    data[data.index(ENTRIES[1])] ^= 1
    ledger.write_bytes(data)
    for life in range(2):
        heard = Heard()
        log = await store.open(NAME, "next", heard)
        assert await everything(log) == [ENTRIES[0], b"", *ENTRIES[2:]]
        assert list(log.lost) == [Lost(0, 1, 1)]
        assert heard.damage == ([] if life else [Lost(0, 1, 1)])
        await log.close()
    assert len([r for r in caplog.records if "1 entry lost, 0:1" in r.message]) == 1
    await store.close()


async def test_a_ledger_that_is_gone_is_named_and_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Closed or not."""
    for closes in (True, False):
        root = tmp_path / str(closes)
        store, heard = FileLedgerStore(root), Heard()
        log = await store.open(NAME, "a", heard)
        await write(log, heard, *ENTRIES)
        if closes:
            await log.close()
        else:
            await noted(root, len(ENTRIES))
        await store.close()
        for ledger in (root / NAME).glob("*.ledger"):
            ledger.unlink()
        store, heard = FileLedgerStore(root), Heard()
        log = await store.open(NAME, "next", heard)
        assert list(log.lost) == [Lost(0, 0, 3)]
        assert "ledger 0 is missing: 4 entries lost, 0:0 to 3" in caplog.text
        caplog.clear()
        await write(log, heard, b"more")
        assert await everything(log) == [b""] * 4 + [b"more"]
        await log.close()
        await store.close()


async def noted(root: Path, entries: int) -> None:
    """Wait until it is noted that so many were committed."""
    async with asyncio.timeout(20):
        while True:
            (epoch,) = state.epochs(root / NAME)
            note = committed.noted(root / NAME, epoch, Disk())
            if note is not None and note.entries == entries:
                return
            await asyncio.sleep(0.01)


async def with_cursor(root: Path) -> tuple[FileLedgerStore, Log[object]]:
    """A log whose cursor was saved at entry 0, and then at entry 2."""
    store, heard = FileLedgerStore(root), Heard()
    log = await store.open(NAME, "a", heard)
    await write(log, heard, *ENTRIES)
    for entry in (0, 2):
        log.save_cursor(CursorState("s", log.position(entry)))
        await log.flush()
    return store, log


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
    recovered = take_over(directory, "next", Disk())
    assert recovered.fence.epoch > before
    assert [s.entries for s in recovered.saved.ledgers] == [len(ENTRIES)]


async def test_few_descriptors_serve_many_logs(tmp_path: Path) -> None:
    store = FileLedgerStore(tmp_path, max_open_files=3)
    heard = [Heard() for _ in range(10)]
    logs = [await store.open(f"t/n/persistent/{n}", "a", h) for n, h in enumerate(heard)]
    for _ in range(3):
        for log, ear in zip(logs, heard, strict=True):
            await write(log, ear, b"x")
    assert len(open_ledgers(tmp_path)) <= 4
    for log in logs:
        await log.close()
    await store.close()
    assert open_ledgers(tmp_path) == []


def open_ledgers(root: Path) -> list[Path]:
    links = (link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink())
    return [target for target in links if target.is_relative_to(root)]


WRITER = """
    import asyncio, sys
    from pathlib import Path
    from counterpoise.storage.files.store import FileLedgerStore

    class Acknowledge:
        def __init__(self):
            self.answered = asyncio.Event()
        def committed(self, group):
            last = group.contexts[-1]
            sys.stdout.write(f"{last}\\n")
            sys.stdout.flush()
            self.answered.set()
        def failed(self, error, contexts):
            sys.exit(str(error))
        refused = failed

    async def main():
        store = FileLedgerStore(Path(sys.argv[1]), ledger_bytes=200_000)
        heard = Acknowledge()
        log = await store.open("t/n/persistent/x", "victim", heard)
        n = log.end
        while True:
            # The next burst is on its way while this one is committed, and never more than that.
            heard.answered.clear()
            for _ in range(200):
                log.append(b"%d:" % n + b"x" * (n % 200), 1, n)
                n += 1
            await heard.answered.wait()

    asyncio.run(main())
"""


async def test_a_killed_writer_loses_nothing_it_acknowledged(tmp_path: Path) -> None:
    """kill -9 under load, twice: every acknowledged entry is there, once, in order."""
    script = tmp_path / "writer.py"
    script.write_text(textwrap.dedent(WRITER))
    root = tmp_path / "ledgers"
    for _ in range(2):
        writer = await asyncio.create_subprocess_exec(
            sys.executable, str(script), str(root), stdout=asyncio.subprocess.PIPE
        )
        assert writer.stdout is not None
        for _ in range(40):
            acknowledged = int(await writer.stdout.readline())
        writer.kill()
        for line in (await writer.stdout.read()).split(b"\n")[:-1]:
            acknowledged = int(line)
        await writer.wait()

        store = FileLedgerStore(root)
        log = await store.open(NAME, "next", Heard())
        assert log.end > acknowledged
        entries: list[bytes] = []
        while len(entries) < log.end:
            entries += (await log.read(len(entries), 1 << 20)).entries
        assert entries == [b"%d:" % n + b"x" * (n % 200) for n in range(log.end)]
        await log.close()
        await store.close()
