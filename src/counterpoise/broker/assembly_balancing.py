"""Builds the parts of a broker that report its load and balance the cluster's."""

from counterpoise.broker import parts
from counterpoise.broker.base.addresses import Addresses
from counterpoise.broker.bundles.auto_split import AutoSplit
from counterpoise.broker.bundles.bundle_assigner import BundleAssigner
from counterpoise.broker.bundles.shedding import BundleUnloader, LeaderShedding, SheddingSource
from counterpoise.broker.bundles.shedding_options import SheddingConfig
from counterpoise.broker.bundles.split_finders import Finder, OwnFinder, ReportFinder
from counterpoise.broker.bundles.unloaders import AdminUnloader, RecordUnloader
from counterpoise.broker.connection.client_listener import ClientListener
from counterpoise.broker.context import BrokerContext
from counterpoise.broker.load import LoadReporter, ProcessUsage, SampledUsage
from counterpoise.broker.load.config import LoadReportConfig
from counterpoise.broker.load.keeper import LoadKeeper
from counterpoise.broker.load.self_report import TopicCounts, blank_report
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.splitting.options import SplitOptions


def balancing_parts(
    context: BrokerContext,
    addresses: Addresses,
    ownership: parts.OwnershipParts,
    load: parts.LoadParts,
    bundles: parts.BundleParts,
    topics: parts.TopicParts,
    listener: ClientListener,
) -> parts.BalancingParts:
    """Build a broker's balancing parts, from all parts that were built before."""
    live, options = context.live, context.config.load_report

    def usage_every_s() -> float:
        return context.config.load_report.host_usage_minutes * 60.0

    def owned() -> list[str]:
        return [str(bundle) for bundle in ownership.bundles.owned()]

    usage = ProcessUsage(
        listener.traffic, context.process, nic_gbps=options.override_nic_speed_gbps
    )
    reporter = LoadReporter(
        blank_report(context.config.filters, addresses),
        rates=load.rates,
        counts=TopicCounts(topics.loaded, bundles.namespaces).read,
        bundles=owned,
        host=SampledUsage(usage, every_s=usage_every_s),
        publish=load.registry.register,
        config=live.options(LoadReportConfig),
        background=context.background,
        publishes=context.config.load_balancer_enabled and not context.is_extensible,
    )
    keeper = LoadKeeper(
        context.metadata,
        load.cluster,
        me=addresses.broker_id,
        is_leader=ownership.leadership.is_leader,
        config=live.options(LoadReportConfig),
        background=context.background,
    )
    auto_split = AutoSplit(
        addresses.broker_id,
        _split_finder(addresses, ownership, load, bundles, reporter),
        bundles.moves,
        live.options(SplitOptions),
        context.policies,
        context.tally,
    )
    shedding = _shedding(context, addresses, ownership, load, bundles)
    return parts.BalancingParts(reporter, keeper, auto_split, shedding)


def _split_finder(
    addresses: Addresses,
    ownership: parts.OwnershipParts,
    load: parts.LoadParts,
    bundles: parts.BundleParts,
    reporter: LoadReporter,
) -> Finder:
    me = addresses.broker_id
    if load.exchange is None:
        return ReportFinder(load.cluster, ownership.cache, me)
    return OwnFinder(
        me,
        report=reporter.last,
        owned=ownership.bundles.owned,
        splitting=ownership.bundles.splitting,
        bundles=ownership.cache,
        points=bundles.split_points.found,
    )


def _shedding(
    context: BrokerContext,
    addresses: Addresses,
    ownership: parts.OwnershipParts,
    load: parts.LoadParts,
    bundles: parts.BundleParts,
) -> LeaderShedding:
    live, placer = context.live, bundles.placer

    def source() -> SheddingSource:
        # Imported here: only the leader needs it.
        from counterpoise.broker.bundles import shedding_sources as sources

        if load.exchange is None:
            return sources.ReportSheddingSource(
                load.cluster, placer, live.options(PlacementOptions)
            )
        return sources.LoadStoreSheddingSource(
            load.exchange, load.registry, placer, ownership.bundles
        )

    unload: BundleUnloader
    if ownership.protocol.changes_by_record:
        unload = RecordUnloader(BundleAssigner(ownership.bundles), placer)
    else:
        unload = AdminUnloader(
            addresses.broker_id,
            load.registry,
            bundles.moves,
            context.tally,
            security=context.as_client,
            within_s=context.close_topics_within_s,
        )
    return LeaderShedding(
        source,
        unload,
        leads=ownership.leadership.is_connected_leader,
        config=live.options(SheddingConfig),
        background=context.background,
        tally=context.tally,
    )
