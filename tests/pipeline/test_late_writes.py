"""Writes that arrive when the history is another's: whatever they are, nobody reads them.

The endpoint holds back what one holder of the history writes, until another has taken it over and
gone on; a clock that jumps stands for the time in which a process stood still.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import pyarrow as pa
import pytest

from counterpoise.app.main import main
from counterpoise.app.strategies import strategy_from
from counterpoise.decide.balancing.moves import MoveOutcome, MoveStatus, Round, RoundMemory
from counterpoise.load.fold import FoldState
from counterpoise.names.properties import Properties
from counterpoise.pipeline.history.care import repair
from counterpoise.pipeline.history.compaction import compact, remove_leftovers
from counterpoise.pipeline.history.layout import days, files
from counterpoise.pipeline.history.names import TABLES, archive_of, file_of
from counterpoise.pipeline.history.ownership import Owners
from counterpoise.pipeline.history.reigns import signed, unsigned
from counterpoise.pipeline.history.reports import land
from counterpoise.pipeline.history.store import Store, open_store
from counterpoise.pipeline.history.tables import HistoryTables, read_table
from counterpoise.pipeline.runner import RunSettings, SparkBalancer
from counterpoise.pipeline.stream.running import StreamFailedError
from counterpoise.pipeline.stream.states import complete, state_name, write_state
from counterpoise.pipeline.tables.faults import HistoryFaultError
from tests.load.story import START, poll
from tests.pipeline.fake_cluster import bundle_name
from tests.pipeline.s3_server import Bucket, bucket, own_path
from tests.pipeline.test_lease import NEVER, OPTIONS, Process

pytestmark = pytest.mark.timeout(60)
EVERY = 5000


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Gives those who come next names that begin with these digits: an order among them."""

    def digits(each: str) -> None:
        names = iter(each)
        made = SimpleNamespace(uuid4=lambda: SimpleNamespace(hex=next(names) + uuid4().hex[1:]))
        monkeypatch.setattr("counterpoise.pipeline.history.lease.uuid", made)

    return digits


@dataclass
class Held:
    """Writes that have left, and arrive when `go_on` is set."""

    names: str
    """Of which files, by a part of their name."""
    arrived: list[str] = field(default_factory=list)
    some: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    go_on: threading.Event = field(default_factory=threading.Event)

    def before(self, name: str) -> None:
        if self.names in name:
            self.arrived.append(name)
            self.some.release()
            assert self.go_on.wait(50)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Bucket]:
    threads = pa.io_thread_count()
    pa.set_io_thread_count(threads + 16)  # each write that is held back keeps one
    with bucket() as made:
        yield made
    pa.set_io_thread_count(threads)


@pytest.fixture
def store(endpoint: Bucket, request: pytest.FixtureRequest) -> Iterator[Store]:
    yield open_store(endpoint.uri(f"late/{own_path(request.node.name)}"))
    endpoint.before = None


def at(number: int) -> int:
    return START + EVERY * number


def look(store: Store, number: int, broker: str = "b1:80") -> None:
    """Land a poll, as whoever holds the history does."""
    rows = poll(number, {broker: {bundle_name(n): 10.0 * number for n in range(3)}})
    owners = Owners.of(store)
    owners.land(store, rows)
    land(store, rows)


def outcome(number: int, owner: str) -> MoveOutcome:
    return MoveOutcome(
        id=f"{at(number)}-00000001", poll_id=at(number), bundle=bundle_name(0), source="b1:80",
        destination="b2:80", status=MoveStatus.MOVED, owner=owner, started_at_ms=1, ended_at_ms=2,
        error="",
    )  # fmt: skip


def made(number: int, by: str) -> Round:
    memory = RoundMemory(decided_at_ms=at(number))
    return Round(at(number), by, 1.0, 2, 3, (), (), memory)


