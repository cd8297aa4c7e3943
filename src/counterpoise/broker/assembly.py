"""Builds the parts of a broker, each from the parts before it."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from counterpoise.broker.assembly_balancing import balancing_parts
from counterpoise.broker.base import paths
from counterpoise.broker.base.addresses import Addresses
from counterpoise.broker.base.clock import wall_clock_ms
from counterpoise.broker.bundle_topics import BundleTopics
from counterpoise.broker.bundles.election import LeaderElection
from counterpoise.broker.bundles.lookup import LookupService
from counterpoise.broker.bundles.moves import BundleMoves
from counterpoise.broker.bundles.namespace_bundles import NamespaceBundleCache
from counterpoise.broker.bundles.options import ON_TOPIC
from counterpoise.broker.bundles.ownership import PATIENCE_S, BundleOwnership
from counterpoise.broker.bundles.placement import LoadPlacer, PolicyPlacer
from counterpoise.broker.bundles.placement_policies import PlacementPolicyReader
from counterpoise.broker.bundles.repairs import OwnershipRepairs
from counterpoise.broker.bundles.service import NamespaceService
from counterpoise.broker.bundles.split_points import SplitPointFinder
from counterpoise.broker.bundles.store_placement import StorePlacer
from counterpoise.broker.connection import Services
from counterpoise.broker.connection.client_listener import ClientListener
from counterpoise.broker.context import BrokerContext
from counterpoise.broker.leadership import LeaderDuties, Leadership, LeadershipProgram
from counterpoise.broker.limits.options import RateOptions
from counterpoise.broker.limits.policies import LimitPolicies
from counterpoise.broker.load import BundleRates, LoadReportConfig
from counterpoise.broker.load.cluster_load import ClusterLoad
from counterpoise.broker.load.registry import BrokerRegistry
from counterpoise.broker.namespaces.auto_creation import AutoTopicCreation, CreationLimits
from counterpoise.broker.namespaces.catalog import TopicCatalog
from counterpoise.broker.parts import (
    BrokerParts,
    BundleParts,
    LoadParts,
    OwnershipParts,
    TopicParts,
)
from counterpoise.broker.schemas.registry import SchemaRegistry
from counterpoise.broker.schemas.rules import SchemaOptions
from counterpoise.broker.topic.ledger_ids import ClusterLedgerIds
from counterpoise.broker.topic.options import TopicOptions
from counterpoise.broker.topic.topics import TopicRegistry
from counterpoise.broker.topic.transaction_ends import LocalParticipants
from counterpoise.broker.topic.upkeep import TopicUpkeep
from counterpoise.broker.transactions.coordinators import Coordinators
from counterpoise.broker.transactions.options import TransactionOptions
from counterpoise.broker.transactions.participants import ClusterParticipants
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.splitting.options import SplitOptions
from counterpoise.load.fold import FoldOptions
from counterpoise.ownership.port import OwnershipOptions
from counterpoise.ownership.protocols import PROTOCOLS
from counterpoise.ownership.records import LeaderBroker, NamespaceEphemeralData

if TYPE_CHECKING:
    from counterpoise.broker.bundles.topic_records import TopicRecords
    from counterpoise.broker.load.load_data import LoadDataExchange


def assemble(
    context: BrokerContext, addresses: Addresses, program: LeadershipProgram
) -> BrokerParts:
    """Build every part of a broker; ``program`` is what it runs while it is the leader."""
    registry = BrokerRegistry(
        context.metadata, addresses.broker_id, with_load=not context.is_extensible
    )
    ownership = _ownership(context, addresses, registry)
    load = _load(context, addresses, registry, ownership.leadership)
    catalog = TopicCatalog(
        context.policies,
        context.live.options(AutoTopicCreation),
        context.live.options(CreationLimits),
        context.config.cluster_name,
        _schemas_root(context),
    )
    bundles = _bundles(context, ownership, load, catalog)
    topics = _topics(context, addresses, ownership, bundles, catalog)
    ownership.topics.attach(topics.loaded)
    listener = _listener(context, bundles, topics)
    balancing = balancing_parts(context, addresses, ownership, load, bundles, topics, listener)
    if load.exchange is not None:
        load.exchange.report_from(balancing.reporter)
    duties = LeaderDuties(
        bundles.repairs,
        balancing.shedding,
        ownership.records,
        topics.loaded,
        bundles.namespaces,
        context.background,
        program,
    )
    ownership.election.report_to(duties)
    return BrokerParts(context, addresses, ownership, load, bundles, topics, listener, balancing)


def _ownership(
    context: BrokerContext, addresses: Addresses, registry: BrokerRegistry
) -> OwnershipParts:
    store = context.metadata
    election = LeaderElection(store, LeaderBroker(addresses.broker_id, addresses.web))
    cache = NamespaceBundleCache(store, context.policies)
    options = OwnershipOptions(
        NamespaceEphemeralData(
            native_url=addresses.service_url or "",
            http_url=addresses.web_url or "",
            native_url_tls=addresses.service_url_tls,
            http_url_tls=addresses.web_url_tls,
            advertised_listeners=addresses.listeners,
        ),
        successor_s=PATIENCE_S,
        close_topics_s=context.close_topics_within_s(),
        in_flight_ms=context.config.ownership.in_flight_ms,
        tombstone_ms=context.config.ownership.tombstone_delay_s * 1000,
    )
    protocol = PROTOCOLS[context.config.filters.load_manager_class](options, wall_clock_ms)
    records = _topic_records(context, addresses)
    topics = BundleTopics(context, cache, registry)
    return OwnershipParts(
        election,
        Leadership(election, store, registry),
        cache,
        records,
        records or store,
        protocol,
        topics,
        BundleOwnership(
            records or store, protocol, options, topics.close, context.tally, prepare=topics.prepare
        ),
    )


def _topic_records(context: BrokerContext, addresses: Addresses) -> TopicRecords | None:
    """The topic with bundles' records; None if they are in the metadata store."""
    if not context.is_extensible or context.config.ownership.table_view != ON_TOPIC:
        return None
    # Imported here: only brokers with these settings need it.
    from counterpoise.broker.bundles.topic_records import TopicRecords, link_to_topic

    me = addresses.broker_id
    link = link_to_topic(me, context.as_client, context.cluster_key)
    return TopicRecords(context.metadata, me, context.background, link)


