"""What a crash leaves behind: torn tails are cut, and nothing acknowledged is lost."""

import asyncio
import shutil
import sys
import textwrap
from pathlib import Path

import pytest

from counterpoise.storage.files import committed, fence, state
from counterpoise.storage.files.disk import LedgerDisk
from counterpoise.storage.files.record import MarkedFormat
from counterpoise.storage.files.recovery import survey
from counterpoise.storage.files.store import FileLedgerStore
from counterpoise.storage.files.verify import verify
from counterpoise.storage.port import Lost
from tests.descriptors import open_ledgers
from tests.storage.conftest import Heard, everything, settled, write
from tests.storage.faults import FaultyDisk, Hanging
from tests.storage.ledgers import ENTRIES, NAME, crashed, noted, records
from tests.waiting import WITHIN_S


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
    store.tidy_seconds = 0
    log = await store.open(NAME, "last", Heard())
    assert await everything(log) == ENTRIES
    await settled(store)
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
        # Two read it at once, and both find it out.
        await asyncio.gather(*(log.read(1, 100) for _ in range(2)))
        assert await everything(log) == [ENTRIES[0], b"", *ENTRIES[2:]]
        assert list(log.lost) == [Lost(0, 1, 1)]
        assert heard.damage == ([] if life else [Lost(0, 1, 1)])
        await log.close()
    assert len([r for r in caplog.records if "1 entry lost, 0:1" in r.message]) == 1
    # It goes with its ledger.
    log = await store.open(NAME, "deletes it", heard := Heard())
    await write(log, heard, b"new")
    log.trim(log.end)
    await log.close()
    assert list((await store.open(NAME, "next", Heard())).lost) == []
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


async def test_losses_go_with_their_ledgers_and_the_others_stay(tmp_path: Path) -> None:
    store, heard = FileLedgerStore(tmp_path, ledger_bytes=1), Heard()
    log = await store.open(NAME, "a", heard)
    for each in ENTRIES:
        await write(log, heard, each)
    await log.close()
    for ledger in sorted((tmp_path / NAME).glob("*.ledger"))[:3]:
        content = bytearray(ledger.read_bytes())
        content[-1] ^= 1
        ledger.write_bytes(content)
    log = await store.open(NAME, "next", Heard())
    assert await everything(log) == [b"", b"", b"", ENTRIES[3]]
    lost = [Lost(ledger, 0, 0) for ledger in range(3)]
    assert list(log.lost) == lost
    for count in range(1, 4):
        log.trim(count)
        assert list(log.lost) == lost[count:]
    await log.flush()
    await log.close()
    assert list((await store.open(NAME, "last", Heard())).lost) == []
    await store.close()


async def test_a_fenced_owner_that_closes_the_log_leaves_no_last_state_of_it(
    tmp_path: Path,
) -> None:
    """Read, where those of its successor are damaged, it would say that nothing came after it."""
    stores = [FileLedgerStore(tmp_path) for _ in range(2)]
    former, heard = await stores[0].open(NAME, "former", Heard()), Heard()
    log = await stores[1].open(NAME, "successor", heard)
    await write(log, heard, *ENTRIES)
    await former.close()
    for store in stores:
        await store.close()
    names = [path.name for path in (tmp_path / NAME).glob("state-*")]
    assert names
    assert not any(name.endswith(".final") for name in names), names


async def test_a_note_of_a_ledger_that_was_deleted_since_is_no_loss(tmp_path: Path) -> None:
    """Its owner died before it noted how far the next one is."""
    store, heard = FileLedgerStore(tmp_path, ledger_bytes=1), Heard()
    log = await store.open(NAME, "a", heard)
    for each in ENTRIES:
        await write(log, heard, each)
    log.trim(log.end - 1)
    await log.flush()
    await store.close()
    (epoch,) = state.epochs(tmp_path / NAME)
    committed.note(tmp_path / NAME, epoch, committed.Committed(0, 1), LedgerDisk())
    found = survey(tmp_path / NAME, LedgerDisk())
    assert found.last.first > 0, "the first ledger was deleted"
    assert (found.lost, found.missing) == ((), ())


async def test_few_descriptors_serve_many_logs(tmp_path: Path) -> None:
    store = FileLedgerStore(tmp_path, max_open_files=3)
    heard = [Heard() for _ in range(10)]
    logs = [await store.open(f"t/n/persistent/{n}", "a", h) for n, h in enumerate(heard)]
    for _ in range(3):
        for log, ear in zip(logs, heard, strict=True):
            await write(log, ear, b"x")
    assert len(open_ledgers(tmp_path)) == 3
    for log in logs:
        await log.close()
    await store.close()
    assert open_ledgers(tmp_path) == []


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


async def test_a_successor_reads_what_the_disk_has_and_a_check_changes_nothing(
    tmp_path: Path,
) -> None:
    ledger = await crashed(tmp_path, ENTRIES)
    disk, calls = FaultyDisk(), list[str]()
    disk.before = lambda what, path: calls.append(what) if path == ledger else None
    list(verify(tmp_path, disk))
    assert "read" in calls
    assert "sync" not in calls
    calls.clear()
    store = FileLedgerStore(tmp_path, disk=disk)
    log = await store.open(NAME, "next", Heard())
    assert 0 <= calls.index("sync") < calls.index("read")
    await log.close()
    await store.close()


async def test_of_two_brokers_that_claim_a_log_at_once_the_second_waits(tmp_path: Path) -> None:
    slow = FaultyDisk()
    slow.before = hang = Hanging("write", fence.NAME)
    first = asyncio.create_task(asyncio.to_thread(fence.claim, tmp_path, "a", slow))
    await asyncio.to_thread(hang.reached.wait, WITHIN_S)
    second = asyncio.create_task(asyncio.to_thread(fence.claim, tmp_path, "b", LedgerDisk()))
    # As long as a second that does not wait would need, and more.
    await asyncio.wait({second}, timeout=0.2)
    hang.released.set()
    assert [(await first).epoch, (await second).epoch] == [1, 2]
