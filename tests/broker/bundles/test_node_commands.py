"""What becomes of a question at the store."""

from typing import Any

import pytest

from counterpoise.broker.bundles.node_commands import execute
from counterpoise.metadata import BadVersion, NodeError, NotFound
from counterpoise.metadata.memory import MemoryTree
from counterpoise.ownership.events import (
    CreateNode,
    NodeCreated,
    NodeExists,
    NodeFound,
    NodeRemoved,
    NodeWritten,
    ReadNode,
    RemoveNode,
    VersionDiffers,
    WriteNode,
    WriteRecord,
)


@pytest.mark.parametrize("stands", ["nothing", "another's", "its own"])
async def test_an_announcement_goes_with_the_session_that_made_it(stands: str) -> None:
    """Written into the node of a former owner that lives, it would never go."""
    tree = MemoryTree()
    me, other = tree.open(), tree.open()
    if stands != "nothing":
        writer = other if stands == "another's" else me
        await writer.put("/a/b", b"before", ephemeral=True)
    assert await execute(me, WriteNode("/a/b", b"mine")) == NodeWritten()
    stored = await me.get("/a/b")
    assert (stored.value, stored.mine, stored.ephemeral) == (b"mine", True, True)
    await other.close()
    assert await me.get("/a/b") == stored
    await me.close()
    assert tree.read("/a/b") is None


async def test_each_command_has_its_answer() -> None:
    tree = MemoryTree()
    me, other = tree.open(), tree.open()
    assert await execute(me, ReadNode("/a")) == NodeFound(None)
    created = await execute(me, CreateNode("/a", b"1"))
    assert isinstance(created, NodeCreated)
    assert await execute(other, CreateNode("/a", b"2")) == NodeExists()
    assert await execute(me, ReadNode("/a")) == NodeFound(b"1", created.version, mine=True)
    assert await execute(other, ReadNode("/a")) == NodeFound(b"1", created.version, mine=False)
    assert await execute(me, RemoveNode("/a", created.version + 1)) == VersionDiffers()
    assert await execute(me, RemoveNode("/a", created.version)) == NodeRemoved()
    assert await execute(me, RemoveNode("/a", created.version)) == NodeRemoved()
    first = await execute(me, WriteRecord("/r", b"1", None))
    assert isinstance(first, NodeCreated)
    assert await execute(me, WriteRecord("/r", b"2", None)) == VersionDiffers()
    second = await execute(me, WriteRecord("/r", b"2", first.version))
    assert isinstance(second, NodeCreated)
    assert second.version != first.version
    assert await execute(me, WriteRecord("/gone", b"2", 3)) == VersionDiffers()
    await me.close()
    assert tree.read("/r") is not None, "a record outlives its writer"
    assert tree.read("/a") is None


async def test_a_node_that_others_write_again_and_again_is_given_up() -> None:
    class Contended:
        """Whatever is written was written by another meanwhile."""

        writes = 0

        async def get(self, _: str) -> None:
            return None

        async def put(self, path: str, _: bytes, **__: object) -> int:
            self.writes += 1
            raise BadVersion(path)

    store = Contended()
    with pytest.raises(BadVersion):
        await execute(store, WriteNode("/a", b"mine"))  # type: ignore[arg-type]
    assert store.writes == 8


@pytest.mark.parametrize("error", [BadVersion, NotFound])
async def test_a_record_that_changed_or_went_meanwhile_has_another_version(
    error: type[NodeError],
) -> None:
    """ZooKeeper tells apart what is gone and what is not as expected."""

    class Changed:
        async def put(self, path: str, _: bytes, **__: object) -> int:
            raise error(path)

        async def delete(self, path: str, **__: object) -> None:
            raise error(path)

    store: Any = Changed()
    assert await execute(store, WriteRecord("/r", b"2", 3)) == VersionDiffers()
    removed = NodeRemoved() if error is NotFound else VersionDiffers()
    assert await execute(store, RemoveNode("/r", 3)) == removed
