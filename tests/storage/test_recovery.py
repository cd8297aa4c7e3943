"""What a crash leaves behind: torn tails are cut, damage is never served, nothing acked is lost."""

import asyncio
import errno
import os
import shutil
import sys
import textwrap
from pathlib import Path

import pytest

from counterpoise.storage.files import ledger, state
from counterpoise.storage.files.ledger import LedgerFile
from counterpoise.storage.files.record import FILE_HEADER_SIZE, encode, file_header
from counterpoise.storage.files.recovery import take_over
from counterpoise.storage.files.store import FileLedgerStore
from counterpoise.storage.port import CorruptLedgerError
from tests.storage.conftest import Heard, everything, write

NAME = "t/n/persistent/x"
ENTRIES = [b"first", b"s" * 40, b"3", b"the last entry"]
MESSAGES = [1, 12, 1, 3]


def records(entries: list[bytes], messages: list[int], first_entry: int) -> bytes:
    return b"".join(encode(entries, messages, first_entry))


def ledger_bytes() -> bytes:
    return file_header(7) + records(ENTRIES, MESSAGES, 0)


def ends() -> list[int]:
    """Where each record ends."""
    return [
        FILE_HEADER_SIZE + len(records(ENTRIES[: n + 1], MESSAGES[: n + 1], 0))
        for n in range(len(ENTRIES))
    ]


def test_a_ledger_cut_at_any_byte_has_its_whole_records(tmp_path: Path) -> None:
    whole = ledger_bytes()
    for size in range(len(whole) + 1):
        path = tmp_path / "x.ledger"
        path.write_bytes(whole[:size])
        file = LedgerFile(path, 7)
        entries, kept, torn = file.scan()
        assert entries == sum(end <= size for end in ends())
        assert kept == sum(map(len, ENTRIES[:entries]))
        good = ends()[entries - 1] if entries else min(size, FILE_HEADER_SIZE)
        if size >= FILE_HEADER_SIZE:
            assert torn == size - good
        if entries:
            assert file.read(0, entries, 10**6) == (ENTRIES[:entries], MESSAGES[:entries])


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_a_ledger_with_any_byte_damaged_ends_before_that_record(tmp_path: Path, flip: int) -> None:
    whole = ledger_bytes()
    for at in range(len(whole)):
        path = tmp_path / "x.ledger"
        path.write_bytes(whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])
        entries, _, torn = LedgerFile(path, 7).scan()
        sound = 0 if at < FILE_HEADER_SIZE else sum(end <= at for end in ends())
        assert entries == sound, f"byte {at}"
        assert torn
        if at >= FILE_HEADER_SIZE:
            with pytest.raises(CorruptLedgerError, match=r"x\.ledger: "):
                LedgerFile(path, 7).read(0, len(ENTRIES), 10**6)


