"""How an heir tells that it is prepared: by a node that appears, and is taken away again.

It is the news that counts, not the node: whoever missed it goes on after `Terms.prepare_s`.
"""

from __future__ import annotations

from typing import Final

READY: Final = "/counterpoise/ready"


def ready_path(bundle: str) -> str:
    """The node of a bundle ``tenant/namespace/0x…_0x…``."""
    return f"{READY}/{bundle}"


def ready_bundle(path: str) -> str | None:
    """The bundle of such a node; None for any other."""
    name = path.removeprefix(f"{READY}/")
    return name if name != path and name.count("/") == 2 else None
