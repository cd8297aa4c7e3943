"""What a broker reads from broker.conf."""

from dataclasses import dataclass, field

from counterpoise.broker.bundles.options import StateChannelOptions
from counterpoise.broker.bundles.shedding_options import THRESHOLD_SHEDDER, SheddingConfig
from counterpoise.broker.connection.ports import ConnectionConfig
from counterpoise.broker.limits.options import RateOptions
from counterpoise.broker.load.config import LoadReportConfig
from counterpoise.broker.namespaces.auto_creation import (
    AutoTopicCreation,
    CreationLimits,
    ForcedDeletion,
)
from counterpoise.broker.schemas.rules import SchemaOptions
from counterpoise.broker.topic.options import TopicOptions
from counterpoise.broker.transactions.options import TransactionOptions
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.registry import PLACEMENTS
from counterpoise.decide.splitting.options import SplitOptions
from counterpoise.names.options import INT64_MAX, ConfigError, option
from counterpoise.ownership.protocols import PROTOCOLS
from counterpoise.security.options import (
    AUTHORIZER,
    AuthenticationOptions,
    AuthorizationOptions,
    ClientOptions,
    TlsOptions,
)
from counterpoise.storage.options import StorageOptions


@dataclass(frozen=True, slots=True)
class MetricsOptions:
    """Settings of which bundles, topics and consumers have metrics of their own."""

    bundles: bool = option(True, "exposeBundlesMetricsInPrometheus", dynamic=True)
    """Whether each bundle has metrics of its own (Pulsar's default is false, and its metrics do not
    show the loads by which bundles are moved)."""
    topics: bool = option(True, "exposeTopicLevelMetricsInPrometheus")
    """Whether each topic and subscription has metrics of its own, or only their namespace."""
    consumers: bool = option(False, "exposeConsumerLevelMetricsInPrometheus")
    """Whether each consumer has metrics of its own, if topics have."""


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """The settings of one broker, under Pulsar's own names."""

    cluster_name: str = option("standalone", "clusterName")
    """The cluster this broker belongs to."""
    advertised_address: str = option("localhost", "advertisedAddress")
    """The host that clients and other brokers reach this broker at."""
    bind_address: str = option("127.0.0.1", "bindAddress")
    """The address that the ports of the binary protocol and of the admin API listen on."""
    advertised_listeners: tuple[str, ...] = option((), "advertisedListeners")
    """Further addresses for clients that name a listener: name:pulsar://host:port, …."""
    internal_listener_name: str = option("", "internalListenerName")
    """The one of advertisedListeners for brokers, and for clients that name none; blank: the
    first."""
    bind_addresses: tuple[str, ...] = option((), "bindAddresses")
    """Additional sockets to listen on, each as listener:pulsar://host:port; its clients get the
    addresses of that listener."""
    broker_service_port: int | None = option(
        6650, "brokerServicePort", low=0, high=65535, blank_is_none=True
    )
    """The binary protocol's port; 0 takes a free one, blank opens none."""
    broker_service_port_tls: int | None = option(
        None, "brokerServicePortTls", kind=int, low=0, high=65535, blank_is_none=True
    )
    """The binary protocol's port for TLS; 0 takes a free one, blank opens none."""
    web_service_port: int | None = option(
        8080, "webServicePort", low=0, high=65535, blank_is_none=True
    )
    """The admin API's port, part of the broker's id; 0 takes a free one, blank opens none."""
    web_service_port_tls: int | None = option(
        None, "webServicePortTls", kind=int, low=0, high=65535, blank_is_none=True
    )
    """The admin API's port for TLS, part of the broker's id where there is no plain one."""
    http_connections_max: int = option(2048, "maxHttpServerConnections", "connections", low=0)
    """How many connections the admin API has at most; more are closed at once (0: no limit)."""
    http_requests_limited: bool = option(False, "httpRequestsLimitEnabled")
    """Whether the admin API serves at most httpRequestsMaxPerSecond, and answers 429 beyond it."""
    http_requests_per_s: float = option(100.0, "httpRequestsMaxPerSecond", "requests/s", low=1.0)
    """How many requests a second the admin API answers, if httpRequestsLimitEnabled."""
    metadata_store_url: str = option("memory:", "metadataStoreUrl")
    """The URL of the cluster's metadata store."""
    metadata_store_session_timeout_ms: int = option(
        30000, "metadataStoreSessionTimeoutMillis", "ms", low=100
    )
    """How long a broker may be silent before its session with the metadata store ends, and others
    take its bundles over."""
    metadata_store_operation_timeout_s: int = option(
        30, "metadataStoreOperationTimeoutSeconds", "s", low=1
    )
    """How long the metadata store may take to answer before an operation fails."""
    default_number_of_namespace_bundles: int = option(
        4, "defaultNumberOfNamespaceBundles", "bundles", low=1, dynamic=True
    )
    """How many bundles a namespace gets whose creation names no number."""
    namespace_bundle_unloading_timeout_ms: int = option(
        60000, "namespaceBundleUnloadingTimeoutMs", "ms", low=1, high=INT64_MAX, dynamic=True
    )
    """How long an unload waits for the bundle's topics to close before it releases the bundle
    anyway."""
    load_balancer_enabled: bool = option(True, "loadBalancerEnabled")
    """Whether load is reported, averaged and shed, and bundles are placed by it; if false, brokers
    run no load task, and the broker that gets an unowned bundle's lookup takes the bundle."""
    auto_topic_creation: AutoTopicCreation = field(default_factory=AutoTopicCreation)
    creation_limits: CreationLimits = field(default_factory=CreationLimits)
    forced_deletion: ForcedDeletion = field(default_factory=ForcedDeletion)
    load_report: LoadReportConfig = field(default_factory=LoadReportConfig)
    connection: ConnectionConfig = field(default_factory=ConnectionConfig)
    filters: FilterOptions = field(default_factory=FilterOptions)
    placement: PlacementOptions = field(default_factory=PlacementOptions)
    splitting: SplitOptions = field(default_factory=SplitOptions)
    shedding: SheddingConfig = field(default_factory=SheddingConfig)
    topics: TopicOptions = field(default_factory=TopicOptions)
    schemas: SchemaOptions = field(default_factory=SchemaOptions)
    transactions: TransactionOptions = field(default_factory=TransactionOptions)
    rates: RateOptions = field(default_factory=RateOptions)
    storage: StorageOptions = field(default_factory=StorageOptions)
    ownership: StateChannelOptions = field(default_factory=StateChannelOptions)
    metrics: MetricsOptions = field(default_factory=MetricsOptions)
    tls: TlsOptions = field(default_factory=TlsOptions)
    authentication: AuthenticationOptions = field(default_factory=AuthenticationOptions)
    authorization: AuthorizationOptions = field(default_factory=AuthorizationOptions)
    client: ClientOptions = field(default_factory=ClientOptions)


