"""Assigns bundles to brokers, and makes owners release them, by writing the bundles' records.

Only for a protocol that `changes_by_record` (the state channel): there any broker may write them.
"""

from counterpoise.broker.bundles.ownership import PATIENCE_S, BundleOwnership
from counterpoise.names.bundle import BundleName
from counterpoise.ownership.events import Assign, ReleaseFrom
from counterpoise.ownership.port import BundleLocation


class BundleAssigner:
    """Writes the record that assigns a bundle, or that has its owner release it."""

    def __init__(self, ownership: BundleOwnership) -> None:
        self._ownership = ownership

    async def assign(self, bundle: BundleName, broker_id: str) -> BundleLocation:
        """Assign a bundle to a broker (``publishAssignEventAsync``), unless it has been assigned
        already.

        Returns as `owner_after_change` does.
        """
        await self._ownership.request(bundle, Assign(broker_id))
        return await self.owner_after_change(bundle)

    async def owner_after_change(self, bundle: BundleName) -> BundleLocation:
        """Wait at most `PATIENCE_S` until a bundle has an owner; returns its owner and successor.

        Raises `StoreUnavailable`.
        """

        async def owned() -> bool:
            where = await self._ownership.locate(bundle)
            return where.owner is not None and not where.changing

        await self._ownership.until(bundle, owned, PATIENCE_S)
        return await self._ownership.locate(bundle)

    async def release(self, bundle: BundleName, owner: str, destination: str | None) -> bool:
        """Have a bundle's owner release it (``publishUnloadEventAsync``).

        Returns True when the destination owns it, or without a destination when the owner has
        released it; False if that took too long or the bundle went elsewhere. Raises
        `StoreUnavailable`.
        """
        await self._ownership.request(bundle, ReleaseFrom(owner, destination))

        async def ended() -> bool:
            return not (await self._ownership.locate(bundle)).changing

        if not await self._ownership.until(bundle, ended, self._ownership.release_within_s):
            return False
        now = (await self._ownership.locate(bundle)).owner
        if destination is None:
            return now is None or now.broker_id != owner
        return now is not None and now.broker_id == destination
