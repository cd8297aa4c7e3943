"""Clusters: ``/admin/clusters/<name>``, ``ClusterData``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from counterpoise.broker import paths
from counterpoise.broker.namespaces.policies.records import JsonObject, Records


class Clusters(Records):
    """The clusters that this one knows, itself included."""

    async def clusters(self) -> list[str]:
        """Their names, sorted."""
        return await self._store.children(paths.CLUSTERS)

    async def cluster(self, name: str) -> JsonObject | None:
        """A cluster's ``ClusterData``."""
        return await self._get(paths.cluster(name))

    async def put_cluster(self, name: str, data: Mapping[str, Any], *, create: bool) -> None:
        """Create a cluster, or replace the data of one."""
        await self._put(paths.cluster(name), data, create=create)

    async def delete_cluster(self, name: str) -> None:
        """Forget a cluster."""
        await self._delete(paths.cluster(name))

    async def isolation_policies(self, cluster: str) -> JsonObject:
        """A cluster's namespace isolation policies by name (``NamespaceIsolationDataImpl``)."""
        return await self._get(paths.isolation_policies(cluster)) or {}

    async def put_isolation_policies(self, cluster: str, policies: Mapping[str, Any]) -> None:
        """Replace a cluster's namespace isolation policies."""
        path = paths.isolation_policies(cluster)
        await self._put(path, policies, create=not await self._store.exists(path))

    async def failure_domains(self, cluster: str) -> dict[str, str]:
        """Which failure domain each broker is in; a broker in none is absent."""
        found: dict[str, str] = {}
        for name in await self._store.children(paths.failure_domains(cluster)):
            domain = await self._get(f"{paths.failure_domains(cluster)}/{name}") or {}
            found.update(dict.fromkeys(domain.get("brokers") or (), name))
        return found
