"""The ownership protocols, by the name of the load manager that uses each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from counterpoise.ownership.lock import LockAndRedirect
from counterpoise.ownership.port import BundleProtocol, Terms

PROTOCOLS: Final[dict[str, Callable[[Terms], BundleProtocol[Any]]]] = {
    "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl": LockAndRedirect,
}
"""``loadManagerClassName`` → protocol."""
