"""Brokers in this process, on one metadata store and one set of ledgers."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any, Self, TypeVar

import pulsar
import pytest

from counterpoise.app.clusters.zookeeper import ZooKeeper
from counterpoise.broker.broker import AdminServerFactory, Broker
from counterpoise.broker.bundles.options import IN_STORE, ON_TOPIC, StateChannelOptions
from counterpoise.broker.config import BrokerConfig
from counterpoise.broker.load import LoadReportConfig, SharedProcess
from counterpoise.broker.server_sockets import ServerSocket
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.metadata import MemoryTree, MetadataStore, open_store
from counterpoise.names.bundle import BundleName
from counterpoise.names.load_managers import EXTENSIBLE, MODULAR
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import TopicName
from counterpoise.storage.memory import MemoryLedgerStore
from tests.waiting import found

T = TypeVar("T")

CONFIG = BrokerConfig(
    advertised_address="127.0.0.1",
    broker_service_port=0,
    web_service_port=0,
    load_report=LoadReportConfig(min_interval_ms=50),
)


class NoAdminServer:
    """Hangs up on whoever connects. It keeps the port, by which a broker is named."""

    def __init__(self, _: Broker) -> None:
        self._servers: list[asyncio.Server] = []

    async def start(self, sockets: Sequence[ServerSocket]) -> None:
        for each in sockets:
            self._servers.append(await asyncio.start_server(self._hang_up, sock=each.socket))

    async def stop(self) -> None:
        for server in self._servers:
            server.close()

    async def _hang_up(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()


class BrokersOfTest:
    """Starts brokers; stops what is left of them at the end of the test."""

    def __init__(
        self, metadata_url: str, manager: str = MODULAR, table_view: str = ON_TOPIC
    ) -> None:
        self.ownership = StateChannelOptions(table_view=table_view)
        self.filters = FilterOptions(load_manager_class=manager)
        self.load_report = CONFIG.load_report
        self.tree = MemoryTree()
        self.ledgers = MemoryLedgerStore()
        self.process = SharedProcess()
        self.metadata_url = metadata_url
        self.web: AdminServerFactory = NoAdminServer
        self.all: list[Broker] = []
        self.leadership: list[tuple[str, bool]] = []

    async def session(self) -> MetadataStore:
        return await open_store(self.metadata_url, tree=self.tree, session_timeout_s=40)

    async def start(self, **changes: Any) -> Broker:
        broker = Broker(
            replace(CONFIG, **{"filters": self.filters, "ownership": self.ownership, **changes}),
            metadata=await self.session(),
            ledgers=self.ledgers,
            web=self.web,
            on_leadership=lambda leads: self.leadership.append((broker.id, leads)),
            process=self.process,
        )
        await broker.start()
        self.all.append(broker)
        return broker

    async def start_many(self, count: int, **changes: Any) -> list[Broker]:
        return [await self.start(**changes) for _ in range(count)]

    async def stop(self, broker: Broker) -> None:
        self.all.remove(broker)
        await broker.stop()

    async def kill(self, broker: Broker) -> None:
        self.all.remove(broker)
        await broker.kill()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for broker in list(self.all):
            await self.stop(broker)

    def owner(self, bundle: BundleName) -> Broker:
        owners = [each for each in self.all if each.parts.ownership.bundles.serves(bundle)]
        assert len(owners) == 1, f"{bundle} is served by {[each.id for each in owners]}"
        return owners[0]

    def get(self, broker_id: str) -> Broker:
        return next(each for each in self.all if each.id == broker_id)


@pytest.fixture
async def brokers() -> AsyncIterator[BrokersOfTest]:
    """Brokers on a metadata tree in memory."""
    async with BrokersOfTest("memory:") as made:
        yield made


@pytest.fixture(
    params=[
        pytest.param(("memory", MODULAR, IN_STORE), id="memory"),
        pytest.param(("zk", MODULAR, IN_STORE), marks=pytest.mark.zookeeper, id="zk"),
        pytest.param(("memory", EXTENSIBLE, IN_STORE), id="memory-channel"),
        pytest.param(("zk", EXTENSIBLE, IN_STORE), marks=pytest.mark.zookeeper, id="zk-channel"),
        pytest.param(("memory", EXTENSIBLE, ON_TOPIC), id="memory-topic"),
        pytest.param(("zk", EXTENSIBLE, ON_TOPIC), marks=pytest.mark.zookeeper, id="zk-topic"),
    ]
)
async def any_brokers(request: pytest.FixtureRequest) -> AsyncIterator[BrokersOfTest]:
    """Brokers on each kind of metadata store, under each load manager."""
    url = "memory:"
    store, manager, table_view = request.param
    if store == "zk":
        server: ZooKeeper = request.getfixturevalue("zookeeper")
        url = f"{server.metadata_url}/{abs(hash(request.node.nodeid))}"
    async with BrokersOfTest(url, manager, table_view) as made:
        yield made


NAMESPACE = NamespaceName("public", "default")


def records_of(broker: Broker) -> MetadataStore:
    """Where it is written who owns which bundle, as a broker sees it."""
    return broker.parts.ownership.records or broker.metadata


def owned(broker: Broker) -> list[BundleName]:
    """The bundles of `NAMESPACE` that a broker owns."""
    return [each for each in broker.namespaces.owned() if each.namespace == NAMESPACE]


async def served(broker: Broker, topic: TopicName) -> None:
    """Wait until a broker serves a topic; raises `BrokerError` where it won't."""

    async def is_released() -> bool:
        return False

    await broker.namespaces.approach(topic, is_released)


def topic_in(bundle: BundleName, stem: str = "t") -> TopicName:
    """A topic that hashes into a bundle."""
    numbers = iter(range(100_000))
    return next(
        topic
        for topic in (TopicName.parse(f"{bundle.namespace}/{stem}-{n}") for n in numbers)
        if topic in bundle
    )


async def in_thread(work: Callable[[], T]) -> T:
    """Run the official, blocking client beside the brokers' event loop."""
    return await asyncio.to_thread(work)


def client_of(broker: Broker) -> pulsar.Client:
    return pulsar.Client(
        broker.service_url,
        operation_timeout_seconds=60,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )


async def holds(broker: Broker, path: str) -> None:
    """Wait until an ephemeral node of the broker's own session is there."""

    async def is_there() -> bool:
        stored = await broker.metadata.get(path)
        return stored is not None and stored.mine

    await found(is_there, path)


async def vanished(broker: Broker, path: str) -> None:
    """Wait until a node is gone."""

    async def is_gone() -> bool:
        return not await broker.metadata.exists(path)

    await found(is_gone, f"{path} is deleted")
