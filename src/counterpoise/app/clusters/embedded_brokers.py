"""The brokers of an embedded cluster, on their shared event loop."""

import asyncio
import itertools
import secrets
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from counterpoise.app.clusters.embedded_broker import EmbeddedBroker
from counterpoise.app.clusters.launched import nth_port
from counterpoise.app.clusters.lazy_web_server import LazyWebServer
from counterpoise.app.wiring import make_broker
from counterpoise.broker.config import BrokerConfig
from counterpoise.broker.load import SharedProcess
from counterpoise.broker.namespaces.bootstrap import create_namespace
from counterpoise.metadata.memory import MemoryTree
from counterpoise.metadata.open import open_tree
from counterpoise.metadata.port import MetadataStore
from counterpoise.names.bundle import BundleName, names_a_bundle
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import TopicName
from counterpoise.storage.faultable import FaultableLedgers
from counterpoise.storage.ledger_store import LedgerStore
from counterpoise.storage.open import in_memory, open_ledgers

if TYPE_CHECKING:
    from counterpoise.admin.rest.faults import FaultControl
    from counterpoise.broker.connection.recorded import TrafficRecorder


class BrokerWatcher(Protocol):
    """Intercepts the operations of every broker of a cluster, including those started later."""

    def intercept(self, broker: EmbeddedBroker) -> None:
        """Intercept a broker's operations from now on."""


