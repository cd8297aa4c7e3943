"""Resource quotas of bundles: ``/loadbalance/resource-quota/<bundle>``, ``ResourceQuota``."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Final

from counterpoise.broker.base import paths
from counterpoise.broker.namespaces.policies.records import (
    JsonObject,
    Records,
    read_object,
    write_object,
)
from counterpoise.metadata import NotFound

DEFAULT: Final = "default"
"""The name under which the quota of all other bundles is stored."""


class ResourceQuotaRecords(Records):
    """The load that a bundle is expected to have, until reports say more."""

    async def resource_quota(self, bundle: str = DEFAULT) -> JsonObject | None:
        """The quota of a bundle, or the default one; None if none was set."""
        stored = await self._store.get(paths.resource_quota(bundle))
        return None if stored is None else read_object(stored.value)

    async def put_resource_quota(self, quota: Mapping[str, Any], bundle: str = DEFAULT) -> None:
        """Set the quota of a bundle, or the default one."""
        await self._store.put(paths.resource_quota(bundle), write_object(quota))

    async def delete_resource_quota(self, bundle: str) -> None:
        """Forget the quota of a bundle, if there is one."""
        with contextlib.suppress(NotFound):
            await self._store.delete(paths.resource_quota(bundle))