def _load(
    context: BrokerContext, addresses: Addresses, registry: BrokerRegistry, leadership: Leadership
) -> LoadParts:
    def fold_options() -> FoldOptions:
        kept_ms = context.config.load_report.kept_ms
        # A broker publishes a report only when its load has changed: silence is no gap.
        return FoldOptions(forget_after_ms=kept_ms, lapse_after_ms=kept_ms)

    cluster = ClusterLoad(registry, context.metadata, clock_ms=wall_clock_ms, options=fold_options)
    exchange: LoadDataExchange | None = None
    if context.is_extensible:
        # Imported here: only brokers under this load manager need it.
        from counterpoise.broker.load.load_data import LoadDataExchange

        exchange = LoadDataExchange(
            addresses.broker_id,
            broker_url=addresses.for_brokers(tls=context.config.client.tls),
            security=context.as_client,
            cluster_key=context.cluster_key,
            config=context.live.options(LoadReportConfig),
            history=lambda: context.config.placement.history_percentage,
            gone=leadership.gone_brokers,
            background=context.background,
        )
    return LoadParts(registry, cluster, BundleRates(), exchange)


def _bundles(
    context: BrokerContext, ownership: OwnershipParts, load: LoadParts, catalog: TopicCatalog
) -> BundleParts:
    config, live = context.config, context.live
    placer = _placer(context, ownership, load)

    def repairs_at_once() -> int:
        return context.config.ownership.overrides_at_once

    repairs = OwnershipRepairs(
        ownership.store,
        ownership.protocol,
        load.registry,
        placer,
        leads=ownership.leadership.is_leader,
        every_s=config.ownership.monitor_interval_s,
        at_once=repairs_at_once,
        wary_s=config.metadata_store_session_timeout_ms / 1000,
        background=context.background,
        namespaces=context.policies,
        tally=context.tally,
    )
    lookups = LookupService(
        load.registry,
        ownership.election,
        ownership.bundles,
        placer,
        balanced=config.load_balancer_enabled,
        tally=context.tally,
    )
    split_points = SplitPointFinder(catalog, load.rates.topic_loads, live.options(SplitOptions))
    moves = BundleMoves(
        load.registry,
        ownership.cache,
        ownership.bundles,
        lookups,
        placer,
        context.policies,
        split_points=split_points.points,
        tally=context.tally,
        background=context.background,
    )
    leads = None if ownership.records is None else ownership.leadership.is_leader
    namespaces = NamespaceService(ownership.cache, ownership.bundles, lookups, moves, leads)
    return BundleParts(placer, repairs, split_points, moves, namespaces)


