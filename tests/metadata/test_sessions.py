"""What a lost connection and a lost session look like, on the real ZooKeeper and in memory."""

import asyncio
import socket
import struct
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, NoNodeError, SessionExpiredError
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import KazooState

from counterpoise.app.clusters.zookeeper import ZooKeeper
from counterpoise.metadata import (
    VALUE_BYTES_MAX,
    BadVersion,
    InvalidMetadataUrl,
    MemoryTree,
    MetadataStore,
    Notification,
    NotificationKind,
    SessionEvent,
    StoreUnavailable,
    ValueTooLarge,
    open_reader,
    open_store,
    zk_handler,
)
from counterpoise.metadata.port import MUST_NOT_EXIST
from counterpoise.metadata.zk import ZooKeeperStore
from counterpoise.metadata.zk_handler import bounded_handler
from counterpoise.metadata.zk_session import SessionWatch
from counterpoise.metadata.zk_watch import SubtreeWatch
from tests.quota.jumping import on_jumping_loop, pass_time
from tests.waiting import WITHIN_S, until

LOST_AND_BACK = [SessionEvent.SESSION_LOST, SessionEvent.SESSION_REESTABLISHED]


class Events:
    def __init__(self, store: MetadataStore) -> None:
        self.queue: asyncio.Queue[SessionEvent] = asyncio.Queue()
        store.subscribe_session(self.queue.put_nowait)

    async def until(self, last: SessionEvent) -> list[SessionEvent]:
        seen: list[SessionEvent] = []
        try:
            async with asyncio.timeout(40):
                while last not in seen:
                    seen.append(await self.queue.get())
        except TimeoutError:
            raise AssertionError(f"waited for {last}, saw {seen}") from None
        return seen


async def test_a_session_that_expires_in_memory() -> None:
    store = MemoryTree().open()
    await store.put("/e", b"", ephemeral=True)
    events = Events(store)
    store.expire()
    assert await events.until(SessionEvent.SESSION_REESTABLISHED) == LOST_AND_BACK
    assert await store.get("/e") is None
    await store.put("/e", b"", ephemeral=True)
    found = await store.get("/e")
    assert found.mine


@pytest.mark.parametrize(("away_s", "seen"), [(1.9, "back in time"), (2.1, "lost")])
@on_jumping_loop
async def test_a_session_without_a_server_is_lost_by_its_own_clock(
    away_s: float, seen: str
) -> None:
    """Only a server could say that it expired: the other brokers do not wait for that."""
    events: list[SessionEvent] = []
    watches = 0

    async def rewatch() -> None:
        nonlocal watches
        watches += 1

    watch = SessionWatch(2, rewatch=rewatch, notify=events.append)
    watch.on_state(KazooState.CONNECTED)
    assert (watch.connected, events) == (True, [])
    watch.on_state(KazooState.SUSPENDED)
    assert not watch.connected
    await pass_time(away_s)
    away = [SessionEvent.CONNECTION_LOST] + [SessionEvent.SESSION_LOST] * (seen == "lost")
    assert events == away
    # Kazoo hears of the loss later, from the server: that is no second one.
    if seen == "lost":
        watch.on_state(KazooState.LOST)
    watch.on_state(KazooState.CONNECTED)
    await pass_time(0.1)
    assert (watch.connected, watches) == (True, 1)
    back = SessionEvent.SESSION_REESTABLISHED if seen == "lost" else SessionEvent.RECONNECTED
    await pass_time(10)
    assert events == [*away, back]
    watch.on_state(KazooState.SUSPENDED)
    watch.stop()
    await pass_time(10)
    assert events == [*away, back, SessionEvent.CONNECTION_LOST]


