"""Chooses the broker for a bundle by the load data of the extensible load manager."""

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from random import Random
from typing import TYPE_CHECKING

from counterpoise.broker.bundles.ownership import BundleOwnership
from counterpoise.broker.bundles.placement_policies import PlacementPolicyReader
from counterpoise.broker.load.registry import BrokerRegistry
from counterpoise.decide.balancing.policies import PlacementPolicies
from counterpoise.decide.filters.anti_affinity import bundles_in_group
from counterpoise.decide.filters.facts import BrokerFacts
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.selection import select_extensible
from counterpoise.load.extensible import BrokerLoadData
from counterpoise.names.bundle import BundleName, namespace_of

if TYPE_CHECKING:
    from counterpoise.broker.load.load_data import LoadDataExchange

log = logging.getLogger(__name__)

_NO_LOAD = BrokerLoadData()


class StorePlacer:
    """Chooses a broker by policies and published load (``ExtensibleLoadManagerImpl.selectAsync``).

    Every broker has one, for the lookups that it answers.
    """

    def __init__(
        self,
        registry: BrokerRegistry,
        stores: "LoadDataExchange",
        ownership: BundleOwnership,
        policies: PlacementPolicyReader,
        *,
        placement: Callable[[], PlacementOptions],
        rng: Random,
    ) -> None:
        self._registry = registry
        self._stores = stores
        self._ownership = ownership
        self._policies = policies
        self._placement = placement
        self._rng = rng

    async def choose(self, bundle: BundleName, without: Collection[str] = ()) -> str | None:
        """The id of the chosen broker; None if there is none."""
        namespace = str(bundle.namespace)
        draining = {*without, *await self._registry.leaving()}
        around = (await self.policies_of([namespace])).around(namespace, draining)
        usage = {broker: load.weighted_max_ema for broker, load in self._stores.brokers.items()}
        filters, placement = self._policies.filters(), self._placement()
        selection = select_extensible(str(bundle), around, usage, filters, placement, self._rng)
        log.info("%s goes to %s: %s", bundle, selection.broker, selection.placement.reason)
        return selection.broker

    async def policies_of(self, namespaces: Iterable[str]) -> PlacementPolicies:
        """The placement policies of these namespaces."""
        groups = await self._policies.groups(namespaces)
        counts: Mapping[str, Mapping[str, int]] = await self._bundle_counts() if groups else {}
        if groups:
            groups |= await self._policies.groups(sorted(set().union(*counts.values())))
        return PlacementPolicies(
            facts=await self._facts(),
            bundle_counts=counts,
            isolation=await self._policies.isolation(),
            groups=groups,
            domains=await self._policies.domains(),
            filters=self._policies.filters(),
            count=bundles_in_group,
        )

    async def _facts(self) -> dict[str, BrokerFacts]:
        return {
            broker_id: BrokerFacts(
                load_manager_class=lookup_data.load_manager_class_name,
                version=lookup_data.broker_version_string,
                persistent_topics=lookup_data.persistent_topics_enabled,
                non_persistent_topics=lookup_data.non_persistent_topics_enabled,
                topics=self._stores.brokers.get(broker_id, _NO_LOAD).topics,
            )
            for broker_id, lookup_data in (await self._registry.reports()).items()
        }

    async def _bundle_counts(self) -> dict[str, Counter[str]]:
        """How many bundles of each namespace each broker owns, by the state channel."""
        counts = defaultdict[str, Counter[str]](Counter)
        for bundle, where in (await self._ownership.locations()).items():
            broker = where.successor or (where.owner.broker_id if where.owner is not None else None)
            if broker is not None:
                counts[broker][namespace_of(bundle)] += 1
        return counts
