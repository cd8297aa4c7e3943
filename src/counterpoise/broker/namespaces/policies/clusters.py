"""Clusters: ``/admin/clusters/<name>``, ``ClusterData``."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from counterpoise.broker.base import paths
from counterpoise.broker.namespaces.policies.records import JsonObject, Records
from counterpoise.metadata import NotFound


class Clusters(Records):
    """The known clusters, this one included."""

    async def clusters(self) -> list[str]:
        """Their names, sorted."""
        return await self._store.children(paths.CLUSTERS)

    async def cluster(self, name: str) -> JsonObject | None:
        """A cluster's ``ClusterData``."""
        return await self._get(paths.cluster(name))

    async def put_cluster(self, name: str, data: Mapping[str, Any], *, create: bool) -> None:
        """Create a cluster, or replace its data."""
        await self._put(paths.cluster(name), data, create=create)

    async def delete_cluster(self, name: str) -> None:
        """Delete a cluster, its isolation policies and its failure domains."""
        domains = paths.failure_domains(name)
        below = [f"{domains}/{each}" for each in await self._store.children(domains)]
        for path in (*below, domains, paths.isolation_policies(name)):
            with contextlib.suppress(NotFound):
                await self._delete(path)
        await self._delete(paths.cluster(name))
