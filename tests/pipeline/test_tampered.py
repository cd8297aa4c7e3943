"""A history that somebody laid hands on: it is noticed, and the balancer goes on after `repair`."""

import asyncio
import errno
import shutil
import threading
from pathlib import Path

import aiohttp
import pyarrow as pa
import pytest
from pyarrow import fs, parquet

from counterpoise.app.main import main
from counterpoise.decide.balancing.moves import MoveStatus, RoundMemory
from counterpoise.load.fold import FoldState
from counterpoise.load.rows import ReportRows
from counterpoise.pipeline.collect.collector import Collector
from counterpoise.pipeline.history import keeping
from counterpoise.pipeline.history.care import check, repair
from counterpoise.pipeline.history.keeping import Keeping, KeepingOptions
from counterpoise.pipeline.history.layout import files, newest_poll
from counterpoise.pipeline.history.lease import LeaseOptions, lease
from counterpoise.pipeline.history.names import file_of
from counterpoise.pipeline.history.ownership import TABLE as OWNERSHIP
from counterpoise.pipeline.history.ownership import Owners
from counterpoise.pipeline.history.reigns import FIRST, Lineage, Reign
from counterpoise.pipeline.history.reports import land
from counterpoise.pipeline.history.store import Store, open_store
from counterpoise.pipeline.history.tables import HistoryTables, read_table
from counterpoise.pipeline.history.version import NAME as VERSION
from counterpoise.pipeline.history.version import expect_version
from counterpoise.pipeline.stream.states import state_name, write_state
from counterpoise.pipeline.tables.faults import HistoryFaultError
from counterpoise.pipeline.tables.parquet import read_rows
from counterpoise.pipeline.tables.states import state_from_bytes, state_to_bytes
from counterpoise.pipeline.watch import polling as polling_module
from counterpoise.pipeline.watch.metrics import Metrics
from counterpoise.pipeline.watch.polling import Polling
from tests.load.story import START, poll
from tests.pipeline.fake_cluster import FakeCluster, bundle_name
from tests.pipeline.rounds import LogLines, balancer, made_of, outcomes, seen
from tests.pipeline.test_balancer import CutOffError, cut_off


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "history")


def landed(store: Store, count: int = 3) -> None:
    owners = Owners()
    for number in range(count):
        rows = poll(number, {"b1:80": {bundle_name(0): 10.0}, "b2:80": {bundle_name(number): 1.0}})
        owners.land(store, rows)
        land(store, rows)


def path_of(store: Store, name: str) -> Path:
    return Path(store.root) / name


@pytest.mark.parametrize("content", ["", "3\x1a", "\0\0", "1\n"])
def test_a_history_whose_version_is_damaged_is_repaired(store: Store, content: str) -> None:
    landed(store)
    expect_version(store)
    path_of(store, VERSION).write_text(content)
    with pytest.raises(HistoryFaultError, match=f"history repair {store.root}"):
        expect_version(store)
    assert check(store).damaged == (() if content == "1\n" else (VERSION,))
    assert main(["history", "repair", store.root]) == 0
    expect_version(store)
    assert path_of(store, VERSION).read_text() == "3\n"


def test_a_byte_that_a_disk_turned_over_is_noticed(store: Store) -> None:
    landed(store)
    name = files(store, "reports")[1]
    whole = path_of(store, name).read_bytes()
    read = store.read(name, read_rows)
    column = parquet.read_metadata(path_of(store, name)).row_group(1).column(0)
    first = column.dictionary_page_offset or column.data_page_offset
    # Behind the page's header, which is where its bytes are.
    for place in range(first + column.total_compressed_size - 8, first + 8, -1):
        turned = bytearray(whole)
        turned[place] ^= 1
        path_of(store, name).write_bytes(turned)
        try:
            assert store.read(name, read_rows).equals(read), f"byte {place} made it another"
        except HistoryFaultError:
            assert check(store).damaged == (name,)


def test_every_byte_of_a_state_is_held_against_its_checksum() -> None:
    whole = state_to_bytes(FoldState.empty())
    state_from_bytes(whole[:-8])  # as an older balancer has left it
    for place in range(len(whole)):
        turned = bytearray(whole)
        turned[place] ^= 4
        with pytest.raises((ValueError, pa.ArrowException)):
            state_from_bytes(bytes(turned))


