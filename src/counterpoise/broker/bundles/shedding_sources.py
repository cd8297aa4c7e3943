"""What the leader sheds by: brokers' reports, or the load data topics of PIP-192."""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from counterpoise.broker.base.clock import wall_clock_ms
from counterpoise.broker.bundles.ownership import BundleOwnership
from counterpoise.broker.bundles.placement import PolicyPlacer
from counterpoise.broker.bundles.shedding_options import SheddingConfig
from counterpoise.broker.load.cluster_load import ClusterLoad
from counterpoise.broker.load.load_data import LoadDataExchange
from counterpoise.broker.load.registry import BrokerRegistry
from counterpoise.decide.balancing.policies import PlacementPolicies, bundle_rules
from counterpoise.decide.balancing.round import BalancingStrategy, Shed
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.registry import PLACEMENTS
from counterpoise.decide.shedding.registry import SHEDDERS
from counterpoise.decide.shedding.strategy import Shedder
from counterpoise.load.store_view import BundleRules, LoadStoreView
from counterpoise.load.view import ClusterView, bundle_namespace
from counterpoise.names.bundle import BundleName
from counterpoise.names.callbacks import MillisecondClock
from counterpoise.names.errors import InvalidName

log = logging.getLogger(__name__)


class _Choice:
    """Chooses the shedding strategy: the one that the settings name, or else a default one.

    The default is used if the named one reads data (``view``) that only the other load manager has.
    """

    def __init__(self, view: type[Any], otherwise: str) -> None:
        self._view: Final = view
        self._otherwise: Final = SHEDDERS.built_in(otherwise)
        self._logged: str | None = None

    def of(self, config: SheddingConfig) -> Shedder[Any, Any, Any]:
        """The named strategy, or this load manager's default one."""
        configured = SHEDDERS.find(config.strategy)
        if configured.view is self._view:
            return configured
        if self._logged != config.strategy:
            self._logged = config.strategy
            log.info(
                "%s sheds load: %s is not for this load manager",
                self._otherwise.name,
                configured.name,
            )
        return self._otherwise


class ReportSheddingSource:
    """Under the modular load manager: shedding reads brokers' reports and bundles' averages."""

    def __init__(
        self, load: ClusterLoad, placer: PolicyPlacer, placement: Callable[[], PlacementOptions]
    ) -> None:
        self._load = load
        self._placer = placer
        self._placement = placement
        self._choice = _Choice(ClusterView, "ThresholdShedder")

    def strategy(self, config: SheddingConfig) -> BalancingStrategy:
        """The configured shedding strategy, built with its settings."""
        shedder, placement = self._choice.of(config), self._placement()
        return BalancingStrategy(
            shedder=shedder,
            options=config.options_of(shedder.options),
            placement=PLACEMENTS.built_in(placement.strategy),
            placement_options=placement,
            balance=config.balance,
        )

    async def view(self, recent: Collection[str], unloaded: Mapping[str, int]) -> ClusterView:
        """The cluster's load now, as the strategy reads it."""
        del unloaded
        await self._load.refresh()
        return self._load.view_now(recent)

    async def policies(self, made: Shed) -> PlacementPolicies | None:
        """The placement policies for bundles to be shed; None if no destination is to be chosen."""
        bundles = [each.bundle for each in made.decisions]
        return await self._placer.policies_of(map(bundle_namespace, bundles)) if bundles else None


class LoadStoreSheddingSource:
    """Under the extensible load manager: shedding reads the load data that brokers published."""

    def __init__(
        self,
        stores: LoadDataExchange,
        registry: BrokerRegistry,
        placer: PolicyPlacer,
        ownership: BundleOwnership,
        clock_ms: MillisecondClock = wall_clock_ms,
    ) -> None:
        self._stores = stores
        self._registry = registry
        self._placer = placer
        self._ownership = ownership
        self._clock_ms = clock_ms
        self._choice = _Choice(LoadStoreView, "TransferShedder")

    def strategy(self, config: SheddingConfig) -> BalancingStrategy:
        """The configured shedding strategy, built with its settings."""
        shedder = self._choice.of(config)
        options = config.options_of(shedder.options)
        return BalancingStrategy(shedder=shedder, options=options, balance=config.balance)

    async def view(self, recent: Collection[str], unloaded: Mapping[str, int]) -> LoadStoreView:
        """The cluster's load now, as the strategy reads it."""
        alive = await self._registry.active()
        top = {broker: data for broker, data in self._stores.top_bundles.items() if broker in alive}
        return LoadStoreView.of(
            self._clock_ms(),
            {broker: data for broker, data in self._stores.brokers.items() if broker in alive},
            top,
            available=alive,
            recently_unloaded=dict.fromkeys(recent),
            unloaded_brokers={broker: at for broker, at in unloaded.items() if broker in alive},
            rules=await self._rules(
                [each.bundle_name for data in top.values() for each in data.top_bundles_load_data]
            ),
        )

    async def policies(self, made: Shed) -> PlacementPolicies | None:
        """None: the round chooses no destinations (`TransferShedder` has done so)."""
        del made
        return None

    async def _rules(self, bundles: Collection[str]) -> BundleRules:
        """The owners of these bundles in the state channel, and the brokers that policies allow."""
        policies = await self._placer.policies_of({bundle_namespace(bundle) for bundle in bundles})
        owners = {bundle: await self._owner(bundle) for bundle in bundles}
        return bundle_rules(policies, bundles, owners)

    async def _owner(self, bundle: str) -> str | None:
        try:
            where = await self._ownership.locate(BundleName.parse(bundle))
        except InvalidName:
            return None
        is_decided = where.owner is not None and not where.changing
        return where.owner.broker_id if where.owner is not None and is_decided else None
