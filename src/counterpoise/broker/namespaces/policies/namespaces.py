"""Namespaces: ``/admin/policies/<ns>`` (``Policies``) and ``/admin/local-policies/<ns>``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from counterpoise.broker.base import paths
from counterpoise.broker.namespaces.policies.records import JsonObject, Records
from counterpoise.metadata import NotFound
from counterpoise.names.bundle import NamespaceBundles
from counterpoise.names.namespace import NamespaceName


class Namespaces(Records):
    """Namespaces and their policies."""

    async def namespaces(self, tenant: str) -> list[NamespaceName]:
        """The namespaces of a tenant, sorted."""
        return [
            NamespaceName(tenant, local)
            for local in await self._store.children(paths.tenant(tenant))
        ]

    async def namespace(self, name: NamespaceName) -> JsonObject | None:
        """A namespace's ``Policies``; its ``bundles`` are those of the local policies."""
        policies = await self._get(paths.policies(name))
        local = None if policies is None else await self._get(paths.local_policies(name))
        if policies is None or local is None or not local.get("bundles"):
            return policies
        return {**policies, "bundles": local["bundles"]}

    async def local_policies(self, name: NamespaceName) -> JsonObject | None:
        """A namespace's policies in this cluster (``LocalPolicies``)."""
        return await self._get(paths.local_policies(name))

    async def anti_affinity_group(self, name: NamespaceName) -> str | None:
        """A namespace's anti-affinity group: namespaces that should not share brokers."""
        local = await self._get(paths.local_policies(name)) or {}
        return str(local.get("namespaceAntiAffinityGroup") or "").strip() or None

    async def create_namespace(self, name: NamespaceName, policies: Mapping[str, Any]) -> None:
        """Create a namespace; raises `BadVersion` if it exists."""
        await self._put(paths.policies(name), policies, create=True)

    async def update_namespace(
        self, name: NamespaceName, change: Callable[[JsonObject], Mapping[str, Any]]
    ) -> JsonObject:
        """Change a namespace's policies; returns them as they are now."""
        return await self._update(paths.policies(name), change)

    async def share_bundles(self, bundles: NamespaceBundles) -> None:
        """Write a namespace's bundles into the policies that all clusters share."""
        await self.update_namespace(
            bundles.namespace, lambda policies: {**policies, "bundles": bundles_json(bundles)}
        )

    async def update_local_policies(
        self, name: NamespaceName, change: Callable[[JsonObject], Mapping[str, Any]]
    ) -> JsonObject:
        """Change a namespace's local policies; returns them as they are now."""
        return await self._update(paths.local_policies(name), change)

    async def delete_namespace(self, name: NamespaceName) -> None:
        """Delete a namespace and what belongs to it alone; raises `NotEmpty` while it has
        topics.
        """
        if not await self._store.exists(paths.policies(name)):
            raise NotFound(paths.policies(name))
        domains = ("persistent", "non-persistent")
        for path in (
            *(paths.partitioned_topics(name, domain) for domain in domains),
            f"{paths.PARTITIONED_TOPICS}/{name}",
            paths.topics(name),
            f"{paths.TOPICS}/{name}",
            paths.local_policies(name),
        ):
            with contextlib.suppress(NotFound):
                await self._delete(path)
        await self._delete(paths.policies(name))


def bundles_json(bundles: NamespaceBundles) -> JsonObject:
    """``BundlesData``, as policies and local policies hold it."""
    return {"boundaries": bundles.boundary_texts, "numBundles": len(bundles.bundles)}


def local_policies_json(bundles: NamespaceBundles) -> JsonObject:
    """``LocalPolicies`` of a namespace that has nothing local but its bundles."""
    return {"bundles": bundles_json(bundles), "migrated": False}
