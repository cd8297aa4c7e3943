"""Settings changed while brokers run: ``/admin/configuration``, one JSON object."""

from __future__ import annotations

from counterpoise.broker.base import paths
from counterpoise.broker.namespaces.policies.records import Records


class DynamicSettings(Records):
    """An administrator's settings for every broker of the cluster, as text by Pulsar's names."""

    async def dynamic_settings(self) -> dict[str, str]:
        """All dynamic settings."""
        found = await self._get(paths.DYNAMIC_SETTINGS) or {}
        return {name: str(value) for name, value in found.items()}

    async def policies_read_only(self) -> bool:
        """Whether an administrator forbids changes of policies; raises `MetadataError`."""
        return await self._store.get(paths.POLICIES_READ_ONLY) is not None

    async def set_dynamic_setting(self, name: str, value: str | None) -> None:
        """Set one; None restores the value with which each broker was started."""
        await self._update(
            paths.DYNAMIC_SETTINGS,
            lambda found: {
                **{each: text for each, text in found.items() if each != name},
                **({} if value is None else {name: value}),
            },
            create=True,
        )
