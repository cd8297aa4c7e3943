"""The paths of bundles' records in the metadata store."""

from collections.abc import Collection
from typing import Any, Final

from counterpoise.metadata import MetadataStore
from counterpoise.names.bundle import BundleName
from counterpoise.names.errors import InvalidName
from counterpoise.ownership.port import BundleProtocol

_LEVELS: Final = 3
"""The number of levels of a record's path below its root: tenant, namespace, range."""


async def record_paths(
    store: MetadataStore, protocol: BundleProtocol[Any], namespaces: Collection[str] | None = None
) -> dict[str, str]:
    """The paths of all bundles' records, each with its bundle; raises `StoreUnavailable`.

    ``namespaces``: only of these, if not None.
    """
    found: dict[str, str] = {}
    for root in protocol.roots:
        for path in await _records_below(store, root.rstrip("/"), namespaces):
            name = protocol.bundle_of(path)
            if name is not None and _is_bundle(name):
                found[path] = name
    return found


async def _records_below(
    store: MetadataStore, root: str, namespaces: Collection[str] | None
) -> list[str]:
    if namespaces is None:
        return await _below(store, root, _LEVELS)
    return [
        path for name in sorted(namespaces) for path in await _below(store, f"{root}/{name}", 1)
    ]


async def _below(store: MetadataStore, path: str, levels: int) -> list[str]:
    if levels == 0:
        return [path]
    below = [f"{path}/{child}" for child in await store.children(path)]
    return [each for parent in below for each in await _below(store, parent, levels - 1)]


def _is_bundle(name: str) -> bool:
    try:
        BundleName.parse(name)
    except InvalidName:
        return False
    return True
