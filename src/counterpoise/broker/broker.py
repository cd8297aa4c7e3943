"""One broker: how it starts and ends. `assembly` builds its parts."""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from counterpoise.broker.assembly import assemble
from counterpoise.broker.base.addresses import Addresses
from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.base.errors import store_errors_as_not_ready
from counterpoise.broker.bundles.service import NamespaceService
from counterpoise.broker.bundles.shedding import LeaderShedding
from counterpoise.broker.config import BrokerConfig
from counterpoise.broker.connection.client_listener import ClientListener
from counterpoise.broker.context import BrokerContext
from counterpoise.broker.exposure import exposures
from counterpoise.broker.leadership import LeadershipProgram, no_program
from counterpoise.broker.limits.snapshot import LimitSnapshot
from counterpoise.broker.load import SharedProcess
from counterpoise.broker.load.registry import foreign_brokers
from counterpoise.broker.namespaces.bootstrap import bootstrap
from counterpoise.broker.namespaces.catalog import TopicCatalog
from counterpoise.broker.parts import BrokerParts
from counterpoise.broker.schemas.registry import SchemaRegistry
from counterpoise.broker.server_sockets import ServerSocket, ServerSockets, open_server_sockets
from counterpoise.broker.topic.topics import TopicRegistry
from counterpoise.broker.transactions.coordinators import COORDINATORS, Coordinators
from counterpoise.load.report import LocalBrokerData
from counterpoise.metadata import MetadataStore, SessionEvent
from counterpoise.names.callbacks import StopListening
from counterpoise.names.options import ConfigError
from counterpoise.ownership.records import LeaderBroker
from counterpoise.storage.ledger_store import LedgerStore

if TYPE_CHECKING:
    from counterpoise.broker.load.load_data import LoadDataExchange

log = logging.getLogger(__name__)

STOP_WITHIN_S: Final = 15.0
"""For how many seconds a stopping broker tries to hand over its bundles; then it stops anyway."""


class AdminServer(Protocol):
    """The admin API's server, which the broker starts and stops."""

    async def start(self, sockets: Sequence[ServerSocket]) -> None:
        """Serve on bound sockets."""

    async def stop(self) -> None:
        """Close the server and all its connections."""


class AdminServerFactory(Protocol):
    """Creates the server of a broker's admin API."""

    def __call__(self, broker: "Broker") -> AdminServer:
        """Create the server without starting it."""


