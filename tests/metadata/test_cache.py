"""Values that are kept until the store says that they changed: asked once, never old."""

import asyncio

import pytest

from counterpoise.metadata import MetadataStore, Notification, SessionEvent, open_store
from counterpoise.metadata.cache import MetadataCache
from counterpoise.metadata.listeners import Listeners
from counterpoise.metadata.memory import MemoryTree
from counterpoise.metadata.port import Stored


class Counted:
    """A session that counts what it is asked, and answers when the test says so."""

    def __init__(self, session: MetadataStore) -> None:
        self._session = session
        self.asked: list[str] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.subscribe = session.subscribe
        self.subscribe_session = session.subscribe_session

    async def get(self, path: str) -> Stored | None:
        self.asked.append(path)
        found = await self._session.get(path)
        await self.may_answer.wait()
        return found


async def opened() -> tuple[MetadataStore, Counted, MetadataCache[str]]:
    """A writer, the session that is asked, and what is kept of it."""
    tree = MemoryTree()
    writer = await open_store("memory:", tree=tree)
    store = Counted(await open_store("memory:", tree=tree))
    return writer, store, MetadataCache(store, "/a", bytes.decode)  # type: ignore[arg-type]


async def test_what_is_there_and_what_is_not_are_asked_for_once() -> None:
    writer, store, cache = await opened()
    await writer.put("/a/x", b"1")
    for _ in range(3):
        assert await cache.get("/a/x") == "1"
        assert await cache.get("/a/none") is None
    assert store.asked == ["/a/x", "/a/none"]
    assert cache.peek("/a/x") == "1"


async def test_what_changed_is_asked_for_again() -> None:
    writer, store, cache = await opened()
    await writer.put("/a/x", b"1")
    assert await cache.get("/a/x") == "1"
    await writer.put("/a/x", b"2")
    await asyncio.sleep(0)
    assert await cache.get("/a/x") == "2"
    assert store.asked == ["/a/x"] * 2


@pytest.mark.parametrize("missed", [False, True])
async def test_a_value_that_changes_while_it_is_read_is_not_kept(missed: bool) -> None:
    """Nor one whose change was missed, with the connection."""
    writer, store, cache = await opened()
    events = Listeners[SessionEvent]()
    if missed:
        store.subscribe, store.subscribe_session = Listeners[Notification]().add, events.add
        cache = MetadataCache(store, "/a", bytes.decode)  # type: ignore[arg-type]
    await writer.put("/a/x", b"1")
    await asyncio.sleep(0)
    store.may_answer.clear()
    reading = asyncio.ensure_future(cache.get("/a/x"))
    for _ in range(5):
        await asyncio.sleep(0)
    await writer.put("/a/x", b"2")
    events.notify(SessionEvent.RECONNECTED)
    for _ in range(5):
        await asyncio.sleep(0)
    store.may_answer.set()
    await reading
    assert await cache.get("/a/x") == "2"


@pytest.mark.parametrize("event", SessionEvent)
async def test_what_may_have_been_missed_is_asked_for_again(event: SessionEvent) -> None:
    """A write during a lost session is not notified of."""
    writer, store, cache = await opened()
    heard: list[SessionEvent] = []
    events = Listeners[SessionEvent]()
    store.subscribe_session = events.add
    cache = MetadataCache(store, "/a", bytes.decode)  # type: ignore[arg-type]
    events.add(heard.append)
    await writer.put("/a/x", b"1")
    await asyncio.sleep(0)
    assert await cache.get("/a/x") == "1"
    events.notify(event)
    assert cache.peek("/a/x") is None
    assert await cache.get("/a/x") == "1"
    assert store.asked == ["/a/x"] * 2
    assert heard == [event]


async def test_a_cache_that_was_closed_keeps_nothing_and_hears_nothing() -> None:
    writer, store, cache = await opened()
    await writer.put("/a/x", b"1")
    await asyncio.sleep(0)
    assert await cache.get("/a/x") == "1"
    cache.close()
    assert cache.peek("/a/x") is None
    await cache.get("/a/x")
    await writer.put("/a/x", b"2")
    await asyncio.sleep(0)
    assert store.asked == ["/a/x"] * 2


async def test_only_the_session_that_ends_takes_its_nodes_along() -> None:
    tree = MemoryTree()
    first, second = [await open_store("memory:", tree=tree) for _ in range(2)]
    for session, path in ((first, "/e/1"), (second, "/e/2")):
        await session.put(path, b"", ephemeral=True)
    await first.put("/e/lasting", b"")
    await first.close()
    assert await second.children("/e") == ["2", "lasting"]


def test_listeners_are_called_in_the_order_in_which_they_came_until_they_leave() -> None:
    called: list[str] = []
    listeners = Listeners[str]()
    leave = [listeners.add(lambda event, name=name: called.append(name + event)) for name in "abc"]  # type: ignore[misc]
    listeners.notify("1")
    for _ in range(2):
        leave[1]()
    listeners.notify("2")
    assert called == ["a1", "b1", "c1", "a2", "c2"]
    assert listeners
    listeners.clear()
    assert not listeners