@pytest.mark.parametrize("state", ["SUSPENDED", "LOST", "CONNECTED"])
@pytest.mark.parametrize("before", ["CONNECTED", "SUSPENDED", "back"])
@on_jumping_loop
async def test_a_watch_that_was_stopped_is_not_connected_and_reports_nothing_more(
    before: str, state: str
) -> None:
    """Kazoo goes on reporting until it has ended the session, which takes it a while."""
    events: list[SessionEvent] = []
    watched = asyncio.Event()

    async def rewatch() -> None:
        await watched.wait()

    watch = SessionWatch(2, rewatch=rewatch, notify=events.append)
    watch.on_state(KazooState.CONNECTED)
    if before != "CONNECTED":
        watch.on_state(KazooState.SUSPENDED)
    if before == "back":
        watch.on_state(KazooState.CONNECTED)
        await asyncio.sleep(0)
    events.clear()
    watch.stop()
    assert not watch.connected
    watch.on_state(getattr(KazooState, state))
    watched.set()
    await pass_time(10)
    assert (watch.connected, events) == (False, [])


async def test_a_session_in_memory_that_is_ended_reports_nothing_more() -> None:
    """Not even what happened to it in the same turn."""
    store = MemoryTree().open()
    events: list[SessionEvent] = []
    store.subscribe_session(events.append)
    store.lose()
    store.kill()
    store.come_back()
    await asyncio.sleep(0)
    assert events == []
    assert not store.connected


class WatchedSession:
    """A watch of a session of 2 s, and what must be known of it."""

    def __init__(self) -> None:
        self.connection, self.watched, self.lost = "connected", True, False
        self.away_since: float | None = None
        self.asked: list[asyncio.Future[None]] = []
        self.reported = False
        self.watch = SessionWatch(2, rewatch=self._rewatch, notify=self._hear)
        self.watch.on_state(KazooState.CONNECTED)

    async def _rewatch(self) -> None:
        self.asked.append(asyncio.get_running_loop().create_future())
        await self.asked[-1]
        self.watched, self.lost, self.away_since = True, False, None

    def _hear(self, event: SessionEvent) -> None:
        if event is not SessionEvent.CONNECTION_LOST:
            of_a_lost_one = event is SessionEvent.SESSION_REESTABLISHED
            assert self.reported is of_a_lost_one, f"{event}"
            self.reported = event is SessionEvent.SESSION_LOST

    def connection_is(self, state: str) -> None:
        self.connection = state
        self.watched &= state == "connected"
        self.lost |= state == "lost"
        if state == "suspended":
            self.away_since = asyncio.get_running_loop().time()
        self.watch.on_state(getattr(KazooState, state.upper()))

    def answer(self, error: Exception | None) -> None:
        if self.asked and not self.asked[-1].done():
            if error is None:
                self.asked[-1].set_result(None)
            else:
                self.asked[-1].set_exception(error)

    async def go_on(self, seconds: float) -> None:
        await pass_time(seconds)
        if self.away_since is not None:
            self.lost |= asyncio.get_running_loop().time() - self.away_since > 2
        assert self.watch.connected == (self.connection == "connected" and self.watched)
        assert self.reported == self.lost


@given(
    st.lists(
        st.sampled_from(["suspended", "suspended", "connected", "connected", "lost"])
        | st.sampled_from([None, None, ConnectionLoss()])
        | st.sampled_from([0.6, 1.5, 2.5]),
        max_size=25,
    )
)
@on_jumping_loop
async def test_a_session_is_lost_or_back_whatever_becomes_of_its_connections(
    happenings: list[str | float | Exception | None],
) -> None:
    session = WatchedSession()
    for each in happenings:
        if isinstance(each, str):
            session.connection_is(each)
        elif isinstance(each, float):
            await session.go_on(each)
        else:
            session.answer(each)
    await session.go_on(2.5)
    session.watch.stop()


@on_jumping_loop
async def test_a_connection_that_comes_and_goes_makes_one_event_of_each() -> None:
    """Kazoo may report a state twice, and a second connection before the first is watched."""
    events: list[SessionEvent] = []
    watched = asyncio.Event()

    async def rewatch() -> None:
        await watched.wait()

    watch = SessionWatch(2, rewatch=rewatch, notify=events.append)
    watch.on_state(KazooState.CONNECTED)
    for state in (KazooState.SUSPENDED, KazooState.SUSPENDED):
        watch.on_state(state)
    for state in (KazooState.CONNECTED, KazooState.CONNECTED):
        watch.on_state(state)
        await pass_time(0.1)
    assert not watch.connected, "nothing notifies of changes yet"
    watched.set()
    await pass_time(10)
    assert events == [SessionEvent.CONNECTION_LOST] * 2 + [SessionEvent.RECONNECTED]
    events.clear()
    for state in (
        KazooState.LOST,
        KazooState.CONNECTED,
        KazooState.SUSPENDED,
        KazooState.CONNECTED,
    ):
        watch.on_state(state)
        await pass_time(0.1)
    assert events == [*LOST_AND_BACK, SessionEvent.CONNECTION_LOST, SessionEvent.RECONNECTED]


