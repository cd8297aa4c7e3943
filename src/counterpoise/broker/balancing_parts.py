"""The parts of a broker that balance load: what splits bundles, and what sheds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.bundles.auto_split import AutoSplit
from counterpoise.broker.bundles.election import LeaderElection
from counterpoise.broker.bundles.moves import BundleMoves
from counterpoise.broker.bundles.namespace_bundles import NamespaceBundleCache
from counterpoise.broker.bundles.ownership import BundleOwnership
from counterpoise.broker.bundles.placement import LoadPlacer
from counterpoise.broker.bundles.service import NamespaceService
from counterpoise.broker.bundles.shedding import LeaderShedding, SheddingSource
from counterpoise.broker.bundles.split_finders import Finder, OwnFinder, ReportFinder
from counterpoise.broker.bundles.split_points import SplitPointFinder
from counterpoise.broker.bundles.tally import BundleTally
from counterpoise.broker.bundles.unload_orders import UnloadOrders
from counterpoise.broker.config import BrokerConfig
from counterpoise.broker.load import LoadReporter
from counterpoise.broker.load.cluster_load import ClusterLoad
from counterpoise.broker.load.registry import BrokerRegistry
from counterpoise.metadata import MetadataStore
from counterpoise.security.client import ClientSecurity

if TYPE_CHECKING:
    from counterpoise.broker.load.load_data import LoadDataExchange

DRAIN_MARGIN_S: Final = 10.0
"""What draining a bundle may take beyond the time its topics have to close."""


class BalancingParts:
    """How they are made, and of which others."""

    id: str
    """``host:webPort``."""
    as_client: ClientSecurity
    """The credentials and TLS of this broker as a client of the others."""
    metadata: MetadataStore
    background: BackgroundTasks
    tally: BundleTally
    registry: BrokerRegistry
    election: LeaderElection
    bundles: NamespaceBundleCache
    ownership: BundleOwnership
    namespaces: NamespaceService
    reporter: LoadReporter
    load: ClusterLoad
    load_data: LoadDataExchange | None = None
    """Under the extensible load manager: what brokers publish of their load."""

    @property
    def config(self) -> BrokerConfig:
        """The settings that hold now."""
        raise NotImplementedError

    def _auto_split(self, moves: BundleMoves, points: SplitPointFinder) -> AutoSplit:
        finder: Finder = ReportFinder(self.load, self.bundles, self.id)
        if self.load_data is not None:
            finder = OwnFinder(
                self.id,
                report=lambda: self.reporter.report,
                owned=self.ownership.owned,
                splitting=self.ownership.splitting,
                bundles=self.bundles,
                points=points.found,
            )
        return AutoSplit(self.id, finder, moves, lambda: self.config.splitting, self.tally)

    def _shedding(self, placer: LoadPlacer) -> LeaderShedding:
        def source() -> SheddingSource:
            # Imported here: only the leader needs it.
            from counterpoise.broker.bundles.shedding_sources import (
                LoadStoreSheddingSource,
                ReportSheddingSource,
            )

            if self.load_data is None:
                return ReportSheddingSource(self.load, placer, lambda: self.config.placement)
            return LoadStoreSheddingSource(self.load_data, self.load, placer, self.ownership)

        return LeaderShedding(
            source,
            UnloadOrders(
                self.id,
                self.registry,
                lambda: self.namespaces,
                self.tally,
                security=self.as_client,
                within_s=self._drain_within_s,
            ),
            leads=lambda: self.election.is_leader and self.metadata.connected,
            config=lambda: self.config.shedding,
            background=self.background,
            tally=self.tally,
        )

    def _drain_within_s(self) -> float:
        return self.config.namespace_bundle_unloading_timeout_ms / 1000 + DRAIN_MARGIN_S
