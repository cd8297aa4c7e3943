"""What listens to the metadata store, and stops: it hears of nothing any more."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.bundles.election import LeaderElection
from counterpoise.broker.bundles.namespace_bundles import NamespaceBundleCache
from counterpoise.broker.bundles.ownership import BundleOwnership
from counterpoise.broker.bundles.repairs import OwnershipRepairs
from counterpoise.broker.load.cluster_load import ClusterLoad
from counterpoise.broker.load.config import LoadReportConfig
from counterpoise.broker.load.keeper import LoadKeeper
from counterpoise.broker.load.registry import BrokerRegistry
from counterpoise.broker.namespaces.policies import Policies
from counterpoise.load.fold import FoldOptions
from counterpoise.metadata.memory import MemoryTree
from counterpoise.metadata.port import Unsubscribe
from counterpoise.names.load_managers import EXTENSIBLE
from counterpoise.ownership.port import OwnershipOptions
from counterpoise.ownership.protocols import PROTOCOLS
from counterpoise.ownership.records import LeaderBroker, NamespaceEphemeralData

ME = "b1:8080"


class CountingStore:
    """A session with a metadata store, and the listeners that it has."""

    def __init__(self) -> None:
        self.inner = MemoryTree().open()
        self.listening: list[object] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def subscribe(self, listener: Any) -> Unsubscribe:
        return self._counted(self.inner.subscribe(listener))

    def subscribe_session(self, listener: Any) -> Unsubscribe:
        return self._counted(self.inner.subscribe_session(listener))

    def _counted(self, leave: Unsubscribe) -> Unsubscribe:
        self.listening.append(leave)

        def unsubscribe() -> None:
            self.listening.remove(leave)
            leave()

        return unsubscribe


Listens = Callable[[Any, BackgroundTasks], Awaitable[Callable[[], object]]]
"""Makes something that listens to a store; returns how to stop it."""


async def registry(store: Any, _: BackgroundTasks) -> Callable[[], object]:
    made = BrokerRegistry(store, ME)
    await made.active()
    return made.close


async def bundles(store: Any, _: BackgroundTasks) -> Callable[[], object]:
    # The cache of policies is the broker's, and not its own.
    return NamespaceBundleCache(store, Policies(MemoryTree().open())).close


async def election_that_leaves(store: Any, _: BackgroundTasks) -> Callable[[], object]:
    made = LeaderElection(store, LeaderBroker(ME, f"http://{ME}"))
    await made.start()
    return made.stop


async def election_that_crashes(store: Any, _: BackgroundTasks) -> Callable[[], object]:
    made = LeaderElection(store, LeaderBroker(ME, f"http://{ME}"))
    await made.start()
    return made.kill


async def keeper(store: Any, background: BackgroundTasks) -> Callable[[], object]:
    registry = BrokerRegistry(MemoryTree().open(), ME)
    load = ClusterLoad(registry, store, clock_ms=lambda: 0, options=FoldOptions)
    made = LoadKeeper(
        store, load, me=ME, is_leader=lambda: True, config=LoadReportConfig, background=background
    )
    made.start()
    return made.stop


def protocol() -> Any:
    options = OwnershipOptions(NamespaceEphemeralData(f"pulsar://{ME}", f"http://{ME}"))
    return PROTOCOLS[EXTENSIBLE](options, lambda: 0), options


async def ownership(store: Any, _: BackgroundTasks) -> Callable[[], object]:
    async def close_topics(*_: object) -> None:
        pass

    return BundleOwnership(store, *protocol(), close_topics).close


async def repairs(store: Any, background: BackgroundTasks) -> Callable[[], object]:
    elsewhere = MemoryTree().open()
    made = OwnershipRepairs(
        store,
        protocol()[0],
        BrokerRegistry(elsewhere, ME),
        None,  # type: ignore[arg-type]
        leads=lambda: False,
        every_s=3600.0,
        at_once=lambda: 1,
        wary_s=0.0,
        background=background,
        namespaces=Policies(elsewhere),
    )
    made.start()
    return made.close


@asynccontextmanager
async def background() -> AsyncIterator[BackgroundTasks]:
    tasks = BackgroundTasks()
    try:
        yield tasks
    finally:
        tasks.cancel()


@pytest.mark.parametrize(
    "listens",
    [registry, bundles, election_that_leaves, election_that_crashes, keeper, ownership, repairs],
)
async def test_what_has_stopped_listens_no_more(listens: Listens) -> None:
    store = CountingStore()
    async with background() as tasks:
        stop = await listens(store, tasks)
        assert store.listening
        stopping = stop()
        if isinstance(stopping, Awaitable):
            await stopping
        assert not store.listening