class WatchedRoot:
    """As much of kazoo's client as a watch on the tree uses; ``deliver`` is a server's event."""

    chroot = "/root"

    def __init__(self) -> None:
        self._connection = SimpleNamespace()

    def unchroot(self, path: str) -> str:
        return path.removeprefix(self.chroot) or "/"

    def deliver(self, kind: int, path: str) -> None:
        name = path.encode()
        event = struct.pack(f"!iii{len(name)}s", kind, 3, len(name), name)
        self._connection._read_watch_event(event, 0)


def test_a_watch_on_the_tree_notifies_of_nodes_and_of_nothing_else() -> None:
    heard: list[Notification] = []
    root = WatchedRoot()
    SubtreeWatch(root, heard.append)
    for kind in (1, 2, 3):
        root.deliver(kind, "/root/a")
        root.deliver(kind, "/root")
    # Of the session; of children, which this kind of watch has none; and that it was removed.
    for kind in (-1, 4, 7):
        root.deliver(kind, "/root/a")
        root.deliver(kind, "")
    assert heard == [
        Notification(kind, "/a")
        for kind in (NotificationKind.CREATED, NotificationKind.DELETED, NotificationKind.MODIFIED)
    ]


async def test_a_watch_that_the_server_refuses_is_no_watch() -> None:
    root, refused = WatchedRoot(), NoNodeError()
    result = SimpleNamespace(exception=refused, rawlink=lambda done: done(None))
    handler = SimpleNamespace(async_result=lambda: result)
    root.__dict__.update(handler=handler, _call=lambda *_: None)
    with pytest.raises(NoNodeError):
        await SubtreeWatch(root, print).establish()


@pytest.mark.parametrize(("sockets", "waits_s"), [(0, 5.0), (1, 5.0), (2, 3600.0)])
def test_one_socket_is_waited_for_for_a_while_and_two_as_long_as_it_takes(
    monkeypatch: pytest.MonkeyPatch, sockets: int, waits_s: float
) -> None:
    """As is one that is still to be connected."""
    waited: list[float] = []

    class Poll:
        def register(self, *_: object) -> None: ...

        def poll(self, wait_ms: float) -> list[tuple[int, int]]:
            waited.append(wait_ms / 1000)
            return []

    def connect(*_: object, timeout: float, **__: object) -> None:
        waited.append(timeout)

    monkeypatch.setattr(SequentialThreadingHandler, "create_connection", connect)
    monkeypatch.setattr(zk_handler, "poll", Poll)
    here, there = socket.socketpair()
    with here, there:
        if sockets == 0:
            bounded_handler(5.0).create_connection(address=("host", 2181), timeout=3600.0)
        else:
            bounded_handler(5.0).select([here, there][:sockets], [], [], 3600.0)
    assert waited == [waits_s]


def test_a_socket_is_ready_when_it_can_be_read_or_written_or_its_other_end_is_gone() -> None:
    select = bounded_handler(0.0).select
    here, there = socket.socketpair()
    with here, there:
        assert select([here], [], [], 9.0) == ([], [], [])
        assert select([], [here], [], 9.0) == ([], [here], [])
        assert select([here, there], [], [], 0.0) == ([], [], [])
        there.send(b"x")
        assert select([here, there], [], [], 9.0) == ([here], [], [])
        here.recv(1)
        there.close()
        assert select([here], [], [], 9.0) == ([here], [], [])


