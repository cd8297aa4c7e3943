"""The metadata that is kept in a file: what outlives the process, and what must not."""

import asyncio
import gc
import itertools
import sqlite3
import subprocess
import sys
import textwrap
import threading
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from counterpoise.metadata import (
    BadVersion,
    InvalidMetadataUrl,
    MetadataError,
    MetadataStore,
    NotEmpty,
    StoreUnavailable,
    open_store,
    open_tree,
)
from counterpoise.metadata.sqlite import SqliteTree
from tests.waiting import WITHIN_S

NUMBERS = itertools.count()


def url_of(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/deep%20down/metadata.db"


async def test_what_is_stored_comes_back_and_ephemeral_nodes_do_not(tmp_path: Path) -> None:
    store = await open_store(url_of(tmp_path))
    await store.put("/a/b", b"one")
    await store.put("/a/b", b"two")
    await store.put("/gone", b"")
    await store.delete("/gone")
    await store.put("/brokers/here", b"x", ephemeral=True)
    await store.put("/brokers/here", b"y")
    await store.close()
    store = await open_store(url_of(tmp_path))
    found = await store.get("/a/b")
    assert (found.value, found.version, found.ephemeral) == (b"two", 1, False)
    assert await store.children("/") == ["a", "brokers"]
    assert await store.children("/brokers") == []
    with pytest.raises(NotEmpty):
        await store.delete("/a")
    with pytest.raises(BadVersion):
        await store.put("/a/b", b"", expected_version=0)
    assert await store.put("/a/b", b"three", expected_version=1) == 2
    await store.close()


async def test_a_number_is_not_used_again_by_a_later_process(tmp_path: Path) -> None:
    numbers = []
    for _ in range(3):
        store = await open_store(url_of(tmp_path))
        path = await store.put_next("/ids/ID-", b"", ephemeral=True)
        numbers.append(path.removeprefix("/ids/ID-"))
        await store.close()
    assert numbers == [f"{number:010d}" for number in range(3)]
    store = await open_store(url_of(tmp_path))
    await store.delete("/ids")
    assert await store.put_next("/ids/ID-", b"", ephemeral=True) == "/ids/ID-0000000000"
    await store.close()
    store = await open_store(url_of(tmp_path))
    await store.delete("/ids")
    await store.put("/ids", b"made again")
    await store.close()
    store = await open_store(url_of(tmp_path))
    path = await store.put_next("/ids/ID-", b"", ephemeral=True)
    assert path == "/ids/ID-0000000000", "the numbers went with the node"
    await store.close()


async def test_a_file_of_a_later_layout_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    store = await open_store(url_of(tmp_path))
    await store.put("/a", b"kept")
    await store.close()
    file = tmp_path / "deep down" / "metadata.db"
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA user_version = 2")
    with pytest.raises(StoreUnavailable, match=r"written by a later version \(layout 2\)"):
        await open_store(url_of(tmp_path))
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (2,)
        assert database.execute("SELECT value FROM nodes").fetchall() == [(b"kept",)]


async def test_each_change_is_on_the_disk_before_it_is_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FULL: also after the machine has lost its power."""
    opened: list[sqlite3.Connection] = []

    def connect(*args: Any, **how: Any) -> sqlite3.Connection:
        opened.append(connection := connect_to(*args, **how))
        return connection

    connect_to = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", connect)
    store = await open_store(url_of(tmp_path))
    full = 2
    assert opened[0].execute("PRAGMA synchronous").fetchone() == (full,)
    await store.close()


async def test_one_process_has_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect, at_once = sqlite3.connect, {"timeout": 0.05}
    monkeypatch.setattr(sqlite3, "connect", lambda *file, **how: connect(*file, **how | at_once))
    store = await open_store(url_of(tmp_path))
    await store.put("/a", b"mine")
    with pytest.raises(StoreUnavailable, match="another process uses this file"):
        await open_store(url_of(tmp_path))
    assert await store.get("/a") is not None
    await store.close()


KILLED = """
    import asyncio, sys
    from counterpoise.metadata import open_store

    async def main():
        store = await open_store(sys.argv[1])
        await store.put("/owner", b"", ephemeral=True)
        n = 0
        while True:
            await store.put(f"/n/{n}", b"x" * 100)
            print(n, flush=True)
            n += 1

    asyncio.run(main())
"""


def test_a_killed_process_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    script = tmp_path / "writer.py"
    script.write_text(textwrap.dedent(KILLED))
    argv = [sys.executable, str(script), url_of(tmp_path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as writer:
        for _ in range(20):
            last = int(writer.stdout.readline())
        writer.kill()
        for line in writer.stdout.read().split():
            last = int(line)

    async def survivors() -> tuple[set[str], bool]:
        store = await open_store(url_of(tmp_path))
        found = set(await store.children("/n")), await store.exists("/owner")
        await store.close()
        return found

    names, owned = asyncio.run(survivors())
    assert names >= {str(n) for n in range(last + 1)}
    assert not owned


async def test_a_disk_that_fails_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = await open_tree(url_of(tmp_path))
    assert isinstance(tree, SqliteTree)
    store = tree.open()
    await store.put("/a", b"before")
    heard: list[object] = []
    store.subscribe(heard.append)

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(tree, "_commit", full)
        for change in (store.put("/a", b"after"), store.put("/b", b""), store.delete("/a")):
            with pytest.raises(StoreUnavailable, match="disk is full"):
                await change
    await asyncio.sleep(0)
    assert heard == []
    assert (await _value(store, "/a"), await store.exists("/b")) == (b"before", False)
    assert await store.put("/a", b"after") == 1
    await store.close()


class FaultyDisk(sqlite3.Connection):
    """Commits nothing while it is full, and takes its time for what it commits."""

    full = False
    is_slow = False
    begun = threading.Event()
    released = threading.Event()
    was_released = False

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        if statement == "COMMIT" and FaultyDisk.full:
            raise sqlite3.OperationalError("database or disk is full")
        if statement == "COMMIT" and FaultyDisk.is_slow:
            self.begun.set()
            FaultyDisk.was_released = self.released.wait(WITHIN_S)
        return super().execute(statement, *values)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> type[FaultyDisk]:
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=FaultyDisk))
    for flag in ("full", "is_slow", "was_released"):
        monkeypatch.setattr(FaultyDisk, flag, False)
    for event in ("begun", "released"):
        monkeypatch.setattr(FaultyDisk, event, threading.Event())
    return FaultyDisk


async def test_what_a_full_disk_refused_is_undone_and_the_next_write_goes_on(
    tmp_path: Path, disk: type[FaultyDisk]
) -> None:
    """Of a node and its parents none is in the file: they can be written again."""
    store = await open_store(url_of(tmp_path))
    disk.full = True
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="disk is full"):
            await store.put("/a/b/c", b"refused")
    disk.full = False
    await store.put("/a/b/d", b"taken")
    await store.close()
    store = await open_store(url_of(tmp_path))
    assert await store.children("/a/b") == ["d"]
    await store.close()


NODES = st.sampled_from(["/a", "/a/b", "/c", "/c/d-"])
CHANGES = st.one_of(
    st.tuples(st.just("put"), NODES, st.sampled_from([None, -1, 0, 1]), st.booleans()),
    st.tuples(st.just("put_next"), NODES, st.none(), st.booleans()),
    st.tuples(st.just("delete"), NODES, st.sampled_from([None, 0, 1]), st.just(False)),
    st.tuples(st.sampled_from(["the disk is full", "a caller leaves", "a session ends"])),
)
HELPLESS = ("put_next", "/a", None, True), ("a session ends",)


async def _stored(store: MetadataStore, path: str = "/") -> dict[str, object]:
    """What is to be found again: value and version of each lasting node below a path."""
    found: dict[str, object] = {}
    for name in await store.children(path):
        below = f"{path.rstrip('/')}/{name}"
        node = await store.get(below)
        assert node is not None
        if not node.ephemeral:
            found |= {below: (node.value, node.version), **await _stored(store, below)}
    return found


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.lists(CHANGES, max_size=6), max_size=3))
@example([[("put", "/a", 0, False)] * 2, [("put", "/a", 0, False)] * 2])
@example([[("put", "/a", 0, False), ("delete", "/a", 0, False), ("put", "/a", 0, False)]])
@example([[*HELPLESS], [*HELPLESS]])
async def test_the_file_has_what_was_seen_whatever_was_done_at_once_and_failed(
    tmp_path: Path, disk: type[FaultyDisk], rounds: list[list[tuple[Any, ...]]]
) -> None:
    file = f"sqlite://{tmp_path}/{next(NUMBERS)}.db"
    tree = await open_tree(file)
    watching = tree.open()
    await watching.put("/a", b"first")
    for number, changes in enumerate(rounds):
        store, doing = tree.open(), list[asyncio.Task[object]]()
        disk.full = ("the disk is full",) in changes
        for each in changes:
            match each:
                case ("put", path, expected, ephemeral):
                    value = f"{number}.{len(doing)}".encode()
                    work = store.put(path, value, expected_version=expected, ephemeral=ephemeral)
                case ("put_next", path, _, ephemeral):
                    work = store.put_next(path, b"", ephemeral=ephemeral)
                case ("delete", path, expected, _):
                    work = store.delete(path, expected_version=expected)
                case _:
                    continue
            doing.append(asyncio.ensure_future(work))
        await asyncio.sleep(0)
        if doing and ("a caller leaves",) in changes:
            doing[0].cancel()
        if ("a session ends",) in changes:
            store.kill()
        await asyncio.wait(doing) if doing else None
        for each in doing:
            assert each.cancelled() or isinstance(each.exception(), MetadataError | None)
        await store.close()
    disk.full = False
    await watching.put("/last", b"in its turn")
    seen = await _stored(watching)
    names = [path for path in await watching.children("/") if f"/{path}" not in seen]
    assert names == [], "an ephemeral node outlives its session"
    await watching.close()
    again = await open_store(file)
    assert await _stored(again) == seen
    await again.close()


async def test_a_session_that_ends_does_not_wait_for_the_disk(
    tmp_path: Path, disk: type[FaultyDisk]
) -> None:
    """Its broker goes on with other work; what was being written is stored all the same."""
    store = await open_store(url_of(tmp_path))
    disk.is_slow = True
    writing = asyncio.ensure_future(store.put("/a", b"last words"))
    assert await asyncio.to_thread(disk.begun.wait, WITHIN_S)
    await store.close()
    disk.released.set()
    await asyncio.wait([writing])
    assert disk.was_released, "the event loop stood still until the disk had written"
    disk.is_slow = False
    store = await open_store(url_of(tmp_path))
    assert await _value(store, "/a") == b"last words"
    await store.close()


async def test_a_change_goes_on_though_no_caller_waits_for_it(
    tmp_path: Path, disk: type[FaultyDisk]
) -> None:
    store, unseen = await open_store(url_of(tmp_path)), list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _, failure: unseen.append(failure))
    disk.full = True
    refused = asyncio.ensure_future(store.put("/b", b"x"))
    await asyncio.sleep(0)
    refused.cancel()
    with pytest.raises(StoreUnavailable, match="disk is full"):
        await store.delete("/")
    del refused
    gc.collect()
    assert unseen == [], "it failed, and that is of no interest"
    disk.full = False
    waiting = asyncio.ensure_future(store.put("/a", b"x"))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await store.put("/a", b"y") == 1
    await store.close()


async def test_an_ephemeral_node_does_not_outlive_a_session_that_ends_meanwhile(
    tmp_path: Path,
) -> None:
    tree = await open_tree(url_of(tmp_path))
    store, other = tree.open(), tree.open()
    waiting = asyncio.ensure_future(store.put("/p/e", b"x", ephemeral=True))
    await asyncio.sleep(0)
    store.kill()
    with pytest.raises(StoreUnavailable):
        await waiting
    assert await other.children("/p") == []
    await other.close()
    again = await open_store(url_of(tmp_path))
    assert await again.children("/") == ["p"]
    await again.close()


@pytest.mark.parametrize("url", ["sqlite:", "sqlite:relative.db", "sqlite://host", "sqlite:///d/"])
async def test_no_file_is_an_error(url: str) -> None:
    with pytest.raises(InvalidMetadataUrl):
        await open_store(url)


async def test_a_file_that_is_no_database_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(b"not a database, and long enough to be looked at" * 50)
    with pytest.raises(StoreUnavailable, match=r"x\.db: file is not a database"):
        await open_store(f"sqlite://{tmp_path}/x.db")


async def _value(store: MetadataStore, path: str) -> bytes | None:
    found = await store.get(path)
    return None if found is None else found.value
