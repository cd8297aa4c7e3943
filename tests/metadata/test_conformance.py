"""What every metadata store promises (`MetadataStore`), run on each kind of store.

Writes, reads and deletions by one session are in `test_against_model`.
"""

import asyncio

import pytest

from counterpoise.metadata import (
    BadVersion,
    EphemeralParent,
    InvalidPath,
    MetadataStore,
    Notification,
    NotificationKind,
    StoreUnavailable,
)
from counterpoise.metadata.port import MUST_NOT_EXIST
from tests.metadata.conftest import OpenSession
from tests.waiting import WITHIN_S


class Heard:
    """Notifications of a store, to await."""

    def __init__(self, store: MetadataStore, only: NotificationKind | None = None) -> None:
        self.only = only
        self.queue: asyncio.Queue[Notification] = asyncio.Queue()
        self.unsubscribe = store.subscribe(self.hear)

    def hear(self, notification: Notification) -> None:
        if self.only in (None, notification.kind):
            self.queue.put_nowait(notification)

    async def take(self, count: int) -> list[tuple[str, str]]:
        async with asyncio.timeout(WITHIN_S):
            heard = [await self.queue.get() for _ in range(count)]
        return [(each.kind.value, each.path) for each in heard]


async def test_only_one_creator_wins(open_session: OpenSession) -> None:
    sessions = [await open_session() for _ in range(3)]
    results = await asyncio.gather(
        *(each.put("/lock", b"", expected_version=MUST_NOT_EXIST) for each in sessions),
        return_exceptions=True,
    )
    assert sorted(type(each).__name__ for each in results) == ["BadVersion", "BadVersion", "int"]


async def test_numbered_nodes_ascend_across_sessions_and_deletions(
    open_session: OpenSession,
) -> None:
    one, two = await open_session(), await open_session()
    paths = [await one.put_next("/ids/ID-", b"x", ephemeral=True) for _ in range(2)]
    await one.delete(paths[0])
    await one.delete(paths[1])
    paths.append(await two.put_next("/ids/ID-", b"y", ephemeral=False))
    paths.append(await one.put_next("/ids/Z-", b"", ephemeral=True))
    names = [path.rpartition("-")[2] for path in paths]
    assert all(len(name) == 10 for name in names), "as ZooKeeper writes them"
    assert names == sorted(set(names))
    assert [path.startswith("/ids/ID-") for path in paths] == [True, True, True, False]
    found = await one.get(paths[2])
    assert (found.value, found.version, found.ephemeral) == (b"y", 0, False)
    await one.close()
    assert await two.children("/ids") == [paths[2].rpartition("/")[2]]
    await two.put("/e", b"", ephemeral=True)
    with pytest.raises(EphemeralParent):
        await two.put_next("/e/ID-", b"", ephemeral=False)


async def test_creators_at_once_get_different_numbers(open_session: OpenSession) -> None:
    sessions = [await open_session() for _ in range(3)]
    paths = await asyncio.gather(
        *(each.put_next("/ids/ID-", b"", ephemeral=True) for each in sessions * 5)
    )
    assert len(set(paths)) == 15


@pytest.mark.parametrize("path", ["", "a", "/a/", "//a", "/a//b", "/a/../b", "/a/./b", "/a\0b"])
async def test_what_is_no_path(store: MetadataStore, path: str) -> None:
    for operation in (store.get, store.children, store.exists, store.delete):
        with pytest.raises(InvalidPath):
            await operation(path)
    with pytest.raises(InvalidPath):
        await store.put(path, b"")


async def test_an_ephemeral_node_is_known_by_its_owner(open_session: OpenSession) -> None:
    one, two = await open_session(), await open_session()
    await one.put("/e", b"x", ephemeral=True)
    seen_by_owner, seen_by_other = await one.get("/e"), await two.get("/e")
    assert (seen_by_owner.ephemeral, seen_by_owner.mine) == (True, True)
    assert (seen_by_other.ephemeral, seen_by_other.mine) == (True, False)
    with pytest.raises(EphemeralParent):
        await one.put("/e/child", b"")


