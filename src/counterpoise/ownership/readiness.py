"""How an heir tells that it is prepared, and an owner that it has closed what it had open.

By a node that appears, and is taken away again. It is the news that counts, not the node: whoever
missed it goes on after `Terms.prepare_s`, or after `Terms.heir_s`.
"""

from __future__ import annotations

from typing import Final

READY: Final = "/counterpoise/ready"
CLOSED: Final = "/counterpoise/let-go"


def news_path(kind: str, bundle: str) -> str:
    """The node (`READY`, `CLOSED`) of a bundle ``tenant/namespace/0x…_0x…``."""
    return f"{kind}/{bundle}"


def news_bundle(kind: str, path: str) -> str | None:
    """The bundle of such a node; None for any other."""
    name = path.removeprefix(f"{kind}/")
    return name if name != path and name.count("/") == 2 else None