@pytest.mark.parametrize("tail", [b"\0" * 4096, b"\xff" * 100, b"\0" * 5, ledger_bytes()])
def test_what_follows_the_last_record_is_no_entry(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "x.ledger"
    path.write_bytes(ledger_bytes() + tail)
    assert LedgerFile(path, 7).scan()[0] == len(ENTRIES)


def test_a_record_at_another_place_does_not_match(tmp_path: Path) -> None:
    path = tmp_path / "x.ledger"
    path.write_bytes(file_header(7) + records(ENTRIES, MESSAGES, 1))
    assert LedgerFile(path, 7).scan()[0] == 0


def test_entries_larger_than_the_read_window(tmp_path: Path) -> None:
    large = [os.urandom(n) for n in (3_000_000, 10, 1 << 20, (1 << 20) - 12, 5)]
    path = tmp_path / "x.ledger"
    path.write_bytes(file_header(7) + records(large, [1] * 5, 0) + b"torn")
    file = LedgerFile(path, 7)
    assert file.scan() == (5, sum(map(len, large)), 4)
    for cold in (file, LedgerFile(path, 7)):
        assert [cold.read(n, 5, 1)[0] for n in range(5)] == [[e] for e in large]
        assert cold.read(0, 5, 10**8)[0] == large


def test_reading_from_anywhere_in_a_long_ledger(tmp_path: Path) -> None:
    entries = [b"%d" % n * (n % 50 + 1) for n in range(5000)]
    path = tmp_path / "x.ledger"
    path.write_bytes(file_header(7) + records(entries, [1] * 5000, 0))
    file = LedgerFile(path, 7)
    for at in (4999, 0, 63, 64, 65, 2500, 128, 4800):
        found, _ = file.read(at, 5000, 200)
        assert found == entries[at : at + len(found)]
        assert found


@pytest.mark.parametrize("at_once", [700, 100_000], ids="{} B at once".format)
def test_a_disk_that_takes_less_than_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """Small entries are written together and large ones by themselves; all must come out whole."""
    entries = [os.urandom(n) for n in (1, 8 * 1024 - 1, 8 * 1024, 2, 3, 9_000, 9_001, 4)]
    if at_once > 700:
        entries *= 600  # more pieces than one call may have
    pwritev = os.pwritev

    def reluctant(descriptor: int, pieces: list[bytes], offset: int, flags: int = 0) -> int:
        taken, left = [], at_once
        for piece in pieces:
            taken.append(piece[:left])
            left -= len(taken[-1])
        return pwritev(descriptor, taken, offset, flags)

    monkeypatch.setattr(os, "pwritev", reluctant)
    file = LedgerFile(tmp_path / "x.ledger", 7)
    counts = [1] * len(entries)
    assert file.write(encode(entries[:3], counts[:3], 0)) == FILE_HEADER_SIZE
    file.write(encode(entries[3:], counts[3:], 3))
    assert file.read(0, len(entries), 1 << 30)[0] == entries


@pytest.mark.parametrize(
    "entries", [[b"small"], [b"x" * 300_000] * 4, [b"x" * 9_000] * 600], ids=["one", "MBs", "many"]
)
def test_a_write_returns_when_all_of_it_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: list[bytes]
) -> None:
    unsynced = 0
    pwritev = os.pwritev

    def write(descriptor: int, pieces: list[bytes], offset: int, flags: int = 0) -> int:
        nonlocal unsynced
        unsynced += not flags & os.RWF_DSYNC
        return pwritev(descriptor, pieces, offset, flags)

    def sync(descriptor: int) -> None:
        nonlocal unsynced
        unsynced = 0

    monkeypatch.setattr(os, "pwritev", write)
    monkeypatch.setattr(ledger, "_sync", sync)
    LedgerFile(tmp_path / "x.ledger", 7).write(encode(entries, [1] * len(entries), 0))
    assert unsynced == 0


def test_a_file_system_that_takes_no_advice_still_has_the_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, "no advice")

    monkeypatch.setattr(os, "posix_fadvise", refuse)
    file = LedgerFile(tmp_path / "x.ledger", 7)
    flood = [os.urandom(300_000)]
    file.write(encode(flood, [1], 0))
    assert file.read(0, 1, 1)[0] == flood


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
    with ledger.open("ab") as file:
        file.write(records([b"stray"], [1], len(ENTRIES)))
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
    stray.write_bytes(file_header(9) + records([b"stray"], [1], 0))
    await log.close()
    log = await store.open(NAME, "last", Heard())
    assert await everything(log) == ENTRIES
    assert not stray.exists()
    await log.close()
    await store.close()


async def test_damage_in_a_closed_ledger_is_told_not_served(tmp_path: Path) -> None:
    ledger = await crashed(tmp_path, ENTRIES)
    store = FileLedgerStore(tmp_path)
    await (await store.open(NAME, "closes it", Heard())).close()
    data = bytearray(ledger.read_bytes())
    data[FILE_HEADER_SIZE + 12] ^= 1
    ledger.write_bytes(data)
    log = await store.open(NAME, "next", Heard())
    with pytest.raises(CorruptLedgerError, match="entry 0 does not match its checksum"):
        await log.read(0, 100)
    await log.close()
    await store.close()


async def test_a_lost_fence_does_not_bring_an_epoch_back(tmp_path: Path) -> None:
    await crashed(tmp_path, ENTRIES)
    directory = tmp_path / NAME
    (before,) = state.epochs(directory)
    (directory / "fence").write_bytes(b"")
    recovered = take_over(directory, "next")
    assert recovered.fence.epoch > before
    assert [s.entries for s in recovered.sealed] == [len(ENTRIES)]


async def test_a_full_disk_fails_the_log_and_keeps_what_was_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, heard = FileLedgerStore(tmp_path), Heard()
    log = await store.open(NAME, "a", heard)
    await write(log, heard, b"kept")
    with monkeypatch.context() as patched:
        patched.setattr(LedgerFile, "write", no_space)
        log.append(b"refused", 1, "lost")
        await heard.until(lambda: heard.error is not None)
    assert "No space left" in str(heard.error)
    assert heard.lost == ["lost"]
    await log.close()
    log = await store.open(NAME, "a", Heard())
    assert await everything(log) == [b"kept"]
    await log.close()
    await store.close()


def no_space(file: LedgerFile, data: bytes) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


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
