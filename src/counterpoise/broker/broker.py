"""One broker: what it is made of, how it starts, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Callable, Iterable
from random import Random
from typing import Final, Protocol

from counterpoise.broker.background import BackgroundTasks
from counterpoise.broker.bundles.election import LeaderElection
from counterpoise.broker.bundles.lookup import LookupService
from counterpoise.broker.bundles.moves import BundleMoves
from counterpoise.broker.bundles.namespace_bundles import NamespaceBundleCache
from counterpoise.broker.bundles.ownership import PATIENCE_S, BundleOwnership
from counterpoise.broker.bundles.placement import LoadPlacer
from counterpoise.broker.bundles.service import NamespaceService
from counterpoise.broker.bundles.split_points import SplitPointFinder
from counterpoise.broker.config import BrokerConfig, check_supported
from counterpoise.broker.connection import Services
from counterpoise.broker.connection.listener import Listener
from counterpoise.broker.errors import BrokerError
from counterpoise.broker.limits.policies import LimitPolicies
from counterpoise.broker.live import LiveSettings
from counterpoise.broker.load import (
    LoadReporter,
    ProcessUsage,
    SharedProcess,
    TopicCount,
)
from counterpoise.broker.load.cluster_load import ClusterLoad
from counterpoise.broker.load.keeper import LoadKeeper
from counterpoise.broker.load.registry import BrokerRegistry
from counterpoise.broker.load.self_report import blank_report, count_of
from counterpoise.broker.namespaces.bootstrap import bootstrap
from counterpoise.broker.namespaces.catalog import TopicCatalog
from counterpoise.broker.namespaces.policies import Policies
from counterpoise.broker.namespaces.topic_changes import TopicChanges
from counterpoise.broker.schemas.registry import SchemaRegistry
from counterpoise.broker.topic.topics import TopicRegistry
from counterpoise.broker.traffic import Traffic
from counterpoise.decide.splitting import TopicLoad
from counterpoise.load.fold import FoldOptions
from counterpoise.load.report import LocalBrokerData
from counterpoise.metadata import MetadataStore, SessionEvent, StoreUnavailable
from counterpoise.names.broker import BrokerId
from counterpoise.names.bundle import BundleName
from counterpoise.ownership.port import Terms
from counterpoise.ownership.protocols import PROTOCOLS
from counterpoise.ownership.records import LeaderBroker, NamespaceEphemeralData
from counterpoise.storage.port import LedgerStore

log = logging.getLogger(__name__)

STOP_WITHIN_S: Final = 15.0
"""How long a broker that stops hands its bundles over, before it just leaves."""
DRAIN_MARGIN_S: Final = 10.0
"""What draining a bundle may take beyond the time its topics have to close."""


class WebServer(Protocol):
    """The admin API's server, which the broker starts and stops."""

    async def start(self, listening: socket.socket) -> None:
        """Serve on a bound socket."""
        ...

    async def stop(self) -> None:
        """Close it and every connection."""
        ...


