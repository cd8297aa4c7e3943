"""Lock and redirect: the ownership protocol of Pulsar's modular load manager, with a hand-over."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from counterpoise.ownership.events import Effects, NodeChange
from counterpoise.ownership.lock.nodes import (
    HAND_OVERS,
    LOCKS,
    bundle_of,
    hand_over_of,
    lock_of,
    read_hand_over,
    read_lock,
)
from counterpoise.ownership.lock.state import BundleLock
from counterpoise.ownership.lock.table import advance
from counterpoise.ownership.port import BundleLocation, OwnershipOptions, Repair


class LockAndRedirect:
    """See `counterpoise.ownership.port.BundleProtocol` for what its methods promise."""

    def __init__(self, options: OwnershipOptions) -> None:
        self.options = options

    @property
    def changes_by_record(self) -> bool:
        """See `BundleProtocol.changes_by_record`."""
        return False

    @property
    def roots(self) -> tuple[str, ...]:
        """See `BundleProtocol.roots`."""
        return f"{LOCKS}/", f"{HAND_OVERS}/"

    def new(self, bundle: str) -> BundleLock:
        """See `BundleProtocol.new`."""
        return BundleLock(self.options, bundle)

    def advance(self, state: BundleLock, event: object) -> tuple[BundleLock, Effects]:
        """See `BundleProtocol.advance`."""
        return advance(state, event)

    def nodes(self, bundle: str) -> tuple[str, ...]:
        """See `BundleProtocol.nodes`."""
        return hand_over_of(bundle), lock_of(bundle)

    def bundle_of(self, path: str) -> str | None:
        """See `BundleProtocol.bundle_of`."""
        return bundle_of(path)

    def concerns_unknown(self, path: str, change: NodeChange) -> bool:
        """See `BundleProtocol.concerns_unknown`: a successor does not know yet that it is one."""
        return change is NodeChange.APPEARED and path == hand_over_of(bundle_of(path) or "")

    def locate(self, values: Mapping[str, bytes | None]) -> BundleLocation:
        """See `BundleProtocol.locate`."""
        announcement, lock = values.values()
        owner, hand_over = read_lock(lock), read_hand_over(announcement)
        if owner is not None and hand_over is not None and hand_over.source != owner.broker_id:
            hand_over = None  # It is over, and will be withdrawn in a moment.
        return BundleLocation(
            owner,
            None if hand_over is None else hand_over.destination,
            hand_over is not None or (owner is not None and owner.disabled),
        )

    def repairs(
        self, values: Mapping[str, bytes], active: Collection[str], now_ms: int
    ) -> tuple[Repair, ...]:
        """See `BundleProtocol.repairs`: a lock goes with its owner's session."""
        return ()

    def is_unbelievable(
        self, bundle: str, value: bytes, active: Collection[str], now_ms: int
    ) -> bool:
        """See `BundleProtocol.is_unbelievable`: the store alone makes and ends a lock."""
        return False

    def repaired(self, value: bytes, successor: str | None, now_ms: int) -> bytes:
        """See `BundleProtocol.repaired`: there is nothing to repair."""
        return value