async def test_a_dead_session_does_not_hear_what_its_death_removed() -> None:
    """As with ZooKeeper: it learns so from its session's loss; the others hear of each node."""
    tree = MemoryTree()
    store, other = tree.open(), tree.open()
    await store.put("/e", b"", ephemeral=True)
    own: list[Notification] = []
    others: list[Notification] = []
    store.subscribe(own.append)
    other.subscribe(others.append)
    events = Events(store)
    store.lose()
    assert not store.connected
    with pytest.raises(StoreUnavailable):
        await store.put("/e", b"", ephemeral=True)
    await other.put("/while it was away", b"")
    store.come_back()
    await events.until(SessionEvent.SESSION_REESTABLISHED)
    assert own == []
    assert others[0] == Notification(NotificationKind.DELETED, "/e")
    assert await store.get("/e") is None
    await other.put("/later", b"")
    await asyncio.sleep(0)
    assert own == [Notification(NotificationKind.CREATED, "/later")]


@pytest.fixture
async def own_zookeeper(tmp_path: Path) -> AsyncIterator[ZooKeeper]:
    """A server that a test may kill; it keeps its port and data."""
    server = await asyncio.to_thread(ZooKeeper.start, tmp_path)
    yield server
    await asyncio.to_thread(server.stop)


@pytest.mark.zookeeper
async def test_an_expired_session_is_reported_and_replaced(zookeeper: ZooKeeper) -> None:
    url = f"{zookeeper.metadata_url}/expiry"
    # Far longer than a busy machine stands still: the session is ended from outside.
    store = await open_store(url, session_timeout_s=40)
    watcher = await open_store(url)
    assert isinstance(store, ZooKeeperStore)
    await store.put("/e", b"", ephemeral=True)
    events = Events(store)
    vanished = asyncio.Event()
    watcher.subscribe(lambda change: vanished.set() if change.kind.value == "deleted" else None)
    # Closing a second connection of the same session ends the session on the server.
    twin = KazooClient(hosts=zookeeper.address, client_id=store._client.client_id)
    await asyncio.to_thread(twin.start)
    await asyncio.to_thread(twin.stop)
    async with asyncio.timeout(WITHIN_S):
        await vanished.wait()
    seen = await events.until(SessionEvent.SESSION_REESTABLISHED)
    assert [each for each in seen if each in LOST_AND_BACK] == LOST_AND_BACK
    heard: asyncio.Queue[Notification] = asyncio.Queue()
    store.subscribe(heard.put_nowait)
    await store.put("/e", b"again", ephemeral=True)
    found = await store.get("/e")
    assert found.mine
    async with asyncio.timeout(WITHIN_S):
        assert (await heard.get()).path == "/e", "the new session has no watch"
    await store.close()
    await watcher.close()
    await asyncio.to_thread(twin.close)


@pytest.mark.zookeeper
async def test_a_server_that_comes_back_in_time_keeps_the_session(
    own_zookeeper: ZooKeeper, tmp_path: Path
) -> None:
    store = await open_store(own_zookeeper.metadata_url, session_timeout_s=60)
    await store.put("/e", b"", ephemeral=True)
    events = Events(store)
    await asyncio.to_thread(own_zookeeper.kill)
    assert await events.until(SessionEvent.CONNECTION_LOST) == [SessionEvent.CONNECTION_LOST]
    assert not store.connected
    again = await asyncio.to_thread(ZooKeeper.start, tmp_path, own_zookeeper.port)
    try:
        assert await events.until(SessionEvent.RECONNECTED) == [SessionEvent.RECONNECTED]
        found = await store.get("/e")
        assert found.mine
        heard: asyncio.Queue[Notification] = asyncio.Queue()
        store.subscribe(heard.put_nowait)
        await store.put("/after", b"")
        async with asyncio.timeout(WITHIN_S):
            assert (await heard.get()).path == "/after", "the watch was not set up again"
    finally:
        await store.close()
        await asyncio.to_thread(again.stop)


@pytest.mark.zookeeper
async def test_a_session_cut_off_for_too_long_counts_as_lost(own_zookeeper: ZooKeeper) -> None:
    # The time-out of operations holds for connecting, too: two seconds are few on a busy machine.
    url = own_zookeeper.metadata_url
    store = await open_store(url, session_timeout_s=1, operation_timeout_s=5)
    events = Events(store)
    await asyncio.to_thread(own_zookeeper.kill)
    assert await events.until(SessionEvent.SESSION_LOST) == [
        SessionEvent.CONNECTION_LOST,
        SessionEvent.SESSION_LOST,
    ]
    with pytest.raises(StoreUnavailable, match="/a"):
        await store.put("/a", b"")
    await store.close()