def test_who_has_which_bundle_is_worked_out_anew_when_that_was_damaged(store: Store) -> None:
    landed(store)
    whole = read_table(store, OWNERSHIP)
    name = files(store, OWNERSHIP)[-1]
    path_of(store, name).write_bytes(b"half")
    assert repair(store).damaged == (name,)
    assert read_table(store, OWNERSHIP) == whole


async def test_a_round_whose_state_is_gone_is_seen_through_all_the_same(
    uneven: FakeCluster,
    http: aiohttp.ClientSession,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its bundles are unloaded, and the stream comes to a later poll without ever meeting it."""
    first = HistoryTables(store)
    with monkeypatch.context() as patch:
        cut_off(first, "after one outcome", patch)
        with pytest.raises(CutOffError):
            await balancer(http, first).step(seen(uneven, 1))
    asked = len(uneven.unloads)
    later = HistoryTables(store)
    await balancer(http, later).step(seen(uneven, 1.01))
    [begun] = read_table(store, "rounds")
    made = later.round(begun["poll_id"])
    assert made is not None
    assert {one.status for one in outcomes(later, made)} <= {
        MoveStatus.MOVED,
        MoveStatus.ALREADY_THERE,
    }
    assert later.is_complete(made.poll_id)
    assert len(made.moves) == len(set(uneven.unloads)) == len(uneven.unloads) >= asked


async def test_what_is_past_is_not_decided_once_more(
    uneven: FakeCluster, http: aiohttp.ClientSession, store: Store
) -> None:
    """A stream that lost its states folds all polls again, and ends batches at others of them."""
    history = HistoryTables(store)
    await made_of(balancer(http, history), seen(uneven, 100))
    unloads = list(uneven.unloads)
    for number in (10, 50, 99, 100):
        assert await balancer(http, HistoryTables(store)).step(seen(uneven, number)) is None
    assert uneven.unloads == unloads
    assert len(files(store, "rounds")) == len(files(store, "decisions")) == 1


@pytest.mark.parametrize("table", ["decisions", "rejections"])
async def test_a_round_of_which_a_part_is_gone_is_no_riddle(
    uneven: FakeCluster,
    http: aiohttp.ClientSession,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    table: str,
) -> None:
    state = seen(uneven, 1)
    first = HistoryTables(store)
    with monkeypatch.context() as patch:
        cut_off(first, "after one outcome", patch)
        with pytest.raises(CutOffError):
            await balancer(http, first).step(state)
    before = HistoryTables(store).round(START + 5000)
    store.delete(file_of(table, START + 5000))
    later = HistoryTables(store)
    made = await made_of(balancer(http, later), state)
    assert before is not None
    assert made.moves == before.moves
    assert len(uneven.unloads) == len(made.moves), "each of them once"
    assert later.is_complete(made.poll_id)


@pytest.mark.parametrize("what", ["the lease", "the history", "another in its place"])
async def test_who_loses_its_history_writes_nothing_more(store: Store, what: str) -> None:
    root = path_of(store, "")
    async with lease(store, lambda: None, LeaseOptions()) as mine:
        mine.write("version", b"3\n")
        if what == "the lease":
            (root / "lease").unlink()
            async with lease(store, lambda: None, LeaseOptions()) as other:
                other.write("version", b"3\n")
        else:
            root.rename(root.with_name("elsewhere"))
            if what == "another in its place":
                shutil.copytree(root.with_name("elsewhere"), root)
        for change in (lambda: mine.write("x", b""), lambda: mine.delete("version"), mine.guard):
            with pytest.raises(HistoryFaultError, match=f"{root}.* was moved or removed"):
                change()
    assert not (root / "x").exists()
    assert root.exists() == (what != "the history"), "and it is not made again"


def test_a_history_that_cannot_be_compacted_is_said_to_be_once(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    landed(store)
    name = files(store, "reports")[1]
    whole = path_of(store, name).read_bytes()
    told: list[str] = []
    keeps = Keeping(store, KeepingOptions(compact_from=1, look_every=1), told.append)
    path_of(store, name).write_bytes(b"half")
    for _ in range(2):
        keeps._keep(START * 2)
    [said] = told
    assert f"{name} is damaged" in said
    assert "tried again" in said
    path_of(store, name).write_bytes(whole)
    keeps._keep(START * 2)
    assert len(files(store, "reports")) == 1
    assert len(told) == 1

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("out of ideas")

    monkeypatch.setattr(keeping, "compact", fails)
    keeps._keep(START * 2)
    assert told[1].endswith("out of ideas")
    assert capsys.readouterr().err == "", "no traceback on the terminal"


async def test_a_clock_that_was_ahead_is_said_and_what_is_of_a_time_to_come_goes(
    uneven: FakeCluster, http: aiohttp.ClientSession, store: Store
) -> None:
    landed(store)
    last = START + 10_000
    write_state(store, state_name(last, 0, 1), FoldState.empty())
    HistoryTables(store).record_memory(last, RoundMemory())
    told, now = LogLines(), [last - 3_600_000]
    for _ in range(3):
        seen_then = Collector(
            http, [uneven.admin_url], lambda: now[0], after_poll=newest_poll(store)
        )
        polling = Polling(
            seen_then, store, told.append, Metrics(lambda: now[0], 5.0), None, lambda: now[0]
        )
        await polling.poll()
        await polling.poll()
        seen_then.close()
    said = [sentence for sentence in told if "clock" in sentence]
    assert len(said) == 3, "once for each who polls"
    assert "is 1:00:00 behind the newest poll" in said[0]
    assert f"history repair {store.root}" in said[0]
    assert check(store, now[0] + 3_600_000).ahead == ()
    found = repair(store, now[0])
    assert {name.partition("/")[0] for name in found.ahead} >= {"reports", "states", "memory"}
    assert newest_poll(store) == 0
    assert HistoryTables(store).memory_before(2**60) == RoundMemory()
    assert all(path_of(store, f"ahead/{name}").is_file() for name in found.ahead)
    await polling.poll()
    now[0] += 3_700_000
    await polling.poll()
    assert told[-1].startswith("this machine's clock has passed")


def test_every_byte_of_a_record_of_reigns_is_held_against_its_checksum() -> None:
    """A digit of it that is another would take files from the history, or give it late ones."""
    lineage = Lineage((FIRST, Reign("0123456789ab", 5, 6, 7, ("rounds/x",))), frozenset({"dead"}))
    whole = lineage.to_json()
    assert Lineage.from_json(whole) == lineage
    for place in range(len(whole)):
        turned = bytearray(whole)
        turned[place] ^= 1
        try:
            read = Lineage.from_json(bytes(turned))
        except (ValueError, KeyError, TypeError):
            continue
        assert read == lineage


class Failing(fs.LocalFileSystem):  # type: ignore[misc]
    """A file system on which nothing that is there can be changed."""

    def delete_file(self, path: str) -> None:
        raise OSError(errno.EROFS, "no")

    delete_dir = delete_file

    def move(self, src: str, dest: str) -> None:
        raise OSError(errno.EROFS, "no")


@pytest.mark.parametrize("how", ["delete", "delete_directory", "move"])
def test_a_change_that_is_refused_is_a_sentence_as_a_write_is(tmp_path: Path, how: str) -> None:
    store = Store(Failing(), str(tmp_path), str(tmp_path))
    with pytest.raises(HistoryFaultError, match=f"{tmp_path}/x cannot be written, it is read-only"):
        getattr(store, how)(*(("y", "x") if how == "move" else ("x",)))


async def test_a_store_that_is_slow_is_said_to_be(
    uneven: FakeCluster,
    http: aiohttp.ClientSession,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told, answers, said = LogLines(), threading.Event(), asyncio.Event()

    def tell(sentence: str) -> None:
        told.append(sentence)
        if "has not taken what was seen" in sentence:
            said.set()

    def clock() -> int:
        return START

    looks = Collector(http, [uneven.admin_url], clock)
    polling = Polling(looks, store, tell, Metrics(clock, 5.0), clock_ms=clock)
    keep = polling._keep

    def keeps(rows: ReportRows) -> None:
        answers.wait(30)
        keep(rows)

    monkeypatch.setattr(polling, "_keep", keeps)
    monkeypatch.setattr(polling_module, "SLOW_AFTER_S", 0.05)
    task = asyncio.create_task(polling.poll())
    await said.wait()
    assert newest_poll(store) == 0
    answers.set()
    await task
    looks.close()
    assert newest_poll(store) == START
    assert f"{store.root} has taken it" in told


@pytest.mark.parametrize("late_s", [3600, -3600])
async def test_what_was_decided_at_another_time_is_not_carried_out(
    uneven: FakeCluster, http: aiohttp.ClientSession, store: Store, late_s: int
) -> None:
    history = HistoryTables(store)
    late = balancer(http, history, clock=lambda: START + late_s * 1000)
    made = await made_of(late, seen(uneven))
    assert {one.status for one in outcomes(history, made)} == {MoveStatus.STALE}
    assert uneven.unloads == []
