"""Values that are kept until the store says that they changed: asked once, never old."""

from __future__ import annotations

import asyncio

from counterpoise.metadata import MetadataStore, open_store
from counterpoise.metadata.cache import MetadataCache
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


async def test_a_value_that_changes_while_it_is_read_is_not_kept() -> None:
    writer, store, cache = await opened()
    await writer.put("/a/x", b"1")
    await asyncio.sleep(0)
    store.may_answer.clear()
    reading = asyncio.ensure_future(cache.get("/a/x"))
    for _ in range(5):
        await asyncio.sleep(0)
    await writer.put("/a/x", b"2")
    for _ in range(5):
        await asyncio.sleep(0)
    store.may_answer.set()
    await reading
    assert await cache.get("/a/x") == "2"
