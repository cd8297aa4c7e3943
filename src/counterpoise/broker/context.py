"""What a broker is built from: its settings, its stores, and primitives that its parts share."""

import logging
from dataclasses import dataclass
from typing import Final

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.base.cluster_key import ClusterKey, SystemTopicGuard
from counterpoise.broker.bundles.tally import BundleTally
from counterpoise.broker.config import BrokerConfig, check_supported
from counterpoise.broker.live import LiveSettings
from counterpoise.broker.load import SharedProcess
from counterpoise.broker.namespaces.policies import Policies
from counterpoise.metadata import MetadataStore
from counterpoise.names.load_managers import EXTENSIBLE
from counterpoise.security.authentication import Authentication
from counterpoise.security.authorization import Authorization
from counterpoise.security.client import ClientSecurity
from counterpoise.security.gate import Security
from counterpoise.security.options import AuthorizationOptions
from counterpoise.storage.ledger_store import LedgerStore

CLOSE_MARGIN_S: Final = 10.0
"""Seconds that closing a bundle's topics may take beyond ``namespaceBundleUnloadingTimeoutMs``."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BrokerContext:
    """What every part of one broker is built from: stores, settings, security, background tasks."""

    metadata: MetadataStore
    ledgers: LedgerStore
    process: SharedProcess
    policies: Policies
    live: LiveSettings
    background: BackgroundTasks
    tally: BundleTally
    as_client: ClientSecurity
    """The credentials and TLS of this broker as a client of the others."""
    cluster_key: ClusterKey
    """The secret by which brokers recognise each other's producers on the system topics."""
    security: Security
    """Authentication and authorization of this broker's clients."""
    system_topics: SystemTopicGuard
    """Decides which clients may write to the brokers' system topics."""

    @classmethod
    def of(
        cls,
        config: BrokerConfig,
        metadata: MetadataStore,
        ledgers: LedgerStore,
        process: SharedProcess,
    ) -> "BrokerContext":
        """Build the context of a broker with these settings; raises `ConfigError`."""
        check_supported(config)
        policies = Policies(metadata, ledgers.topics)
        live = LiveSettings(config, metadata, policies)
        authorization = Authorization(live.options(AuthorizationOptions), policies)
        key, opens = ClusterKey(metadata), config.ownership.clients_may_write
        if opens:
            _log.warning(
                "every client may write to the topics of pulsar/system, and so stop bundles: set "
                "systemTopicsWritableByClients=false"
            )
        return cls(
            metadata=metadata,
            ledgers=ledgers,
            process=process,
            policies=policies,
            live=live,
            background=BackgroundTasks(),
            tally=BundleTally(),
            as_client=ClientSecurity(config.client),
            cluster_key=key,
            security=Security(Authentication(config.authentication), authorization),
            system_topics=SystemTopicGuard(key, authorization, open_to_clients=opens),
        )

    @property
    def config(self) -> BrokerConfig:
        """The settings in use: those of the start, with later changes to dynamic ones."""
        return self.live.config

    @property
    def is_extensible(self) -> bool:
        """Whether the broker runs the extensible load manager."""
        return self.config.filters.load_manager_class == EXTENSIBLE

    def close_topics_within_s(self) -> float:
        """The longest time that closing a bundle's topics may take, in seconds."""
        return self.config.namespace_bundle_unloading_timeout_ms / 1000 + CLOSE_MARGIN_S
