"""Reads what placing bundles depends on besides load: isolation, anti-affinity, failure domains."""

import logging
from collections.abc import Callable, Iterable

from counterpoise.broker.namespaces.policies import Policies
from counterpoise.decide.filters.isolation import IsolationPolicy
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.load.fields import LoadDataError
from counterpoise.names.namespace import NamespaceName

log = logging.getLogger(__name__)


class PlacementPolicyReader:
    """Reads the policies about which broker may own a bundle; raises `StoreUnavailable`."""

    def __init__(
        self, policies: Policies, cluster: str, filters: Callable[[], FilterOptions]
    ) -> None:
        self._policies = policies
        self._cluster = cluster
        self.filters = filters

    async def domains(self) -> dict[str, str]:
        """The failure domain of each broker by its id; empty where domains are not enabled."""
        if not self.filters().failure_domains:
            return {}
        return await self._policies.failure_domains(self._cluster)

    async def isolation(self) -> dict[str, IsolationPolicy]:
        """The namespace isolation policies by name."""
        policies = {}
        stored = await self._policies.isolation_policies(self._cluster).get() or {}
        for name, value in stored.items():
            try:
                policies[name] = IsolationPolicy.from_json(value, name)
            except LoadDataError as error:
                log.warning("ignoring the namespace isolation policy %s: %s", name, error)
        return policies

    async def groups(self, namespaces: Iterable[str]) -> dict[str, str]:
        """The anti-affinity group of each of these namespaces that has one."""
        groups: dict[str, str] = {}
        for name in dict.fromkeys(namespaces):
            if group := await self._policies.anti_affinity_group(NamespaceName.parse(name)):
                groups[name] = group
        return groups
