"""Chooses the broker for a bundle without an owner: the filters, then the placement strategy."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from random import Random
from typing import Any, Protocol

from counterpoise.broker.bundles.placement_policies import PlacementPolicyReader
from counterpoise.broker.load.cluster_load import ClusterLoad
from counterpoise.decide.balancing.policies import PlacementPolicies
from counterpoise.decide.filters.facts import BrokerFacts
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.registry import PLACEMENTS
from counterpoise.decide.placement.selection import Chooser, Selection, select_modular
from counterpoise.names.bundle import BundleName

log = logging.getLogger(__name__)


class Placer(Protocol):
    """Chooses a broker for a bundle."""

    async def choose(self, bundle: BundleName, without: Collection[str] = ()) -> str | None:
        """Return the chosen broker's id, None if there is none; never one of ``without``."""


class PolicyPlacer(Placer, Protocol):
    """A `Placer` that also gives the placement policies by which it chooses."""

    async def policies_of(self, namespaces: Iterable[str]) -> PlacementPolicies:
        """Isolation policies, anti-affinity groups and domains that concern these namespaces."""


class LoadPlacer:
    """Chooses a broker by policies, counts and load (``ModularLoadManagerImpl.selectBroker``)."""

    def __init__(
        self,
        load: ClusterLoad,
        policies: PlacementPolicyReader,
        *,
        placement: Callable[[], PlacementOptions],
        rng: Random,
    ) -> None:
        self._load = load
        self._policies = policies
        self._placement = placement
        self._rng = rng
        self._strategy = PLACEMENTS.built_in(placement().strategy)
        self._memory: Any = self._strategy.initial_memory()
        self._turn = asyncio.Lock()

    async def choose(self, bundle: BundleName, without: Collection[str] = ()) -> str | None:
        """The id of the chosen broker; None if there is none."""
        # One at a time: each choice takes into account what the one before assigned.
        async with self._turn:
            return await self._choose(bundle, without)

    async def _choose(self, bundle: BundleName, without: Collection[str]) -> str | None:
        await self._load.refresh()
        self._memory = self._strategy.forget(self._memory, self._load.reports.keys())
        namespace = str(bundle.namespace)
        around = (await self.policies_of([namespace])).around(namespace, without)
        chooser = Chooser(self._strategy, self._load.view(), self._placement(), self._rng)
        selection: Selection[Any] = select_modular(
            str(bundle), around, chooser, self._memory, self._policies.filters()
        )
        self._memory = selection.placement.memory
        log.info("%s goes to %s: %s", bundle, selection.broker, selection.placement.reason)
        if selection.broker is not None:
            self._load.assign(str(bundle), selection.broker)
        return selection.broker

    async def policies_of(self, namespaces: Iterable[str]) -> PlacementPolicies:
        """The placement policies of these namespaces."""
        counts = self._load.namespaces()
        groups = await self._policies.groups(namespaces)
        if groups:
            groups |= await self._policies.groups(sorted(set().union(*counts.values())))
        return PlacementPolicies(
            facts={broker_id: self._facts(broker_id) for broker_id in self._load.reports},
            bundle_counts=counts,
            isolation=await self._policies.isolation(),
            groups=groups,
            domains=await self._policies.domains(),
            filters=self._policies.filters(),
        )

    def _facts(self, broker_id: str) -> BrokerFacts:
        report = self._load.reports[broker_id]
        return BrokerFacts(
            load_manager_class=report.load_manager_class_name,
            version=report.broker_version_string,
            persistent_topics=report.persistent_topics_enabled,
            non_persistent_topics=report.non_persistent_topics_enabled,
            topics=report.num_topics,
            preallocated_topics=self._load.assigned.topics(broker_id),
        )