class Broker:
    """One broker of a cluster.

    Needs a session of its own with the cluster's metadata, and access of its own to the ledgers
    that all brokers share; it ends both when it ends. Everything else it makes itself, when it
    starts; its parts can be used from then on.
    """

    id: str
    """``host:webPort``."""
    service_url: str
    web_url: str
    policies: Policies
    bundles: NamespaceBundleCache
    registry: BrokerRegistry
    election: LeaderElection
    ownership: BundleOwnership
    namespaces: NamespaceService
    catalog: TopicCatalog
    topics: TopicRegistry
    limits: LimitPolicies
    schemas: SchemaRegistry
    listener: Listener
    reporter: LoadReporter
    load: ClusterLoad
    load_keeper: LoadKeeper
    live: LiveSettings

    def __init__(
        self,
        config: BrokerConfig,
        *,
        metadata: MetadataStore,
        ledgers: LedgerStore,
        web: Callable[[Broker], WebServer] | None = None,
        on_leadership: Callable[[bool], None] | None = None,
        process: SharedProcess | None = None,
    ) -> None:
        check_supported(config)
        self.metadata: Final = metadata
        self.policies = Policies(metadata, Policies.cache_of(metadata))
        self.live = LiveSettings(config, metadata, self.policies)
        self._ledgers = ledgers
        self._web = web(self) if web is not None else None
        self._on_leadership = on_leadership or (lambda _: None)
        self._process = process or SharedProcess()
        self.background: Final = BackgroundTasks()
        self._running = False
        self._leave_session: Callable[[], None] = lambda: None

    @property
    def config(self) -> BrokerConfig:
        """The settings that hold now; all but the dynamic ones stay as they were at the start."""
        return self.live.config

    @property
    def is_ready(self) -> bool:
        """Whether clients may come."""
        return self._running and self.metadata.connected

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads the cluster."""
        return self.election.is_leader

    def leader(self) -> LeaderBroker | None:
        """Who leads the cluster, None while nobody does."""
        return self.election.leader

    async def active_brokers(self) -> list[str]:
        """The ids of the brokers that are alive, sorted."""
        return await self.registry.active()

    def load_report(self) -> LocalBrokerData:
        """What this broker measured last."""
        return self.reporter.report

    async def start(self) -> None:
        """Bind the ports, join the cluster and serve; returns when clients may come.

        Raises OSError when a port is taken and `StoreUnavailable` when the metadata is.
        """
        with contextlib.ExitStack() as sockets:
            try:
                service = sockets.enter_context(self._bind(self.config.broker_service_port))
                web = sockets.enter_context(self._bind(self.config.web_service_port))
            except OSError:
                await self.metadata.close()
                await self._ledgers.close()
                raise
            self._assemble(service.getsockname()[1], web.getsockname()[1])
            self._running = True
            try:
                await self._join(service, web)
            except BaseException:
                await self.kill()
                raise
            sockets.pop_all()
        log.info("broker %s serves %s", self.id, self.service_url)

    async def _join(self, service: socket.socket, web: socket.socket) -> None:
        await bootstrap(
            self.policies, self.config, web_url=self.web_url, service_url=self.service_url
        )
        await self.live.start(self.background)
        self.live.subscribe(lambda _: self.reporter.write_soon())
        self.limits.start(self.background)
        self.live.subscribe(lambda _: self.limits.settings_changed())
        await self.listener.start(service)
        if self._web is not None:
            await self._web.start(web)
        else:
            web.close()
        self._process.join(self._traffic)
        self.background.keep("rate windows", self._turn_rate_windows)
        await self.reporter.start()
        self.load_keeper.start()
        await self.election.start()
        self._leave_session = self.metadata.subscribe_session(self._on_session)

    def _bind(self, port: int) -> socket.socket:
        made = socket.create_server((self.config.bind_address, port))
        # What is accepted inherits it. Not every event loop does so itself, and a receipt that
        # waits for a client's acknowledgement of the one before takes 40 ms.
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    async def stop(self) -> None:
        """Leave in order: bundles go to the other brokers, then connections close."""
        if not self._running:
            return
        self._running = False
        await self.reporter.stop()
        try:
            async with asyncio.timeout(STOP_WITHIN_S):
                await self.registry.unregister()
                await self.namespaces.leave()
        except (TimeoutError, StoreUnavailable) as error:
            log.warning("%s leaves without handing everything over: %s", self.id, error)
        await self.election.stop()
        await self.topics.close()
        await self._close()
        await self.metadata.close()

    async def kill(self) -> None:
        """End as a crash would: no bundle handed over, nothing flushed, sessions dropped."""
        self._running = False
        self.metadata.kill()
        self.reporter.kill()
        self.election.kill()
        self.topics.abandon()
        self.listener.kill()
        self.background.cancel()
        await self._close()

    async def _turn_rate_windows(self) -> None:
        while True:
            await asyncio.sleep(self.config.topics.rate_window_s)
            self.topics.clock.turn()

    async def _close(self) -> None:
        self._leave_session()
        self._process.leave(self._traffic)
        await asyncio.gather(*self.load_keeper.stop(), return_exceptions=True)
        self.ownership.close()
        self.live.close()
        await self.listener.stop()
        if self._web is not None:
            await self._web.stop()
        await self.background.stop()
        self.limits.stop()
        self.registry.close()
        self.bundles.close()
        await self._ledgers.close()

    def _assemble(self, service_port: int, web_port: int) -> None:
        """Make every part, each from those before it."""
        config, store = self.config, self.metadata
        host = config.advertised_address
        self.id = str(BrokerId(host, web_port))
        self.service_url = f"pulsar://{host}:{service_port}"
        self.web_url = f"http://{host}:{web_port}"
        self.bundles = NamespaceBundleCache(store, self.policies)
        self.registry = BrokerRegistry(store, self.id)
        self.election = LeaderElection(
            store, LeaderBroker(self.id, self.web_url), self._on_leadership
        )
        terms = Terms(
            NamespaceEphemeralData(native_url=self.service_url, http_url=self.web_url),
            heir_s=PATIENCE_S,
            drain_s=config.namespace_bundle_unloading_timeout_ms / 1000 + DRAIN_MARGIN_S,
        )
        protocol = PROTOCOLS[config.filters.load_manager_class](terms)
        self.ownership = BundleOwnership(store, protocol, terms, self._drain)
        self.catalog = TopicCatalog(self.policies, lambda: self.config.auto_topic_creation)
        self.schemas = SchemaRegistry(store)
        self.load = ClusterLoad(
            self.registry,
            store,
            clock_ms=lambda: time.time_ns() // 1_000_000,
            options=lambda: FoldOptions(forget_after_ms=self.config.load_report.kept_ms),
        )
        self.namespaces = self._namespace_service()
        self.limits = LimitPolicies(
            self.id, config.cluster_name, store, self.policies, lambda: self.config.rates
        )
        self.topics = TopicRegistry(
            self._ledgers,
            self.namespaces,
            self.catalog,
            owner=self.id,
            cluster=config.cluster_name,
            options=config.topics,
            background=self.background,
            limits=self.limits.publish,
        )
        services = Services(
            topics=self.topics,
            namespaces=self.namespaces,
            catalog=self.catalog,
            schemas=self.schemas,
            on_topics_changed=TopicChanges(store).subscribe,
        )
        self.listener = Listener(services, config.connection, self.background)
        self._assemble_reporting()

    def _namespace_service(self) -> NamespaceService:
        config = self.config
        placer = LoadPlacer(
            self.load,
            self.policies,
            cluster=config.cluster_name,
            filters=lambda: self.config.filters,
            placement=lambda: self.config.placement,
            rng=Random(),
        )
        lookups = LookupService(
            self.registry,
            self.election,
            self.ownership,
            placer,
            balanced=config.load_balancer_enabled,
        )
        moves = BundleMoves(
            self.registry,
            self.bundles,
            self.ownership,
            lookups,
            placer,
            self.policies,
            split_points=SplitPointFinder(
                self.catalog, self._topic_loads, lambda: self.config.splitting
            ).points,
        )
        return NamespaceService(self.bundles, self.ownership, lookups, moves)

    def _assemble_reporting(self) -> None:
        config = self.config.load_report
        self.reporter = LoadReporter(
            blank_report(self.config, self.service_url, self.web_url),
            counts=self._counts,
            bundles=lambda: [str(bundle) for bundle in self.namespaces.owned()],
            host=ProcessUsage(
                self._traffic, self._process, nic_gbps=config.override_nic_speed_gbps
            ),
            publish=self.registry.register,
            config=lambda: self.config.load_report,
            background=self.background,
        )
        self.load_keeper = LoadKeeper(
            self.metadata,
            self.load,
            is_leader=lambda: self.election.is_leader,
            write_every_minutes=config.averages_interval_minutes,
            bundles_a_broker=lambda: self.config.load_report.bundles_in_report,
            background=self.background,
        )

    async def _drain(self, bundle: BundleName, destination: str | None) -> None:
        report = None
        if destination is not None:
            # Without the store clients are not sent on; they look the owner up themselves.
            with contextlib.suppress(StoreUnavailable):
                report = await self.registry.report(destination)
        await self.topics.unload_bundle(
            bundle,
            report.pulsar_service_url if report else None,
            timeout_s=self.config.namespace_bundle_unloading_timeout_ms / 1000,
        )

    def _on_session(self, event: SessionEvent) -> None:
        log.warning("%s: %s with the metadata store", self.id, event.value)
        if event in (SessionEvent.RECONNECTED, SessionEvent.SESSION_REESTABLISHED):
            # Our registration may be gone; the others must see us before they place anything.
            self.reporter.write_soon()

    def _traffic(self) -> Traffic:
        return Traffic(self.listener.bytes_in, self.listener.bytes_out)

    def _counts(self) -> Iterable[TopicCount]:
        for topic in list(self.topics.loaded.values()):
            # A topic on its way out may have lost its bundle already: nobody's load any more.
            with contextlib.suppress(BrokerError):
                yield count_of(topic, self.namespaces.bundle_of(topic.name))

    def _topic_loads(self) -> Iterable[tuple[str, TopicLoad]]:
        return self.reporter.topic_loads()