async def taken(store: Store, process: Process) -> Store:
    """By another, for whom the time of a lease has gone by in a moment."""
    process.runs = 5.0
    mine = await process.takes(store, OPTIONS)
    process.runs = 0.0
    return mine


def token_of(store: Store) -> str:
    return store.uri.rpartition("=")[2]


async def all_under_way(
    endpoint: Bucket, writes: list[Callable[[], object]], held: Held
) -> "asyncio.Future[list[object]]":
    endpoint.before = held.before
    threads = ThreadPoolExecutor(len(writes))
    loop = asyncio.get_running_loop()
    under_way = asyncio.gather(*(loop.run_in_executor(threads, each) for each in writes))
    threads.shutdown(wait=False)
    for _ in writes:
        assert await asyncio.to_thread(held.some.acquire, timeout=50)
    return under_way


def everything(store: Store) -> dict[str, list[dict[str, object]]]:
    return {table: read_table(store, table) for table in TABLES}


def home_of(store: Store) -> str:
    return store.root.partition("/")[2]


def stored(endpoint: Bucket, store: Store) -> list[str]:
    """The files of the tables, as one sees them who knows nothing of reigns."""
    home = home_of(store)
    names = [name.removeprefix(f"{home}/") for name in endpoint.objects if name.startswith(home)]
    return sorted(name for name in names if name.partition("/")[0] in TABLES and name[-1] != "/")


async def test_nothing_of_a_former_holder_that_arrives_late_is_read(
    store: Store, endpoint: Bucket
) -> None:
    """It had a write under way in each of its threads, when it stood still."""
    old, new = Process(), Process()
    mine = await old.takes(store, NEVER)
    tables = HistoryTables(mine)
    for number in range(3):
        look(mine, number)
    for shard in range(2):
        write_state(mine, state_name(at(2), shard, 2), FoldState.empty())
    tables.record_round(made(1, "old"))
    tables.record_memory(at(1), RoundMemory(decided_at_ms=at(1)))
    tables.record_round(made(2, "old"))
    held = Held(f".{token_of(mine)}.")
    under_way = await all_under_way(
        endpoint,
        [
            lambda: land(mine, poll(3, {"b1:80": {}})),
            lambda: mine.write(file_of("ownership", at(3)), b"late"),
            lambda: tables.record_outcome(outcome(2, "late")),
            lambda: tables.record_memory(at(2), RoundMemory(decided_at_ms=7)),
            lambda: mine.write(file_of("decisions", at(3)), b"late"),
            lambda: mine.write(file_of("rounds", at(3)), b"late"),
            lambda: write_state(mine, state_name(at(3), 0, 2), FoldState.empty()),
            lambda: write_state(mine, state_name(at(3), 1, 2), FoldState.empty()),
            lambda: mine.write(archive_of("reports", at(0), at(1)), b"late"),
        ],
        held,
    )
    old.now = 1e6
    theirs = await taken(store, new)
    heirs = HistoryTables(theirs)
    assert heirs.round(at(2)) == made(2, "old"), "a round that was found is gone on with"
    assert heirs.outcome(f"{at(2)}-00000001") is None
    heirs.record_outcome(outcome(2, "new"))
    heirs.record_memory(at(2), RoundMemory(decided_at_ms=at(2)))
    look(theirs, 4, "b2:80")
    assert compact(theirs, "reports", up_to_poll=at(2), at_least=1) == 3
    before, fresh = everything(theirs), open_store(store.uri)
    assert everything(fresh) == before
    held.go_on.set()
    await under_way
    endpoint.before = None
    assert len(set(held.arrived)) == 9

    assert everything(theirs) == before, "to the one who has it now"
    assert everything(fresh) == before, "to anybody else"
    assert [row["owner"] for row in before["outcomes"]] == ["new"]
    assert complete(fresh) == [(at(2), 2)]
    assert heirs.memory_before(at(3)).decided_at_ms == at(2)
    with pytest.raises(HistoryFaultError, match="has taken"):
        land(mine, poll(5, {"b1:80": {}}))

    # Those who read directories get to see them until they are set aside, which is soon.
    for table in TABLES:
        remove_leftovers(theirs, table)
    assert everything(fresh) == before
    assert {unsigned(name)[0] for name in stored(endpoint, store)} == {
        name for table in TABLES for name in files(fresh, table)
    }
    aside = [name for name in endpoint.objects if "/late/" in name and name[-1] != "/"]
    assert len(aside) == 6, "what has a name of its own; the rest was in the way of nobody"
    await old.stack.aclose()
    await new.stack.aclose()


