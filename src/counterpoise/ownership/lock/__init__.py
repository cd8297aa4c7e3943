"""Lock and redirect: the ownership protocol of Pulsar's modular load manager, with a hand-over."""

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
    """The bundle protocol of the modular load manager: a bundle's owner has an ephemeral lock node
    in the metadata store.

    The methods are described in `counterpoise.ownership.port.BundleProtocol`.
    """

    def __init__(self, options: OwnershipOptions) -> None:
        self.options = options

    @property
    def changes_by_record(self) -> bool:
        """Always False: a bundle's owner is known by its lock, not by a record."""
        return False

    @property
    def roots(self) -> tuple[str, ...]:
        """The paths below which the protocol stores its nodes, each ending in a slash."""
        return f"{LOCKS}/", f"{HAND_OVERS}/"

    def new(self, bundle: str) -> BundleLock:
        """The state of a bundle before its first event."""
        return BundleLock(self.options, bundle)

    def advance(self, state: BundleLock, event: object) -> tuple[BundleLock, Effects]:
        """The next state and the effects of one event; raises `UnexpectedEvent`."""
        return advance(state, event)

    def nodes(self, bundle: str) -> tuple[str, ...]:
        """The paths of a bundle's nodes, in the order in which to read them."""
        return hand_over_of(bundle), lock_of(bundle)

    def bundle_of(self, path: str) -> str | None:
        """The bundle to which a node belongs; None for other nodes."""
        return bundle_of(path)

    def concerns_unknown(self, path: str, change: NodeChange) -> bool:
        """Whether a broker without state for the bundle must handle a change: a hand-over has
        begun, of which it may be the successor.
        """
        return change is NodeChange.APPEARED and path == hand_over_of(bundle_of(path) or "")

    def locate(self, values: Mapping[str, bytes | None]) -> BundleLocation:
        """A bundle's owner and successor, from the values of its `nodes`."""
        announcement, lock = values.values()
        owner, hand_over = read_lock(lock), read_hand_over(announcement)
        if owner is not None and hand_over is not None and hand_over.source != owner.broker_id:
            hand_over = None  # That hand-over is over, and its node will be deleted in a moment.
        return BundleLocation(
            owner,
            None if hand_over is None else hand_over.destination,
            hand_over is not None or (owner is not None and owner.disabled),
        )

    def repairs(
        self, values: Mapping[str, bytes], active: Collection[str], now_ms: int
    ) -> tuple[Repair, ...]:
        """Always empty: a lock vanishes with its owner's session, without a repair."""
        return ()

    def is_unbelievable(
        self, bundle: str, value: bytes, active: Collection[str], now_ms: int
    ) -> bool:
        """Always False: no lock needs a repair by the leader."""
        return False

    def repaired(self, value: bytes, successor: str | None, now_ms: int) -> bytes:
        """Return the value unchanged: no lock needs a repair."""
        return value