class Broker:
    """One broker of a cluster.

    Needs its own session with the metadata store, and its own access to the shared ledgers; it
    closes both when it ends. It builds all other `parts` itself.
    """

    parts: BrokerParts
    id: str
    """``host:webPort``."""
    addresses: Addresses
    """The addresses at which clients and other brokers reach it."""
    namespaces: NamespaceService
    catalog: TopicCatalog
    topics: TopicRegistry
    """The topics that this broker serves now."""
    schemas: SchemaRegistry
    transactions: Coordinators
    """The transaction coordinators that this broker runs."""
    listener: ClientListener
    shedding: LeaderShedding
    """The shedding that this broker does while it leads, with its last rounds."""
    load_data: "LoadDataExchange | None" = None
    """The load data that brokers publish under the extensible load manager; None otherwise."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        metadata: MetadataStore,
        ledgers: LedgerStore,
        web: AdminServerFactory,
        on_leadership: LeadershipProgram = no_program,
        process: SharedProcess | None = None,
    ) -> None:
        context = BrokerContext.of(config, metadata, ledgers, process or SharedProcess())
        self._context: Final = context
        self.metadata: Final = metadata
        self.policies, self.live, self.background = (
            context.policies,
            context.live,
            context.background,
        )
        self.system_topics = context.system_topics
        self.tally, self.as_client, self.security = (
            context.tally,
            context.as_client,
            context.security,
        )
        self._on_leadership = on_leadership
        self._web = web(self)
        self.stop_requested = asyncio.Event()
        """Set by `request_stop`; the process that runs the broker then stops it."""
        self._unloads_per_s = 0
        self._running = False
        self._leave_session: StopListening | None = None

    def _assemble(self, addresses: Addresses) -> None:
        self.parts = parts = assemble(self._context, addresses, self._on_leadership)
        self.id, self.addresses = addresses.broker_id, addresses
        self.namespaces, self.listener = parts.bundles.namespaces, parts.listener
        self.catalog, self.schemas = parts.topics.catalog, parts.topics.schemas
        self.topics, self.shedding = parts.topics.loaded, parts.balancing.shedding
        self.load_data, self.upkeep = parts.load.exchange, parts.topics.upkeep
        self.transactions = parts.topics.coordinators

    @property
    def config(self) -> BrokerConfig:
        """The settings in use: those of the start, with later changes to dynamic ones."""
        return self.live.config

    @property
    def service_url(self) -> str:
        """The URL to which clients connect: the plain one, or else the TLS one."""
        return self.addresses.service

    @property
    def web_url(self) -> str:
        """The URL of the admin API: the plain one, or else the TLS one."""
        return self.addresses.web

    @property
    def is_ready(self) -> bool:
        """Whether the broker accepts clients."""
        return self._running and self.metadata.connected

    @property
    def is_leader(self) -> bool:
        """Whether this broker is the cluster's leader."""
        return self.parts.ownership.election.is_leader

    def leader(self) -> LeaderBroker | None:
        """The cluster's leader by the last notification; None if there is none."""
        return self.parts.ownership.election.leader

    async def ask_leader(self) -> LeaderBroker | None:
        """Read the leader from the metadata store; raises `BrokerError` (ServiceNotReady)."""
        with store_errors_as_not_ready():
            return await self.parts.ownership.election.ask()

    async def active_brokers(self) -> list[str]:
        """The ids of live brokers, sorted."""
        return await self.parts.load.registry.active()

    async def report_of(self, broker_id: str) -> LocalBrokerData | None:
        """The last load report of a broker, with its addresses; None if it has left."""
        return await self.parts.load.registry.report(broker_id)

    def load_report(self) -> LocalBrokerData:
        """This broker's load by its last measurement."""
        return self.parts.balancing.reporter.report

    def limits(self) -> list[LimitSnapshot]:
        """The state of every rate limit, with the producers and subscriptions that wait for it."""
        return self.parts.topics.limits.publish.snapshots()

    async def start(self) -> None:
        """Bind the ports, join the cluster and serve; returns when clients can connect.

        Raises OSError if a port is taken, `StoreUnavailable` if the metadata store is away,
        `ConfigError` for certificates that cannot be used, and `InvalidName` for an
        advertisedAddress that is no host.
        """
        with contextlib.ExitStack() as stack:
            try:
                sockets = open_server_sockets(self.config, stack)
                self._assemble(sockets.addresses(self.config))
            except BaseException:
                await self.metadata.close()
                await self._context.ledgers.close()
                raise
            self._running = True
            try:
                await self._join(sockets)
            except BaseException:
                await self.kill()
                raise
            stack.pop_all()
        log.info("broker %s serves %s", self.id, self.service_url)
        for each in exposures(self.config):
            log.warning("%s", each)

    def _set_connection_limits(self) -> None:
        self.listener.set_limits(self.config.connection)

    async def _refuse_beside_pulsar(self) -> None:
        if foreign := await foreign_brokers(self.metadata):
            raise ConfigError(
                "ledgerStoreUrl",
                f"brokers of Apache Pulsar are registered in {self.config.metadata_store_url} "
                f"({', '.join(foreign[:3])}): they would open the same topics. Stop them all, "
                "and wait until their sessions have ended, before a broker of this product starts",
            )

    async def _join(self, sockets: ServerSockets) -> None:
        parts, config = self.parts, self.config
        if config.storage.bookkeeper_metadata is not None:
            await self._refuse_beside_pulsar()
        await bootstrap(
            self.policies,
            config.cluster_name,
            config.default_number_of_namespace_bundles,
            self.addresses,
            extensible=self._context.is_extensible,
            coordinators=COORDINATORS if config.transactions.enabled else 0,
        )
        await self.live.start(self.background)
        self._follow_settings()
        parts.topics.limits.start(self.background)
        self._set_connection_limits()
        for each in sockets.service:
            await self.listener.start(each.socket, each.tls, each.listener)
        await self._web.start(sockets.web)
        self._context.process.join(self.listener.traffic)
        self.background.keep("rate windows", self._turn_rate_windows)
        self.upkeep.start()
        parts.load.registry.when_deleted(parts.balancing.reporter.write_soon)
        await parts.balancing.reporter.start()
        if parts.ownership.records is not None:
            for_brokers = self.addresses.for_brokers(tls=self.config.client.tls)
            parts.ownership.records.start(for_brokers, self.topics)
        self.background.keep("bundles of a former run", parts.ownership.bundles.resume)
        await parts.ownership.election.start()
        parts.bundles.repairs.start()
        if self.config.load_balancer_enabled:
            if self.load_data is None:
                parts.balancing.keeper.start()
            else:
                self.load_data.start()
            self.background.keep("automatic splits", parts.balancing.auto_split.run)
            self.background.keep("shedding", self.shedding.run)
        self._leave_session = self.metadata.subscribe_session(self._on_session)

    def _follow_settings(self) -> None:
        parts = self.parts
        for listener in (
            parts.balancing.reporter.write_soon,
            parts.topics.limits.settings_changed,
            self._set_connection_limits,
            self.shedding.settings_changed,
        ):
            self.live.subscribe(listener)

    def request_stop(self, unloads_per_s: int = 0) -> None:
        """Make the process that runs this broker stop it, as an administrator requested.

        ``unloads_per_s``: how many bundles it hands over per second before it stops; 0: all at
        once.
        """
        self._unloads_per_s = unloads_per_s
        self.stop_requested.set()

    async def stop(self) -> None:
        """Stop in order: hand bundles over to other brokers, then close connections.

        If cancelled before its connections close, the broker ends as by `kill`; after that, they
        are closed all the same before this returns.
        """
        if not self._running:
            return
        self._running = False
        try:
            await self._hand_over()
            await self.parts.ownership.election.stop()
            await self.transactions.close()
            await self.topics.close()
        except asyncio.CancelledError:
            await self.kill()
            raise
        closing = BackgroundTasks().start("closing", self._close(), expected=(Exception,))
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            await closing
            raise
        finally:
            await self.metadata.close()

    async def _hand_over(self) -> None:
        await self.parts.balancing.reporter.stop()
        try:
            async with asyncio.timeout(self._stop_within_s()):
                await self._end_placements()
                # Twice: a broker that had not noticed yet may have placed more bundles here.
                await self.namespaces.moves.leave(self._unloads_per_s)
                await self.parts.load.registry.unregister()
                await self.namespaces.moves.leave(self._unloads_per_s)
        except Exception as error:
            # Whatever it is, the connections and sessions are closed.
            log.warning("%s leaves without handing everything over: %r", self.id, error)

    async def _end_placements(self) -> None:
        """Keep other brokers from placing bundles here while this one hands its own over."""
        registry = self.parts.load.registry
        if self.parts.ownership.protocol.changes_by_record:
            await registry.announce_leaving(self.load_report())
        else:
            # Bundles stay locked without it (``ModularLoadManagerImpl.disableBroker``).
            await registry.unregister()

    def _stop_within_s(self) -> float:
        """Return how many seconds the hand-over may take; more if `request_stop` set a rate."""
        if self._unloads_per_s <= 0:
            return STOP_WITHIN_S
        return STOP_WITHIN_S + len(self.namespaces.owned()) / self._unloads_per_s

    async def kill(self) -> None:
        """End as a crash would: no bundle handed over, nothing flushed, sessions dropped."""
        self._running = False
        self.metadata.kill()
        self.parts.balancing.reporter.kill()
        self.parts.ownership.election.kill()
        self.topics.abandon()
        self.listener.kill()
        self.background.cancel()
        await self._close()

    async def _turn_rate_windows(self) -> None:
        while True:
            await asyncio.sleep(self.config.topics.rate_window_s)
            self.topics.clock.turn()

    async def _close(self) -> None:
        parts = self.parts
        if self._leave_session is not None:
            self._leave_session()
        self._context.process.leave(self.listener.traffic)
        await asyncio.gather(*parts.balancing.keeper.stop(), return_exceptions=True)
        if self.load_data is not None:
            await self.load_data.stop()
        parts.bundles.repairs.close()
        parts.ownership.bundles.close()
        if parts.ownership.records is not None:
            parts.ownership.records.stop()
        self.live.close()
        await self.listener.stop()
        await self._web.stop()
        await self.background.stop()
        parts.topics.limits.stop()
        parts.load.registry.close()
        parts.ownership.cache.close()
        await self._context.ledgers.close()

    def _on_session(self, event: SessionEvent) -> None:
        log.warning("%s: %s with the metadata store", self.id, event.value)
        if event in (SessionEvent.RECONNECTED, SessionEvent.SESSION_REESTABLISHED):
            # Our registration may be gone; the others must see us before they place anything.
            self.parts.balancing.reporter.write_soon()