async def test_who_took_it_over_and_stood_still_at_once_is_not_believed_later(
    store: Store, endpoint: Bucket, named: Callable[[str], None]
) -> None:
    """Its record arrives when a third one has the history already."""
    named("0f12")
    first, second, third = Process(), Process(), Process()
    look(await first.takes(store, NEVER), 0)
    await first.stack.aclose()
    held = Held("/reigns/")
    endpoint.before = held.before
    second.runs = 0.0
    taking = asyncio.create_task(second.takes(store, NEVER))
    assert await asyncio.to_thread(held.some.acquire, timeout=50)
    endpoint.before = None
    theirs = await taken(store, third)
    look(theirs, 1)
    before = everything(theirs)
    second.now = 1e6
    held.go_on.set()
    with pytest.raises(HistoryFaultError, match="has taken"):
        await taking
    fresh = open_store(store.uri)
    assert len(fresh.names("reigns")) == 2
    assert everything(fresh) == everything(theirs) == before
    await third.stack.aclose()
    # Nor by who comes after that.
    fourth = Process()
    look(await fourth.takes(store, NEVER), 2)
    assert len(read_table(fresh, "reports")) == len(before["reports"]) // 2 * 3
    await fourth.stack.aclose()


async def test_who_was_taken_for_dead_and_comes_again_is_another(
    store: Store, endpoint: Bucket
) -> None:
    """It stood still behind its claim, which was taken away; later it has the history after all."""
    slow, quick = Process(), Process()
    there, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def heard(name: str) -> None:
        if "/claims/" in name and not go_on.is_set():
            endpoint.heard = None
            loop.call_soon_threadsafe(there.set)
            assert go_on.wait(50)

    endpoint.heard = heard
    taking = asyncio.create_task(slow.takes(store, OPTIONS))
    await there.wait()
    theirs = await taken(store, quick)
    look(theirs, 0)
    slow.now = 1e6
    go_on.set()
    await quick.stack.aclose()
    look(await taking, 1)
    assert {row["poll_id"] for row in read_table(store, "reports")} == {at(0), at(1)}
    await slow.stack.aclose()


async def test_what_an_heir_writes_anew_is_there_once(
    store: Store, endpoint: Bucket, named: Callable[[str], None]
) -> None:
    """A round of which the decisions are there, and not what says that they are all."""
    named("f0")
    old, new = Process(), Process()
    mine = await old.takes(store, NEVER)
    look(mine, 0)
    mine.write(file_of("decisions", at(0)), b"cut off")
    await old.stack.aclose()
    theirs = await new.takes(store, NEVER)
    HistoryTables(theirs).record_round(made(0, "new"))
    names = [name for name in stored(endpoint, store) if name.startswith("decisions/")]
    assert len(names) == 1
    fresh = HistoryTables(open_store(store.uri))
    assert fresh.round(at(0)) == made(0, "new")
    # As when it was killed before it could take the other away.
    old_name = signed(file_of("decisions", at(0)), token_of(mine))
    endpoint.write(f"{home_of(store)}/{old_name}", b"cut off")
    assert old_name in stored(endpoint, store)
    assert read_table(fresh.store, "decisions") == []
    assert fresh.round(at(0)) == made(0, "new")
    await new.stack.aclose()


