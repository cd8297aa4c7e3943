"""What becomes of a question at the store."""

from __future__ import annotations

import pytest

from counterpoise.broker.bundles.node_commands import execute
from counterpoise.metadata.memory import MemoryTree
from counterpoise.ownership.events import NodeWritten, WriteNode


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