async def test_a_write_does_not_change_who_owns_an_ephemeral_node(
    open_session: OpenSession,
) -> None:
    one, two = await open_session(), await open_session()
    await one.put("/e", b"x", ephemeral=True)
    await two.put("/e", b"y", ephemeral=True)
    found = await one.get("/e")
    assert found.mine
    assert found.value == b"y"


@pytest.mark.parametrize("how", ["close", "kill"])
async def test_ephemeral_nodes_end_with_the_session(open_session: OpenSession, how: str) -> None:
    one, two = await open_session(), await open_session()
    await one.put("/e/1", b"", ephemeral=True)
    await one.put("/e/2", b"", ephemeral=True)
    await one.put("/e/stays", b"")
    # Nothing of its own end: what listened to it need not leave.
    heard, ended = (Heard(each, only=NotificationKind.DELETED) for each in (two, one))
    if how == "close":
        await one.close()
    else:
        one.kill()
    assert sorted(await heard.take(2)) == [("deleted", "/e/1"), ("deleted", "/e/2")]
    assert await two.children("/e") == ["stays"]
    assert ended.queue.empty()


@pytest.mark.parametrize("writes", [1, 2, 3])
async def test_a_node_is_changed_by_those_alone_who_know_its_version(
    store: MetadataStore, writes: int
) -> None:
    for _ in range(writes):
        version = await store.put("/a", b"there")
    assert version == writes - 1
    for other in (MUST_NOT_EXIST, *range(writes + 2)):
        if other != version:
            with pytest.raises(BadVersion, match="/a"):
                await store.put("/a", b"changed", expected_version=other)
        if other not in (MUST_NOT_EXIST, version):
            with pytest.raises(BadVersion, match="/a"):
                await store.delete("/a", expected_version=other)
    found = await store.get("/a")
    assert (found.value, found.version) == (b"there", version)
    assert await store.put("/a", b"changed", expected_version=version) == version + 1
    await store.delete("/a", expected_version=version + 1)
    assert not await store.exists("/a")


async def test_a_closed_session_says_so(open_session: OpenSession) -> None:
    store = await open_session()
    assert store.connected
    await store.close()
    await store.close()
    assert not store.connected
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.get("/a")


async def test_every_change_is_notified_to_every_session_in_order(
    open_session: OpenSession,
) -> None:
    one, two = await open_session(), await open_session()
    heard = [Heard(one), Heard(two)]
    await one.put("/a/b", b"1")
    await one.put("/a/b", b"2")
    await two.put("/a/c", b"3", ephemeral=True)
    await two.delete("/a/b")
    expected = [
        ("created", "/a"),
        ("created", "/a/b"),
        ("modified", "/a/b"),
        ("created", "/a/c"),
        ("deleted", "/a/b"),
    ]
    assert [await each.take(5) for each in heard] == [expected, expected]


async def test_nothing_is_heard_after_unsubscribing(store: MetadataStore) -> None:
    first, second = Heard(store), Heard(store)
    await store.put("/a", b"")
    await first.take(1)
    first.unsubscribe()
    first.unsubscribe()
    await store.put("/b", b"")
    assert await second.take(2) == [("created", "/a"), ("created", "/b")]
    assert first.queue.empty()


async def test_names_and_values_are_bytes_and_text_of_any_kind(store: MetadataStore) -> None:
    value = bytes(range(256)) * 40
    await store.put("/größe/%2F+x", value)
    found = await store.get("/größe/%2F+x")
    assert found.value == value
    assert await store.children("/größe") == ["%2F+x"]
    assert await store.children("/") == ["größe"]


async def test_notification_kinds_are_all_heard_of_one_ephemeral_node(
    open_session: OpenSession,
) -> None:
    one, two = await open_session(), await open_session()
    heard = Heard(two)
    await one.put("/e", b"1", ephemeral=True)
    await one.put("/e", b"2")
    await one.close()
    assert [kind for kind, _ in await heard.take(3)] == [
        kind.value
        for kind in (NotificationKind.CREATED, NotificationKind.MODIFIED, NotificationKind.DELETED)
    ]
