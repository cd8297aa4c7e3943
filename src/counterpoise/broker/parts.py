"""What a broker is made of: every part, each made from those before it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final

from counterpoise.broker.balancing_parts import BalancingParts
from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.base.clock import wall_clock_ms
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.base.traffic import Traffic
from counterpoise.broker.bundles.auto_split import AutoSplit
from counterpoise.broker.bundles.election import LeaderElection
from counterpoise.broker.bundles.lookup import LookupService
from counterpoise.broker.bundles.moves import BundleMoves
from counterpoise.broker.bundles.namespace_bundles import NamespaceBundleCache
from counterpoise.broker.bundles.options import ON_TOPIC
from counterpoise.broker.bundles.ownership import PATIENCE_S, BundleOwnership
from counterpoise.broker.bundles.placement import LoadPlacer
from counterpoise.broker.bundles.repairs import OwnershipRepairs
from counterpoise.broker.bundles.service import NamespaceService
from counterpoise.broker.bundles.shedding import LeaderShedding
from counterpoise.broker.bundles.split_points import SplitPointFinder
from counterpoise.broker.bundles.tally import BundleTally
from counterpoise.broker.config import BrokerConfig, check_supported
from counterpoise.broker.connection import Services
from counterpoise.broker.connection.client_listener import ClientListener
from counterpoise.broker.limits.policies import LimitPolicies
from counterpoise.broker.live import LiveSettings
from counterpoise.broker.load import (
    LoadReporter,
    ProcessUsage,
    SampledUsage,
    SharedProcess,
    TopicCount,
)
from counterpoise.broker.load.cluster_load import ClusterLoad
from counterpoise.broker.load.keeper import LoadKeeper
from counterpoise.broker.load.registry import BrokerRegistry
from counterpoise.broker.load.self_report import blank_report, count_of
from counterpoise.broker.namespaces.catalog import TopicCatalog
from counterpoise.broker.namespaces.policies import Policies
from counterpoise.broker.namespaces.topic_changes import TopicChanges
from counterpoise.broker.schemas.registry import SchemaRegistry
from counterpoise.broker.server_sockets import Addresses
from counterpoise.broker.topic.ledger_ids import ClusterLedgerIds
from counterpoise.broker.topic.ports import ServiceUrls
from counterpoise.broker.topic.topics import TopicRegistry
from counterpoise.decide.splitting import TopicLoad
from counterpoise.load.fold import FoldOptions
from counterpoise.metadata import MetadataStore, StoreUnavailable
from counterpoise.names.bundle import BundleName
from counterpoise.names.load_managers import EXTENSIBLE
from counterpoise.ownership.port import OwnershipOptions
from counterpoise.ownership.protocols import PROTOCOLS
from counterpoise.ownership.records import LeaderBroker, NamespaceEphemeralData
from counterpoise.security.authentication import Authentication
from counterpoise.security.authorization import Authorization
from counterpoise.security.client import ClientSecurity
from counterpoise.security.gate import Security
from counterpoise.storage.port import LedgerStore

if TYPE_CHECKING:
    from counterpoise.broker.bundles.topic_records import TopicRecords

_log = logging.getLogger(__name__)

PREPARE_S: Final = 0.8
"""How long a broker prepares itself for a bundle's topics: a little less than its owner waits."""


