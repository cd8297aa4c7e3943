"""The smallest broker there is: the listener and the topics, memory ledgers, no metadata store."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from types import TracebackType
from typing import Self, cast

import uvloop

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.base.clock import wall_clock_ms
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.bundles.lookup_result import LookupConnect
from counterpoise.broker.connection import ConnectionConfig, Services
from counterpoise.broker.connection.client_listener import ClientListener
from counterpoise.broker.limits.publish import PublishLimits
from counterpoise.broker.limits.rates import TopicRates
from counterpoise.broker.schemas.registry import AUTO_CONSUME
from counterpoise.broker.topic.options import TopicOptions
from counterpoise.broker.topic.topics import TopicRegistry
from counterpoise.broker.topic.transaction_ends import LocalParticipants
from counterpoise.broker.transactions.coordinators import Coordinators
from counterpoise.broker.transactions.options import TransactionOptions
from counterpoise.names.bundle import BundleName, NamespaceBundles
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.position import Position
from counterpoise.names.topic import TopicName
from counterpoise.security.authentication import Authentication
from counterpoise.security.authorization import Authorization, AuthorizationPolicies
from counterpoise.security.gate import Security
from counterpoise.security.options import AuthenticationOptions, AuthorizationOptions
from counterpoise.storage.ledger_store import LedgerStore
from counterpoise.storage.local_ids import LocalLedgerIds
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.wire.errors import ServerError
from counterpoise.wire.values import Schema
from tests.waiting import WITHIN_S

OPEN_TO_ALL = Security(
    Authentication(AuthenticationOptions()),
    Authorization(AuthorizationOptions, cast("AuthorizationPolicies", None)),
)
"""No credentials are asked for, and every client may do everything."""


class Everything:
    """Namespaces, catalog, schemas and ownership of a broker that owns all there is."""

    def __init__(self) -> None:
        self.url = ""
        self.partitioned: dict[TopicName, int] = {}
        self.topics: set[TopicName] = set()
        self.schemas: dict[TopicName, list[Schema]] = {}
        self._listeners: list[Callable[[], None]] = []

    def owns(self, topic: TopicName) -> bool:
        return True

    def bundle_of(self, topic: TopicName) -> BundleName:
        return NamespaceBundles.of_count(topic.namespace_name, 1).bundle_of(topic)

    def opened(self, topic: TopicName) -> None:
        return

    async def approach(self, topic: TopicName, is_released: Callable[[], Awaitable[bool]]) -> None:
        return

    async def exists(self, topic: TopicName) -> bool:
        return topic in self.topics

    async def create(self, topic: TopicName) -> None:
        if topic.is_persistent:
            self.topics.add(topic)
            self._changed()

    async def delete(self, topic: TopicName) -> None:
        self.topics.discard(topic)
        self._changed()

    async def terminated(self, topic: TopicName) -> bool:
        return False

    async def terminate(self, topic: TopicName, last: Position) -> None:
        return

    def _changed(self) -> None:
        for listener in list(self._listeners):
            listener()

    @property
    def watches(self) -> int:
        """How many listen for changes of the topics."""
        return len(self._listeners)

    def on_topics_changed(
        self, namespace: NamespaceName, listener: Callable[[], None]
    ) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def lookup_now(self, topic: TopicName) -> LookupConnect | None:
        return None

    async def lookup(self, topic: TopicName, *, authoritative: bool = False) -> LookupConnect:
        return LookupConnect("localhost:0", self.url, web_url="http://localhost:0")

    async def partitions(self, topic: TopicName, *, auto_create: bool = True) -> int:
        return self.partitioned.get(topic, 0)

    async def topics_of(
        self, namespace: NamespaceName, mode: str = "PERSISTENT"
    ) -> list[TopicName]:
        stored = self.topics if mode != "NON_PERSISTENT" else ()
        return sorted(topic for topic in stored if topic.namespace_name == namespace)

    async def get(self, topic: TopicName, version: bytes | None) -> tuple[Schema, bytes] | None:
        found = self.schemas.get(topic, [])
        index = len(found) - 1 if version is None else int.from_bytes(version, "big")
        return (found[index], index.to_bytes(8, "big")) if 0 <= index < len(found) else None

    async def put(self, topic: TopicName, schema: Schema) -> bytes:
        found = self.schemas.setdefault(topic, [])
        if schema not in found:
            found.append(schema)
        return found.index(schema).to_bytes(8, "big")

    async def admit_without(self, topic: TopicName) -> None:
        return

    async def attach(self, topic: TopicName, schema: Schema, *, in_use: bool = False) -> None:
        if schema.type == AUTO_CONSUME:
            return
        if in_use and topic not in self.schemas:
            raise BrokerError(ServerError.IncompatibleSchema, "in use")
        await self.put(topic, schema)


class OneBroker:
    """Runs on a thread of its own, so that synchronous clients can use it: ``with OneBroker()``."""

    def __init__(
        self,
        store: LedgerStore | None = None,
        config: ConnectionConfig | None = None,
        world: Everything | None = None,
        options: TopicOptions | None = None,
        *,
        transactions: bool = False,
    ) -> None:
        self.everything = world or Everything()
        self.background = BackgroundTasks()
        self._store = store or MemoryLedgerStore()
        self._config = config or ConnectionConfig()
        self._options = options or TopicOptions()
        self._transactions = TransactionOptions(enabled=transactions)
        self._ready: Future[str] = Future()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def service_url(self) -> str:
        return self.everything.url

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        world = self.everything
        self.topics = TopicRegistry(
            self._store,
            world,
            world,
            owner="localhost:0",
            options=self._options,
            limits=PublishLimits("localhost:0", self.rates_of),
        )
        participants = LocalParticipants(self.topics)
        coordinators = Coordinators(
            self._store,
            "localhost:0",
            LocalLedgerIds(),
            self.topics,
            participants,
            lambda: self._transactions,
            self.background,
            wall_clock_ms,
        )
        services = Services(
            self.topics,
            world,
            world,
            world,
            OPEN_TO_ALL,
            transactions=coordinators,
            participants=participants,
        )
        self.listener = ClientListener(services, self._config, self.background)
        sock = socket.create_server(("127.0.0.1", 0))
        world.url = f"pulsar://127.0.0.1:{await self.listener.start(sock)}"
        self._ready.set_result(world.url)
        await self._stop.wait()
        await coordinators.close()
        await self.topics.close()
        await self.listener.stop()
        await self.background.stop()

    async def rates_of(self, topic: TopicName) -> TopicRates:
        """The publish limits of a topic: none."""
        return TopicRates()

    def run(self, coroutine):  # type: ignore[no-untyped-def]
        """Run a coroutine on the broker's loop and wait for it."""
        return self.begin(coroutine).result(WITHIN_S)

    def begin(self, coroutine):  # type: ignore[no-untyped-def]
        """Begin a coroutine on the broker's loop; returns its future."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """The broker's loop stands still until the block ends, so that all it was sent is there."""
        held, released = threading.Event(), threading.Event()

        async def hold() -> None:
            held.set()
            released.wait(WITHIN_S)

        holding = self.begin(hold())
        assert held.wait(WITHIN_S)
        try:
            yield
        finally:
            released.set()
            holding.result(WITHIN_S)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.result(WITHIN_S)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(WITHIN_S)
