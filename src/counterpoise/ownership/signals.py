"""How an heir tells that it is prepared, and an owner that it has closed what it had open.

By a node that appears, and is taken away again. It is the news that counts, not the node: whoever
missed it goes on after `Terms.prepare_s`, or after `Terms.successor_s`.
"""

from __future__ import annotations

from typing import Final

from counterpoise.ownership.port import BundleReleased, SuccessorReady

READY: Final = "/counterpoise/ready"
CLOSED: Final = "/counterpoise/let-go"
_RECORDS: Final[dict[str, SuccessorReady | BundleReleased]] = {
    READY: SuccessorReady(),
    CLOSED: BundleReleased(),
}


def signal_path(kind: str, bundle: str) -> str:
    """The node (`READY`, `CLOSED`) of a bundle ``tenant/namespace/0x…_0x…``."""
    return f"{kind}/{bundle}"


def signal_of(path: str) -> tuple[str, SuccessorReady | BundleReleased] | None:
    """The bundle of such a node, and what it tells the bundle's machine; None for any other."""
    for kind, record in _RECORDS.items():
        name = path.removeprefix(f"{kind}/")
        if name != path and name.count("/") == 2:
            return name, record
    return None