async def test_tasks_elsewhere_write_for_their_holder_and_for_no_other(store: Store) -> None:
    old, new = Process(), Process()
    mine = await old.takes(store, NEVER)
    look(mine, 0)
    task = open_store(mine.uri)
    for shard in range(2):
        write_state(task, state_name(at(0), shard, 2), FoldState.empty())
    assert complete(mine) == complete(open_store(store.uri)) == [(at(0), 2)]
    old.now = 1e6
    theirs = await taken(store, new)
    for shard in range(2):
        write_state(task, state_name(at(1), shard, 2), FoldState.empty())
    assert complete(theirs) == [(at(0), 2)], "what a task of the former one does late"
    with pytest.raises(HistoryFaultError, match="has taken"):
        open_store(f"{store.uri}#reign={token_of(mine)}x")
    await old.stack.aclose()
    await new.stack.aclose()


async def test_a_copy_on_a_disk_is_what_the_history_was(
    store: Store, endpoint: Bucket, tmp_path: Path
) -> None:
    old, new, here = Process(), Process(), Process()
    mine = await old.takes(store, NEVER)
    look(mine, 0)
    held = Held("/reports/")
    under_way = await all_under_way(endpoint, [lambda: look(mine, 1)], held)
    old.now = 1e6
    endpoint.before = None
    theirs = await taken(store, new)
    look(theirs, 2)
    held.go_on.set()
    await under_way
    before = everything(theirs)
    home = home_of(store)
    for name in [name for name in endpoint.objects if name.startswith(home) and name[-1] != "/"]:
        path = tmp_path / name.removeprefix(f"{home}/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(endpoint.read(name))
    copy = open_store(tmp_path)
    assert everything(copy) == before
    mine = await here.takes(copy, replace(NEVER, wait_s=0.0))
    look(mine, 3)
    assert len(read_table(copy, "reports")) == len(before["reports"]) // 2 * 3
    repair(mine)
    assert len(days(copy, "reports")) == 1
    assert len(list((tmp_path / "late").rglob("*.parquet"))) == 1
    for each in (old, new, here):
        await each.stack.aclose()


async def test_a_record_that_is_damaged_is_a_sentence_and_repair_goes_on_with_every_file(
    store: Store, endpoint: Bucket
) -> None:
    for number in range(2):
        process = Process()
        look(await process.takes(store, NEVER), number)
        await process.stack.aclose()
    before, fresh = everything(store), open_store(store.uri)
    reigns = f"{home_of(store)}/reigns/"
    [record] = [name for name in endpoint.objects if name.startswith(reigns) and name != reigns]
    endpoint.write(record, b"{")
    with pytest.raises(HistoryFaultError, match=r"reigns/.*history repair"):
        everything(fresh)
    with pytest.raises(HistoryFaultError, match="history repair"):
        await Process().takes(store, NEVER)
    for claim in store.names("claims"):  # who could not begin leaves it, until it lapses
        store.delete(f"claims/{claim}")
    assert await asyncio.to_thread(main, ["history", "repair", store.uri]) == 0
    assert everything(fresh) == before
    assert any("/damaged/reigns/" in name for name in endpoint.objects)


async def test_a_stream_that_fails_as_another_has_the_history_says_that(
    store: Store, endpoint: Bucket
) -> None:
    """What ends it is that states it went on from were taken away."""
    settings = RunSettings(("http://nobody:1",), store.uri)
    balancer = SparkBalancer(settings, strategy_from(Properties({})), lambda _: None)

    def ends() -> None:
        raise StreamFailedError("a state is not there")

    with pytest.raises(StreamFailedError):
        balancer._unless_taken(ends)
    old, new = Process(), Process()
    balancer._store = await old.takes(store, NEVER)
    old.now = 1e6
    await taken(store, new)
    with pytest.raises(HistoryFaultError, match="has taken"):
        await asyncio.to_thread(balancer._unless_taken, ends)
    await old.stack.aclose()
    await new.stack.aclose()