class EmbeddedBrokers:
    """The brokers of an embedded cluster; its coroutines run on the brokers' event loop."""

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self.all: list[EmbeddedBroker] = []
        self._watches: dict[str, asyncio.Task[None]] = {}
        """By broker id, a task that stops the broker when the admin API is asked to."""
        self._numbers = itertools.count()
        # The metadata that all brokers share, and a session that keeps it open while no broker
        # runs. None with a metadata store outside this process.
        self._tree: MemoryTree | None = None
        self._keeper: MetadataStore | None = None
        self._memory: LedgerStore | None = None
        """The store in memory that all brokers share; None if messages are kept elsewhere."""
        self._process = SharedProcess()
        self.watcher: BrokerWatcher | None = None
        self.control: FaultControl | None = None
        """Sets faults for HTTP clients; None: the admin API has no endpoints for faults."""
        self.recorder: TrafficRecorder | None = None
        """Records the traffic of all clients; None: it is not recorded."""

    @property
    def alive(self) -> list[EmbeddedBroker]:
        """The live brokers, in the order of starting."""
        return [each for each in self.all if each.alive]

    @property
    def first(self) -> EmbeddedBroker:
        """The first live broker."""
        return next(iter(self.alive))

    def find(self, broker: EmbeddedBroker | str) -> EmbeddedBroker:
        """Return the broker with this id, also one that has ended; raises `LookupError`.

        The live one, if a broker that was started later got the port of one that has ended.
        """
        broker_id = broker if isinstance(broker, str) else broker.id
        for each in (*self.alive, *self.all):
            if each.id == broker_id:
                return each
        raise LookupError(f"no broker {broker_id!r} in this cluster: there are {self.all}")

    async def start(self, count: int) -> None:
        """Start ``count`` brokers, the first of which becomes the leader."""
        # A cluster that is started again gets new brokers, on the first ports again.
        self.all, self._watches, self._numbers = [], {}, itertools.count()
        self.watcher = None
        self._tree = await open_tree(self.config.metadata_store_url)
        self._keeper = self._tree.open() if self._tree is not None else None
        if self._memory is None and in_memory(self.config.storage.url):
            self._memory = await open_ledgers(self.config.storage)
        # The first one alone, so that the leader is always the same.
        await self.add()
        await asyncio.gather(*(self.add() for _ in range(count - 1)))

    async def add(self) -> EmbeddedBroker:
        """Start another broker, and return it."""
        # In memory the brokers share one store; otherwise each broker opens the store for itself.
        ledgers = FaultableLedgers(self._memory or await open_ledgers(self.config.storage))
        number, config = next(self._numbers), self.config
        config = replace(
            config,
            broker_service_port=nth_port(config.broker_service_port, number),
            broker_service_port_tls=nth_port(config.broker_service_port_tls, number),
            web_service_port=nth_port(config.web_service_port, number),
            web_service_port_tls=nth_port(config.web_service_port_tls, number),
        )
        broker = await make_broker(
            config,
            ledgers=ledgers,
            tree=self._tree,
            process=self._process,
            web=partial(LazyWebServer, faults=self.control),
        )
        await broker.start()
        if self.recorder is not None:
            broker.listener.record(self.recorder)
        added = EmbeddedBroker(broker, ledgers.disk)
        self.all.append(added)
        if self.watcher is not None:
            self.watcher.intercept(added)
        self._watches[added.id] = asyncio.create_task(self._stop_on_request(added))
        return added

    async def stop(self, *, kill: bool) -> None:
        """End all brokers at once, so no bundle moves; without `kill`, close their topics first."""
        # Killing loses no message of a file store: each is synced before its receipt is sent.
        for each in self.all:
            if kill or each.alive:
                self._watches[each.id].cancel()
        if stopping := [each for each in self._watches.values() if not each.done()]:
            # Wait also for brokers that are being stopped: the loop must not close before their
            # listening sockets do.
            await asyncio.wait(stopping)
        # The ended tasks refer to this cluster, and would delay its release from memory.
        self._watches = {}
        await asyncio.gather(*(self.end(each, kill=kill) for each in self.alive))
        if self._keeper is not None:
            await self._keeper.close()

    async def _stop_on_request(self, broker: EmbeddedBroker) -> None:
        """Stop a broker once an administrator requests it by the admin API."""
        await broker.running.stop_requested.wait()
        await self.end(broker, kill=False)

    async def end(self, broker: EmbeddedBroker, *, kill: bool) -> None:
        """Kill a broker, or without `kill` stop it in order; ignored if it has ended."""
        if not broker.alive:
            return
        broker.alive = False
        watch = self._watches.get(broker.id)
        if watch is not None and watch is not asyncio.current_task():
            watch.cancel()  # No administrator will ask it to stop any more.
        if kill:
            await broker.running.kill()
        else:
            await broker.running.stop()

    async def bundle(self, name: str) -> BundleName:
        """Return the bundle of this name, or the bundle of the topic of this name."""
        if names_a_bundle(name):
            return BundleName.parse(name)
        topic = TopicName.parse(name)
        bundles = await self.first.running.namespaces.bundles(topic.namespace_name)
        return bundles.bundle_of(topic)

    async def owner(self, topic: str) -> EmbeddedBroker | None:
        """The owner of a topic's bundle; None if there is none."""
        bundle = await self.bundle(topic)
        found = await self.first.running.namespaces.owner(bundle)
        return None if found is None else self.find(found.broker_id)

    async def new_namespace(self) -> NamespaceName:
        """Create a namespace with a new name."""
        name, config = NamespaceName("public", f"test-{secrets.token_hex(6)}"), self.config
        bundles, cluster = config.default_number_of_namespace_bundles, config.cluster_name
        await create_namespace(self.first.running.policies, name, cluster, bundles)
        return name

    async def unload(self, topic: str, destination: str | None) -> EmbeddedBroker:
        """Unload a topic's bundle, and return its new owner.

        ``destination`` is a broker's id; None: placement chooses. Raises `LookupError` if no broker
        owned the bundle, or none can take it.
        """
        bundle = await self.bundle(topic)
        owner = await self._owner_of(bundle)
        successor = await owner.running.namespaces.moves.unload(bundle, destination)
        if successor is None:
            raise LookupError(f"{bundle} was unloaded, but no broker is there to take it")
        return self.find(successor)

    async def place(self, topic: str, broker: EmbeddedBroker) -> None:
        """Make a broker the owner of a topic's bundle, whether or not another one owns it."""
        bundle = await self.bundle(topic)
        if await self.owner(topic) is None:
            # With an authoritative lookup the broker takes the bundle, as if the leader chose it.
            await broker.running.namespaces.lookups.lookup_bundle(bundle, authoritative=True)
        owner = await self._owner_of(bundle)
        if owner is not broker:
            await owner.running.namespaces.moves.unload(bundle, broker.id)

    async def split(self, topic: str, *, unload: bool) -> list[str]:
        """Split a topic's bundle in two; returns the new bundles."""
        bundle = await self.bundle(topic)
        owner = await self._owner_of(bundle)
        parts = await owner.running.namespaces.moves.split(
            bundle, algorithm="range_equally_divide", unload=unload
        )
        return [str(each) for each in parts]

    async def _owner_of(self, bundle: BundleName) -> EmbeddedBroker:
        owner = await self.owner(str(bundle))
        if owner is None:
            raise LookupError(f"no broker owns {bundle}: nothing has been looked up in it yet")
        return owner