def _placer(context: BrokerContext, ownership: OwnershipParts, load: LoadParts) -> PolicyPlacer:
    live = context.live
    policies = PlacementPolicyReader(
        context.policies, context.config.cluster_name, live.options(FilterOptions)
    )
    placement, rng = live.options(PlacementOptions), Random()
    if load.exchange is None:
        return LoadPlacer(load.cluster, policies, placement=placement, rng=rng)
    return StorePlacer(
        load.registry, load.exchange, ownership.bundles, policies, placement=placement, rng=rng
    )


def _topics(
    context: BrokerContext,
    addresses: Addresses,
    ownership: OwnershipParts,
    bundles: BundleParts,
    catalog: TopicCatalog,
) -> TopicParts:
    config, me = context.config, addresses.broker_id
    limits = LimitPolicies(
        me,
        config.cluster_name,
        context.metadata,
        context.policies,
        context.live.options(RateOptions),
    )
    ids = ClusterLedgerIds(context.metadata, context.ledgers, context.background)
    loaded = TopicRegistry(
        context.ledgers,
        bundles.namespaces,
        catalog,
        owner=me,
        cluster=config.cluster_name,
        options=config.topics,
        live=context.live.options(TopicOptions),
        background=context.background,
        limits=limits.publish,
        policies=catalog.policies_of,
        stays=bundles.namespaces.goes_with_leader,
        compaction=None if ownership.records is None else ownership.records.compaction,
        ids=ids,
    )
    limits.follow_too(loaded)
    upkeep = TopicUpkeep(loaded, context.live.options(TopicOptions), context.background)
    limits.follow_too(upkeep)
    participants = LocalParticipants(loaded)
    coordinators = Coordinators(
        context.ledgers,
        me,
        ids,
        loaded,
        ClusterParticipants(
            participants,
            addresses.for_brokers(tls=context.config.client.tls),
            context.as_client,
            context.live.options(TransactionOptions),
        ),
        context.live.options(TransactionOptions),
        context.background,
        wall_clock_ms,
    )
    schemas = SchemaRegistry(
        context.metadata, catalog, context.live.options(SchemaOptions), _schemas_root(context)
    )
    return TopicParts(catalog, schemas, limits, loaded, upkeep, participants, coordinators)


def _schemas_root(context: BrokerContext) -> str:
    on_bookkeeper = context.config.storage.bookkeeper_metadata is not None
    return paths.OWN_SCHEMAS if on_bookkeeper else paths.SCHEMAS


def _listener(context: BrokerContext, bundles: BundleParts, topics: TopicParts) -> ClientListener:
    authentication = context.config.authentication
    services = Services(
        topics=topics.loaded,
        namespaces=bundles.namespaces,
        catalog=topics.catalog,
        schemas=topics.schemas,
        security=context.security,
        transactions=topics.coordinators,
        participants=topics.participants,
        system_topics=context.system_topics,
    )
    options = replace(
        context.config.connection,
        refresh_check_s=authentication.refresh_check_s,
        authenticate_original=authentication.authenticate_original,
    )
    return ClientListener(services, options, context.background)