def check_supported(config: BrokerConfig, started: BrokerConfig | None = None) -> None:
    """Raise `ConfigError` for a value that Pulsar knows and this broker does not support.

    ``started``: the settings at the start of a broker that runs already. Those that have changed
    since may name built-in strategies only, and no other load manager.
    """
    manager = config.filters.load_manager_class
    if manager not in PROTOCOLS:
        use = " or ".join(PROTOCOLS)
        raise ConfigError("loadManagerClassName", f"{manager} is not supported; use {use}")
    if started is not None and manager != started.filters.load_manager_class:
        raise ConfigError(
            "loadManagerClassName",
            f"brokers cannot change to {manager} while they run: write it in the broker.conf of "
            "each and restart them",
        )
    PLACEMENTS.built_in(config.placement.strategy)
    strategy = config.shedding.strategy
    if strategy != THRESHOLD_SHEDDER:
        # Imported here: most brokers shed by the default, and most do not lead.
        from counterpoise.decide.shedding.registry import SHEDDERS

        at_start = started is None or strategy == started.shedding.strategy
        (SHEDDERS.find if at_start else SHEDDERS.built_in)(strategy)
    bookkeeper = config.storage.bookkeeper_metadata
    if bookkeeper not in (None, config.metadata_store_url):
        raise ConfigError(
            "ledgerStoreUrl",
            f"the topics of a cluster are listed in its metadata store: use "
            f"metadata-store:{config.metadata_store_url} with "
            f"metadataStoreUrl={config.metadata_store_url}, not {config.storage.url}",
        )
    if config.authorization.provider != AUTHORIZER:
        raise ConfigError(
            "authorizationProvider",
            f"{config.authorization.provider} is not supported; use {AUTHORIZER}",
        )
