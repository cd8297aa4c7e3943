"""Namespace isolation policies and failure domains.

Below ``/admin/clusters/<cluster>``: ``namespaceIsolationPolicies`` (``NamespaceIsolationDataImpl``
by name) and ``failureDomain/<domain>`` (``FailureDomainImpl``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from counterpoise.broker.base import paths
from counterpoise.broker.namespaces.policies.records import JsonObject, Records


class Isolation(Records):
    """A cluster's isolation policies and failure domains."""

    async def isolation_policies(self, cluster: str) -> JsonObject | None:
        """The namespace isolation policies by name; None if there never was one."""
        return await self._get(paths.isolation_policies(cluster))

    async def update_isolation_policies(
        self, cluster: str, change: Callable[[JsonObject], Mapping[str, Any]]
    ) -> JsonObject:
        """Change the isolation policies; returns them as they are now."""
        return await self._update(paths.isolation_policies(cluster), change, create=True)

    async def failure_domain_names(self, cluster: str) -> list[str]:
        """The names of the failure domains, sorted."""
        return await self._store.children(paths.failure_domains(cluster))

    async def failure_domain(self, cluster: str, domain: str) -> list[str] | None:
        """The brokers of a failure domain; None if it does not exist."""
        found = await self._get(paths.failure_domain(cluster, domain))
        return None if found is None else [str(each) for each in found.get("brokers") or ()]

    async def failure_domains(self, cluster: str) -> dict[str, str]:
        """Each broker's failure domain; brokers without one are absent."""
        found: dict[str, str] = {}
        for name in await self.failure_domain_names(cluster):
            for broker in await self.failure_domain(cluster, name) or ():
                found[broker] = name
        return found

    async def put_failure_domain(self, cluster: str, domain: str, brokers: Collection[str]) -> None:
        """Create or replace a failure domain."""
        value = {"brokers": sorted(brokers)}
        path = paths.failure_domain(cluster, domain)
        await self._update(path, lambda _: value, create=True)

    async def delete_failure_domain(self, cluster: str, domain: str) -> None:
        """Delete a failure domain; raises `NotFound`."""
        await self._delete(paths.failure_domain(cluster, domain))
