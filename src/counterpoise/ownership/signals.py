"""Signals between the two brokers of a transfer: the successor is ready; all topics are closed.

A signal is a node that is created and deleted again at once; its value is not read. A broker that
misses it goes on after `OwnershipOptions.prepare_s` or `successor_s`.
"""

from typing import Final

from counterpoise.ownership.events import BundleReleased, SuccessorReady

READY: Final = "/counterpoise/ready"
CLOSED: Final = "/counterpoise/let-go"
"""The path below which former owners signal that all topics are closed. Earlier versions chose the
name, and brokers of both versions must understand each other."""
_EVENTS: Final[dict[str, SuccessorReady | BundleReleased]] = {
    READY: SuccessorReady(),
    CLOSED: BundleReleased(),
}


def signal_path(kind: str, bundle: str) -> str:
    """The path of the node that signals `READY` or `CLOSED` (``kind``) for a bundle."""
    return f"{kind}/{bundle}"


def signal_of(path: str) -> tuple[str, SuccessorReady | BundleReleased] | None:
    """The bundle and the event that a signal node's path means; None for any other path."""
    for kind, event in _EVENTS.items():
        name = path.removeprefix(f"{kind}/")
        if name != path and name.count("/") == 2:
            return name, event
    return None
