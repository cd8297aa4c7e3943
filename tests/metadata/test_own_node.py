"""A process's own ephemeral node, callbacks that are removed, and caches of an ended session."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from counterpoise.metadata import MemoryTree, Notification, NotificationKind, SessionEvent
from counterpoise.metadata.cache import MetadataCache
from counterpoise.metadata.listeners import Listeners
from counterpoise.metadata.own_node import put_own
from counterpoise.metadata.port import Stored


async def test_a_node_of_a_former_session_is_replaced_by_one_that_lives_as_long_as_this() -> None:
    tree = MemoryTree()
    former, now = tree.open(), tree.open()
    await former.put("/brokers/b1", b"old", ephemeral=True)
    await put_own(now, "/brokers/b1", b"new")
    found = await now.get("/brokers/b1")
    assert found == Stored(b"new", 0, ephemeral=True, mine=True)
    former.kill()
    assert await now.exists("/brokers/b1"), "it went with the former session"


async def test_a_node_of_this_session_is_changed_and_never_absent() -> None:
    tree = MemoryTree()
    store, other = tree.open(), tree.open()
    heard: list[NotificationKind] = []
    other.subscribe(lambda change: heard.append(change.kind))
    for value in (b"1", b"2"):
        await put_own(store, "/own", value)
    await asyncio.sleep(0)
    assert heard == [NotificationKind.CREATED, NotificationKind.MODIFIED]


async def test_a_node_that_another_writes_meanwhile_is_not_deleted_unseen() -> None:
    """Between reading and deleting, a third process writes: what it wrote was not looked at."""
    tree = MemoryTree()
    former, store = tree.open(), tree.open()
    await former.put("/own", b"old", ephemeral=True)
    versions: list[int | None] = []
    delete = store.delete

    async def watched(path: str, *, expected_version: int | None = None) -> None:
        await former.put(path, b"meanwhile")
        versions.append(expected_version)
        await delete(path, expected_version=expected_version)

    store.delete = watched  # type: ignore[method-assign]
    await put_own(store, "/own", b"new")
    assert versions == [0]
    found = await store.get("/own")
    assert found is not None
    assert (found.value, found.version) == (b"new", 2), "the node stayed, with another value"


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("who", ["absent", "mine", "former"])
@pytest.mark.parametrize("does", ["creates", "removes"])
async def test_a_node_is_the_latest_and_ends_with_a_session_whatever_another_does_meanwhile(
    who: str, does: str, at: int
) -> None:
    tree = MemoryTree()
    sessions = {"former": tree.open(), "mine": tree.open()}
    other, store = sessions["former"], sessions["mine"]
    if who in sessions:
        await sessions[who].put("/own", b"old", ephemeral=True)
    operations = iter(range(4))

    async def meanwhile() -> None:
        if next(operations) == at:
            if does == "creates":
                await other.put("/own", b"another's", ephemeral=True)
            elif await other.exists("/own"):
                await other.delete("/own")

    class Interrupted:
        """A session; before its operation number ``at`` another process does something."""

        def __getattr__(self, name: str) -> Callable[..., Awaitable[object]]:
            async def operation(*args: object, **how: object) -> object:
                await meanwhile()
                return await getattr(store, name)(*args, **how)

            return operation

    await put_own(Interrupted(), "/own", b"new")  # type: ignore[arg-type]
    found = await store.get("/own")
    assert found is not None
    assert (found.value, found.ephemeral) == (b"new", True)


def test_callbacks_are_called_in_order_and_may_be_removed_while_they_are() -> None:
    listeners: Listeners[int] = Listeners()
    heard: list[tuple[str, int]] = []

    def once(event: int) -> None:
        heard.append(("once", event))
        remove_once()
        remove_once()

    remove_once = listeners.add(once)
    remove_last = listeners.add(lambda event: heard.append(("last", event)))
    for event in (1, 2):
        listeners.notify(event)
    assert heard == [("once", 1), ("last", 1), ("last", 2)]
    assert listeners
    remove_last()
    assert not listeners


async def test_a_killed_session_hears_nothing_more() -> None:
    tree = MemoryTree()
    store, other = tree.open(), tree.open()
    heard: list[Notification | SessionEvent] = []
    store.subscribe(heard.append)
    store.subscribe_session(heard.append)
    await other.put("/a", b"")
    store.expire()
    store.kill()
    for _ in range(3):
        await asyncio.sleep(0)
    assert heard == []


async def test_a_cache_is_empty_after_whatever_happened_to_the_session() -> None:
    """A change while the session was away is notified of by nothing else."""
    tree = MemoryTree()
    writer, store = tree.open(), tree.open()
    await writer.put("/a/x", b"1")
    cache = MetadataCache(store, "/a", bytes.decode)
    assert await cache.get("/a/x") == "1"
    store.lose()
    await writer.put("/a/x", b"2")
    store.come_back()
    await asyncio.sleep(0)
    assert cache.peek("/a/x") is None
    assert await cache.get("/a/x") == "2"


def test_a_closed_cache_listens_to_nothing() -> None:
    listening = {"changes", "session"}

    class Subscribed:
        """A store that knows who listens to it."""

        def subscribe(self, _: object) -> Callable[[], None]:
            return lambda: listening.remove("changes")

        def subscribe_session(self, _: object) -> Callable[[], None]:
            return lambda: listening.remove("session")

    MetadataCache(Subscribed(), "/a", bytes.decode).close()  # type: ignore[arg-type]
    assert not listening
