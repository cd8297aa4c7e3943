"""One parameter per kind of store: every test of the port runs on each of them."""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from counterpoise.app.clusters.zookeeper import ZooKeeper
from counterpoise.metadata import MetadataStore, open_store, open_tree

OpenSession = Callable[[], Awaitable[MetadataStore]]
"""Opens one more session with the tree of the running test."""


@pytest.fixture(scope="session")
def fresh_root() -> Callable[[], str]:
    numbers = itertools.count()
    return lambda: f"/root-{next(numbers)}"


@pytest.fixture(params=["memory", "sqlite", pytest.param("zk", marks=pytest.mark.zookeeper)])
async def open_session(
    request: pytest.FixtureRequest, fresh_root: Callable[[], str], tmp_path: Path
) -> AsyncIterator[OpenSession]:
    url = f"sqlite://{tmp_path}/metadata.db" if request.param == "sqlite" else "memory:"
    if request.param == "zk":
        server: ZooKeeper = request.getfixturevalue("zookeeper")
        url = server.metadata_url + fresh_root()
    tree = await open_tree(url)
    sessions: list[MetadataStore] = []

    async def open_one() -> MetadataStore:
        session = await open_store(url, tree=tree, session_timeout_s=40, operation_timeout_s=40)
        sessions.append(session)
        return session

    yield open_one
    for session in sessions:
        await session.close()


@pytest.fixture
async def store(open_session: OpenSession) -> MetadataStore:
    return await open_session()
