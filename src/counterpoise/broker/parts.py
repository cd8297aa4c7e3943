"""Dataclasses that hold the parts of a broker, grouped by purpose; `assembly` builds them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from counterpoise.broker.base.addresses import Addresses
from counterpoise.broker.bundle_topics import BundleTopics
from counterpoise.broker.bundles.auto_split import AutoSplit
from counterpoise.broker.bundles.election import LeaderElection
from counterpoise.broker.bundles.moves import BundleMoves
from counterpoise.broker.bundles.namespace_bundles import NamespaceBundleCache
from counterpoise.broker.bundles.ownership import BundleOwnership
from counterpoise.broker.bundles.placement import PolicyPlacer
from counterpoise.broker.bundles.repairs import OwnershipRepairs
from counterpoise.broker.bundles.service import NamespaceService
from counterpoise.broker.bundles.shedding import LeaderShedding
from counterpoise.broker.bundles.split_points import SplitPointFinder
from counterpoise.broker.connection.client_listener import ClientListener
from counterpoise.broker.context import BrokerContext
from counterpoise.broker.leadership import Leadership
from counterpoise.broker.limits.policies import LimitPolicies
from counterpoise.broker.load import BundleRates, LoadReporter
from counterpoise.broker.load.cluster_load import ClusterLoad
from counterpoise.broker.load.keeper import LoadKeeper
from counterpoise.broker.load.registry import BrokerRegistry
from counterpoise.broker.namespaces.catalog import TopicCatalog
from counterpoise.broker.schemas.registry import SchemaRegistry
from counterpoise.broker.topic.topics import TopicRegistry
from counterpoise.broker.topic.transaction_ends import LocalParticipants
from counterpoise.broker.topic.upkeep import TopicUpkeep
from counterpoise.broker.transactions.coordinators import Coordinators
from counterpoise.metadata import MetadataStore
from counterpoise.ownership.port import BundleProtocol

if TYPE_CHECKING:
    from counterpoise.broker.bundles.topic_records import TopicRecords
    from counterpoise.broker.load.load_data import LoadDataExchange


@dataclass(frozen=True, slots=True)
class OwnershipParts:
    """A broker's parts for bundle ownership and leadership."""

    election: LeaderElection
    leadership: Leadership
    cache: NamespaceBundleCache
    records: "TopicRecords | None"
    """The topic with bundle states, under the extensible load manager; None otherwise."""
    store: MetadataStore
    """The store of bundle states: ``records``, or the metadata store."""
    protocol: BundleProtocol[Any]
    topics: BundleTopics
    bundles: BundleOwnership


@dataclass(frozen=True, slots=True)
class LoadParts:
    """A broker's parts that know the cluster's load."""

    registry: BrokerRegistry
    cluster: ClusterLoad
    rates: BundleRates
    """The rates of this broker's topics and bundles."""
    exchange: "LoadDataExchange | None"
    """The load data that brokers publish under the extensible load manager; None otherwise."""


@dataclass(frozen=True, slots=True)
class BundleParts:
    """A broker's parts for lookup, placement, moves, splits and repair of bundles."""

    placer: PolicyPlacer
    repairs: OwnershipRepairs
    split_points: SplitPointFinder
    moves: BundleMoves
    namespaces: NamespaceService


@dataclass(frozen=True, slots=True)
class TopicParts:
    """A broker's parts for topics, with their schemas, limits and transactions."""

    catalog: TopicCatalog
    schemas: SchemaRegistry
    limits: LimitPolicies
    loaded: TopicRegistry
    upkeep: TopicUpkeep
    participants: LocalParticipants
    coordinators: Coordinators


@dataclass(frozen=True, slots=True)
class BalancingParts:
    """A broker's parts that report its load and balance the cluster's."""

    reporter: LoadReporter
    keeper: LoadKeeper
    auto_split: AutoSplit
    shedding: LeaderShedding


@dataclass(frozen=True, slots=True)
class BrokerParts:
    """All parts of a broker."""

    context: BrokerContext
    addresses: Addresses
    ownership: OwnershipParts
    load: LoadParts
    bundles: BundleParts
    topics: TopicParts
    listener: ClientListener
    balancing: BalancingParts
