"""The ownership protocols, by the name of the load manager that uses each."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from counterpoise.names.callbacks import MillisecondClock
from counterpoise.names.load_managers import EXTENSIBLE, MODULAR
from counterpoise.ownership.channel import StateChannel
from counterpoise.ownership.lock import LockAndRedirect
from counterpoise.ownership.port import BundleProtocol, OwnershipOptions

Make: TypeAlias = Callable[[OwnershipOptions, MillisecondClock], BundleProtocol[Any]]
"""Makes a protocol from its options and the wall clock in milliseconds."""

PROTOCOLS: Final[dict[str, Make]] = {
    MODULAR: lambda options, now_ms: LockAndRedirect(options),
    EXTENSIBLE: StateChannel,
}
"""The function that makes each load manager's protocol, by class name
(``loadManagerClassName``)."""
