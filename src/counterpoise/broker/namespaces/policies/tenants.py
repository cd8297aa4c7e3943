"""Tenants: ``/admin/policies/<tenant>``, ``TenantInfo``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from counterpoise.broker.base import paths
from counterpoise.broker.namespaces.policies.records import JsonObject, Records


class Tenants(Records):
    """Who may have namespaces."""

    async def tenants(self) -> list[str]:
        """Their names, sorted."""
        return await self._store.children(paths.POLICIES)

    async def tenant(self, name: str) -> JsonObject | None:
        """A tenant's ``TenantInfo``."""
        return await self._get(paths.tenant(name))

    async def put_tenant(self, name: str, data: Mapping[str, Any], *, create: bool) -> None:
        """Create a tenant, or replace the data of one."""
        await self._put(paths.tenant(name), data, create=create)

    async def delete_tenant(self, name: str) -> None:
        """Forget a tenant; raises `NotEmpty` while it has namespaces."""
        await self._delete(paths.tenant(name))
