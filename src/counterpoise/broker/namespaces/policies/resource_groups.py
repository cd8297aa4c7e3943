"""Resource groups: ``/admin/resourcegroups/<name>``, ``ResourceGroup``."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from counterpoise.broker.base import paths
from counterpoise.broker.namespaces.policies.records import JsonObject, Records
from counterpoise.metadata import NotFound


class ResourceGroupRecords(Records):
    """The definitions of resource groups."""

    async def resource_groups(self) -> list[str]:
        """Their names, sorted."""
        return await self._store.children(paths.RESOURCE_GROUPS)

    async def resource_group(self, name: str) -> JsonObject | None:
        """A group's definition; None if it does not exist."""
        return await self._get(paths.resource_group(name))

    async def update_resource_group(self, name: str, values: Mapping[str, Any]) -> None:
        """Create a group, or change some of its values."""
        await self._update(
            paths.resource_group(name), lambda before: {**before, **values}, create=True
        )

    async def delete_resource_group(self, name: str) -> None:
        """Delete a group; raises `NotFound` if it does not exist."""
        await self._delete(paths.resource_group(name))
        # What brokers had to say of it goes when they stop serving it.
        with contextlib.suppress(NotFound):
            await self._store.delete(paths.group_usages(name))