class BrokerParts(BalancingParts):
    """The parts of one broker; they are there once `assemble` has run."""

    addresses: Addresses
    """Where others reach it."""
    security: Security
    """Authentication and authorization."""
    policies: Policies
    catalog: TopicCatalog
    topics: TopicRegistry
    limits: LimitPolicies
    schemas: SchemaRegistry
    listener: ClientListener
    load_keeper: LoadKeeper
    live: LiveSettings
    repairs: OwnershipRepairs
    auto_split: AutoSplit
    shedding: LeaderShedding
    records: TopicRecords | None = None
    """Under the extensible load manager, where records of bundles are kept on a topic."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        metadata: MetadataStore,
        ledgers: LedgerStore,
        on_leadership: Callable[[bool], None],
        process: SharedProcess,
    ) -> None:
        check_supported(config)
        self.metadata = metadata
        self.policies = Policies(metadata, Policies.cache_of(metadata))
        self.live = LiveSettings(config, metadata, self.policies)
        self.background = BackgroundTasks()
        self.tally = BundleTally()
        self.as_client = ClientSecurity(config.client)
        self.security = Security(
            Authentication(config.authentication),
            Authorization(lambda: self.config.authorization, self.policies),
        )
        self._ledgers = ledgers
        self._on_leadership = on_leadership
        self._process = process

    @property
    def config(self) -> BrokerConfig:
        """The settings that hold now; all but the dynamic ones stay as they were at the start."""
        return self.live.config

    @property
    def service_url(self) -> str:
        """Where clients connect: the plain port, or the one for TLS where there is no other."""
        return self.addresses.service_url or self.addresses.service_url_tls or ""

    @property
    def web_url(self) -> str:
        """Where its admin API is: plain, or by TLS where there is no other."""
        return self.addresses.web_url or self.addresses.web_url_tls or ""

    def assemble(self, addresses: Addresses) -> None:
        """Make every part, each from those before it."""
        config, store = self.config, self.metadata
        self.addresses = addresses
        self.id = addresses.broker_id
        self.bundles = NamespaceBundleCache(store, self.policies)
        self.registry = BrokerRegistry(store, self.id)
        me = LeaderBroker(self.id, self.web_url)
        self.election = LeaderElection(store, me, self._on_role, self._on_leader)
        options = self._ownership_options()
        self._protocol = PROTOCOLS[config.filters.load_manager_class](options, wall_clock_ms)
        self.records = self._record_store(store)
        self.ownership = BundleOwnership(
            self.records or store,
            self._protocol,
            options,
            self._drain,
            self.tally,
            prepare=self._prepare,
        )
        self.catalog = TopicCatalog(self.policies, lambda: self.config.auto_topic_creation)
        self.schemas = SchemaRegistry(store)
        self.load = ClusterLoad(
            self.registry,
            store,
            clock_ms=wall_clock_ms,
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
            policies=self.catalog.policies_of,
            stays=self.namespaces.goes_with_leader,
            compaction=None if self.records is None else self.records.compaction,
            ids=ClusterLedgerIds(store, self._ledgers, self.background),
        )
        services = Services(
            topics=self.topics,
            namespaces=self.namespaces,
            catalog=self.catalog,
            schemas=self.schemas,
            on_topics_changed=TopicChanges(store).subscribe,
            security=self.security,
        )
        connection = replace(
            config.connection,
            refresh_check_s=config.authentication.refresh_check_s,
            authenticate_original=config.authentication.authenticate_original,
        )
        self.listener = ClientListener(services, connection, self.background)
        self._assemble_reporting()

    def _ownership_options(self) -> OwnershipOptions:
        """How this broker owns bundles: what it writes of itself, and its deadlines."""
        addresses, options = self.addresses, self.config.ownership
        return OwnershipOptions(
            NamespaceEphemeralData(
                native_url=addresses.service_url or "",
                http_url=addresses.web_url or "",
                native_url_tls=addresses.service_url_tls,
                http_url_tls=addresses.web_url_tls,
                advertised_listeners=addresses.listeners,
            ),
            successor_s=PATIENCE_S,
            drain_s=self._drain_within_s(),
            in_flight_ms=options.in_flight_ms,
            tombstone_ms=options.tombstone_delay_s * 1000,
        )

    def url_for_brokers(self) -> str:
        """Where brokers connect to this one, itself included."""
        tls = self.addresses.service_url_tls
        return tls if tls is not None and self.config.client.tls else self.service_url

    def _record_store(self, store: MetadataStore) -> TopicRecords | None:
        """Where the records of bundles are, if not in the metadata store."""
        config = self.config
        if (
            config.filters.load_manager_class != EXTENSIBLE
            or config.ownership.table_view != ON_TOPIC
        ):
            return None
        # Imported here: only brokers with this setting need it.
        from counterpoise.broker.bundles.topic_records import TopicRecords, link_to_topic

        link = link_to_topic(self.id, self.as_client)
        return TopicRecords(store, self.id, self.background, link)

    def _namespace_service(self) -> NamespaceService:
        config = self.config
        if config.filters.load_manager_class == EXTENSIBLE:
            # Imported here: only brokers under this manager exchange load data.
            from counterpoise.broker.load.load_data import LoadDataExchange, LoadDataTerms

            self.load_data = LoadDataExchange(
                self.id,
                broker_url=self.url_for_brokers(),
                security=self.as_client,
                report=lambda: self.reporter.report,
                terms=lambda: LoadDataTerms.of(
                    self.config.load_report, self.config.placement.history_percentage
                ),
                gone=self._gone_brokers,
                background=self.background,
            )
        placer = LoadPlacer(
            self.load,
            self.policies,
            cluster=config.cluster_name,
            filters=lambda: self.config.filters,
            placement=lambda: self.config.placement,
            rng=Random(),
            usage_ema=self.load_data.usage_ema if self.load_data is not None else None,
        )
        self.repairs = OwnershipRepairs(
            self.records or self.metadata,
            self._protocol,
            self.registry,
            placer,
            leads=lambda: self.election.is_leader,
            every_s=config.ownership.monitor_interval_s,
            at_once=lambda: self.config.ownership.overrides_at_once,
            wary_s=config.metadata_store_session_timeout_ms / 1000,
            background=self.background,
            tally=self.tally,
        )
        lookups = LookupService(
            self.registry,
            self.election,
            self.ownership,
            placer,
            balanced=config.load_balancer_enabled,
            tally=self.tally,
        )
        points = SplitPointFinder(self.catalog, self._topic_loads, lambda: self.config.splitting)
        moves = BundleMoves(
            self.registry,
            self.bundles,
            self.ownership,
            lookups,
            placer,
            self.policies,
            split_points=points.points,
            tally=self.tally,
            background=self.background,
        )
        self.auto_split = self._auto_split(moves, points)
        self.shedding = self._shedding(placer)
        leads = None if self.records is None else (lambda: self.election.is_leader)
        return NamespaceService(self.bundles, self.ownership, lookups, moves, leads)

    def _assemble_reporting(self) -> None:
        config = self.config.load_report
        self.reporter = LoadReporter(
            blank_report(self.config, self.addresses),
            counts=self._counts,
            bundles=lambda: [str(bundle) for bundle in self.namespaces.owned()],
            host=SampledUsage(
                ProcessUsage(self._traffic, self._process, nic_gbps=config.override_nic_speed_gbps),
                every_s=lambda: self.config.load_report.host_usage_minutes * 60.0,
            ),
            publish=self.registry.register,
            config=lambda: self.config.load_report,
            background=self.background,
            publishes=self.config.load_balancer_enabled,
        )
        self.load_keeper = LoadKeeper(
            self.metadata,
            self.load,
            me=self.id,
            is_leader=lambda: self.election.is_leader,
            write_every_minutes=config.averages_interval_minutes,
            bundles_a_broker=lambda: self.config.load_report.bundles_in_report,
            background=self.background,
        )

    async def _drain(self, bundle: BundleName, destination: str | None) -> None:
        report = None
        if destination is not None and self.config.ownership.names_owner:
            # Without the store clients are not sent on; they look the owner up themselves.
            with contextlib.suppress(StoreUnavailable):
                report = await self.registry.report(destination)
        await self.topics.unload_bundle(
            bundle,
            ServiceUrls(
                report.pulsar_service_url,
                report.pulsar_service_url_tls,
                report.advertised_listeners,
            )
            if report
            else None,
            timeout_s=self.config.namespace_bundle_unloading_timeout_ms / 1000,
        )

    async def _prepare(self, bundle: BundleName) -> None:
        """Get ready for a bundle's topics, as far as an owner waits for that."""
        names = await self.policies.topics(bundle.namespace)
        await self.bundles.get(bundle.namespace)
        mine = [name for name in names if name in bundle]
        if left := await self.topics.prepare(mine, within_s=PREPARE_S):
            what = "%s: in %g s %d of its %d topics were not looked at, and take longer to open"
            _log.info(what, bundle, PREPARE_S, left, len(mine))

    async def _gone_brokers(self, known: Iterable[str]) -> list[str]:
        """Of these brokers those that have left, if it is this one that has to say so."""
        if not self.election.is_leader:
            return []
        return sorted(set(known) - set(await self.registry.active()))

    def _on_role(self, leads: bool) -> None:
        if leads:
            self.repairs.look()
        elif self.records is not None:
            self.background.start("closing what the leader serves", self._close_system_topics())
        self.shedding.lead(leads)
        self._on_leadership(leads)

    def _on_leader(self, leader: LeaderBroker | None) -> None:
        if leader is not None and self.records is not None:
            self.records.led_by(leader.broker_id)

    async def _close_system_topics(self) -> None:
        for name in [each for each in self.topics.loaded if self.namespaces.goes_with_leader(each)]:
            await self.topics.unload_topic(name)

    def _traffic(self) -> Traffic:
        return Traffic(self.listener.bytes_in, self.listener.bytes_out)

    def _counts(self) -> Iterable[TopicCount]:
        for topic in list(self.topics.loaded.values()):
            if self.namespaces.goes_with_leader(topic.name):
                continue
            # A topic that is being unloaded may have no bundle here any more: it counts nowhere.
            with contextlib.suppress(BrokerError):
                yield count_of(topic, self.namespaces.bundle_of(topic.name))

    def _topic_loads(self) -> Iterable[tuple[str, TopicLoad]]:
        return self.reporter.topic_loads()
