"""Chooses the broker for a bundle without an owner: the filters, then the placement strategy."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from random import Random
from typing import Any, Protocol

from counterpoise.broker.load.cluster_load import ClusterLoad
from counterpoise.broker.namespaces.policies import Policies
from counterpoise.decide.balancing.policies import PlacementPolicies, count_namespaces
from counterpoise.decide.filters import BrokerFacts, FilterOptions, IsolationPolicy
from counterpoise.decide.filters.anti_affinity import bundles_in_group
from counterpoise.decide.placement import PLACEMENTS, PlacementOptions
from counterpoise.decide.placement.selection import (
    Chooser,
    Selection,
    Surroundings,
    select_extensible,
    select_modular,
)
from counterpoise.load.fields import LoadDataError
from counterpoise.names.bundle import BundleName
from counterpoise.names.namespace import NamespaceName

log = logging.getLogger(__name__)


class Placer(Protocol):
    """Chooses a broker for a bundle."""

    async def choose(self, bundle: BundleName, without: Collection[str] = ()) -> str | None:
        """The broker's id, or None when there is none to choose.

        Brokers in ``without`` are leaving and get nothing.
        """
        ...


class LoadPlacer:
    """Chooses by policies, evenness and load (``ModularLoadManagerImpl.selectBroker``)."""

    def __init__(
        self,
        load: ClusterLoad,
        policies: Policies,
        *,
        cluster: str,
        filters: Callable[[], FilterOptions],
        placement: Callable[[], PlacementOptions],
        rng: Random,
        usage_ema: Callable[[], Mapping[str, float]] | None = None,
    ) -> None:
        """``usage_ema``: each broker's ``weightedMaxEMA``, under the extensible load manager."""
        self._load = load
        self._policies = policies
        self._cluster = cluster
        self._filters = filters
        self._placement = placement
        self._rng = rng
        self._usage_ema = usage_ema
        self._strategy = PLACEMENTS.built_in(placement().strategy)
        self._memory: Any = self._strategy.initial_memory()
        self._turn = asyncio.Lock()

    async def choose(self, bundle: BundleName, without: Collection[str] = ()) -> str | None:
        """See `Placer.choose`."""
        # One at a time: each choice counts on what the one before assigned.
        async with self._turn:
            return await self._choose(bundle, without)

    async def _choose(self, bundle: BundleName, without: Collection[str]) -> str | None:
        await self._load.refresh()
        self._memory = self._strategy.forget(self._memory, self._load.reports.keys())
        namespace = str(bundle.namespace)
        around = (await self.policies_of([namespace])).around(namespace, without)
        selection = self._select(str(bundle), around)
        log.info("%s goes to %s: %s", bundle, selection.broker, selection.placement.reason)
        if selection.broker is not None:
            self._load.assign(str(bundle), selection.broker)
        return selection.broker

    def _select(self, bundle: str, around: Surroundings) -> Selection[Any]:
        if self._usage_ema is not None:
            return select_extensible(
                bundle, around, self._usage_ema(), self._filters(), self._placement(), self._rng
            )
        chooser = Chooser(self._strategy, self._load.view(), self._placement(), self._rng)
        selection: Selection[Any] = select_modular(
            bundle, around, chooser, self._memory, self._filters()
        )
        self._memory = selection.placement.memory
        return selection

    async def policies_of(self, namespaces: Iterable[str]) -> PlacementPolicies:
        """What placing bundles of these namespaces depends on besides load."""
        held = self._load.namespaces()
        extensible = self._usage_ema is not None
        return PlacementPolicies(
            facts={broker_id: self._facts(broker_id) for broker_id in self._load.reports},
            held=held,
            isolation=await self._isolation(),
            groups=await self._groups(namespaces, held),
            domains=await self._domains(),
            filters=self._filters(),
            count=bundles_in_group if extensible else count_namespaces,
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

    async def _domains(self) -> dict[str, str]:
        if not self._filters().failure_domains:
            return {}
        return await self._policies.failure_domains(self._cluster)

    async def _isolation(self) -> dict[str, IsolationPolicy]:
        policies = {}
        stored = await self._policies.isolation_policies(self._cluster) or {}
        for name, value in stored.items():
            try:
                policies[name] = IsolationPolicy.from_json(value, name)
            except LoadDataError as error:
                log.warning("ignoring the namespace isolation policy %s: %s", name, error)
        return policies

    async def _groups(
        self, namespaces: Iterable[str], held: Mapping[str, Mapping[str, int]]
    ) -> dict[str, str]:
        """The anti-affinity group of each that is in one, and of whatever brokers serve then."""
        groups: dict[str, str] = {}
        for name in dict.fromkeys(namespaces):
            if group := await self._policies.anti_affinity_group(NamespaceName.parse(name)):
                groups[name] = group
        if groups:
            for name in sorted(set().union(*held.values()) - groups.keys()):
                if other := await self._policies.anti_affinity_group(NamespaceName.parse(name)):
                    groups[name] = other
        return groups