@pytest.mark.zookeeper
@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ConnectionLoss, "the connection was lost"),
        (SessionExpiredError, "this session has expired"),
        (ConnectionClosedError, "this session is closed"),
    ],
)
async def test_an_error_of_kazoo_is_said_in_words(
    zookeeper: ZooKeeper, monkeypatch: pytest.MonkeyPatch, error: type[Exception], why: str
) -> None:
    store = await open_store(zookeeper.metadata_url)
    failed = SimpleNamespace(exception=error(), value=None)
    asked: list[Callable[[object], None]] = []
    answer = SimpleNamespace(rawlink=asked.append)
    monkeypatch.setattr(KazooClient, "get_async", lambda *_: answer)
    unseen: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, failure: unseen.append(failure))
    for leaves in (False, True):
        reading = asyncio.create_task(store.get("/a"))
        await asyncio.sleep(0)
        if leaves:
            reading.cancel()
            await asyncio.wait([reading])
        asked.pop()(failed)
        await asyncio.wait([reading])
        await asyncio.sleep(0)
        if not leaves:
            assert str(reading.exception()).endswith(f"(get /a): {why}")
    assert unseen == [], "an answer that comes too late is none"
    await store.close()


@pytest.mark.zookeeper
async def test_a_node_is_created_though_a_parent_was_removed_between(
    zookeeper: ZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = SimpleNamespace(exception=NoNodeError(), value=None)
    answers = [SimpleNamespace(rawlink=lambda settle: settle(gone))] * 2
    create = KazooClient.create_async

    def create_async(*args: object, **how: object) -> object:
        return answers.pop() if answers else create(*args, **how)

    store = await open_store(f"{zookeeper.metadata_url}/between")
    monkeypatch.setattr(KazooClient, "create_async", create_async)
    assert await store.put("/a/b", b"", expected_version=MUST_NOT_EXIST) == 0
    assert answers == []
    answers += [SimpleNamespace(rawlink=lambda settle: settle(gone))] * 100
    with pytest.raises(BadVersion):
        await store.put("/a/c", b"", expected_version=MUST_NOT_EXIST)
    await store.close()


@pytest.mark.zookeeper
async def test_a_root_that_cannot_be_made_leaves_no_session(zookeeper: ZooKeeper) -> None:
    whole = await open_store(zookeeper.metadata_url)
    await whole.put("/ephemeral", b"", ephemeral=True)
    before = set(threading.enumerate())
    with pytest.raises(StoreUnavailable, match="NoChildrenForEphemerals"):
        await open_store(f"{zookeeper.metadata_url}/ephemeral/root")
    await until(lambda: set(threading.enumerate()) <= before, "its threads ended")
    await whole.close()


@pytest.mark.zookeeper
async def test_two_chroots_do_not_see_each_other(zookeeper: ZooKeeper) -> None:
    one = await open_store(f"{zookeeper.metadata_url}/one")
    two = await open_store(f"{zookeeper.metadata_url}/two")
    whole = await open_store(zookeeper.metadata_url)
    heard: asyncio.Queue[Notification] = asyncio.Queue()
    two.subscribe(heard.put_nowait)
    await one.put("/x", b"1")
    assert await two.get("/x") is None
    found = await whole.get("/one/x")
    assert found.value == b"1"
    await two.put("/y", b"")
    await two.put("/z", b"")
    async with asyncio.timeout(WITHIN_S):
        assert [(await heard.get()).path for _ in range(2)] == ["/y", "/z"]
    for store in (one, two, whole):
        await store.close()


@pytest.mark.zookeeper
async def test_a_reader_does_not_make_its_root(zookeeper: ZooKeeper) -> None:
    whole = await open_store(zookeeper.metadata_url)
    reader = await open_reader(f"{zookeeper.metadata_url}/absent")
    heard: list[Notification] = []
    assert isinstance(reader, ZooKeeperStore)
    reader.subscribe(heard.append)
    assert await reader.get("/ledgers") is None
    assert await reader.children("/ledgers") == []
    assert not await whole.exists("/absent"), "a store would have made its root"
    await whole.put("/absent/ledgers/LAYOUT", b"2")
    assert await reader.children("/ledgers") == ["LAYOUT"]
    found = await reader.get("/ledgers/LAYOUT")
    assert abs(found.created_ms / 1000 - time.time()) < 600
    for _ in range(20):
        await whole.put("/absent/ledgers/LAYOUT", b"2")
    again = await reader.get("/ledgers/LAYOUT")
    assert again.created_ms == found.created_ms, "writing is not creating"
    assert heard == [], "it watches nothing"
    for store in (whole, reader):
        await store.close()


async def test_a_server_that_accepts_and_is_silent_is_left_for_another_try() -> None:
    """As one is while it starts: the session would end before kazoo gave it up."""
    begun, silent, before = asyncio.Semaphore(0), [], set(threading.enumerate())

    def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        silent.append(writer)
        begun.release()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    connecting = asyncio.create_task(
        ZooKeeperStore.connect(f"127.0.0.1:{port}", session_timeout_s=3600, answer_s=0.1)
    )
    async with asyncio.timeout(WITHIN_S):
        for _ in range(3):
            await begun.acquire()
    connecting.cancel()
    await asyncio.wait([connecting])
    await until(lambda: set(threading.enumerate()) <= before, "its threads ended")
    for writer in silent:
        writer.close()
    server.close()


@pytest.mark.parametrize("opened", [open_store, open_reader])
async def test_no_server_answers_at_the_address(
    opened: Callable[..., Awaitable[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked again and again, the more seldom up to a second, for as long as it may take."""
    clients: list[dict[str, Any]] = []

    def client(**how: Any) -> KazooClient:
        clients.append(how)
        return KazooClient(**how)

    monkeypatch.setattr("counterpoise.metadata.zk.KazooClient", client)
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1\): no answer within 0\.2 s"):
        await opened("zk:127.0.0.1:1", operation_timeout_s=0.2)
    if opened is open_store:
        with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1/a\): no answer within 0\.1 s"):
            await opened("zk:127.0.0.1:1/a", session_timeout_s=7, operation_timeout_s=0.1)
    assert [each["timeout"] for each in clients] == [30, 7][: len(clients)]
    for retry in (each["connection_retry"] for each in clients):
        assert (retry["max_tries"], retry["delay"] < retry["max_delay"] <= 1) == (-1, True)


@pytest.mark.parametrize(
    "url", ["", "zk", "zk:", "zk:host:port", "etcd:host:1", "memory", "127.0.0.1:2181"]
)
async def test_what_is_no_metadata_url(url: str) -> None:
    with pytest.raises(InvalidMetadataUrl, match="zk:host:port"):
        await open_store(url)


@pytest.mark.zookeeper
async def test_closing_waits_for_a_silent_server_only_so_long(
    zookeeper: ZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counterpoise.metadata.zk.CLOSE_S", 0.05)
    store = await open_store(f"{zookeeper.metadata_url}/silent")
    heard = threading.Event()
    client = store._client  # private: the server that is silent is played by the library
    end = client.stop

    def stop() -> None:
        heard.wait(WITHIN_S)
        end()

    monkeypatch.setattr(client, "stop", stop)
    async with asyncio.timeout(WITHIN_S):
        await store.close()
    assert not heard.is_set()
    heard.set()


@pytest.mark.zookeeper
async def test_a_value_that_zookeeper_does_not_take_costs_no_session(zookeeper: ZooKeeper) -> None:
    """The server hangs up on a client that sends too much, and would again and again."""
    store = await open_store(zookeeper.metadata_url)
    events = Events(store)
    assert await store.put("/kept", b"x" * VALUE_BYTES_MAX, ephemeral=True) == 0
    for write in (
        store.put("/large", b"x" * (VALUE_BYTES_MAX + 1)),
        store.put("/kept", b"x" * 1_100_000, expected_version=0),
        store.put_next("/large-", b"x" * 1_100_000, ephemeral=False),
    ):
        with pytest.raises(ValueTooLarge, match=r"^/(large|kept|large-): .*1 MB"):
            await write
    assert await store.put("/kept", b"goes on", expected_version=0) == 1
    assert events.queue.empty()
    assert not await store.exists("/large")
    await store.close()
