"""From a metadata store URL to a session."""

from __future__ import annotations

from counterpoise.metadata.errors import MetadataError
from counterpoise.metadata.memory import MemoryTree
from counterpoise.metadata.port import MetadataStore


class InvalidMetadataUrl(MetadataError, ValueError):
    """Not the address of a metadata store."""

    def __init__(self, url: str) -> None:
        super().__init__(
            f"not a metadata store URL: {url!r}; use memory: (one process), "
            "or zk:host:port[,host:port][/chroot]"
        )


async def open_store(
    url: str,
    *,
    memory: MemoryTree | None = None,
    session_timeout_s: float = 30.0,
    operation_timeout_s: float = 30.0,
) -> MetadataStore:
    """A new session with the store a URL names.

    ``memory:`` opens a session with the given tree, which is what its brokers share; without a
    tree it is alone. ``zk:`` connects to ZooKeeper and raises `StoreUnavailable` when it cannot.
    """
    scheme, colon, address = url.partition(":")
    if scheme == "memory" and colon:
        return (memory or MemoryTree()).open()
    if scheme == "zk" and address.strip("/"):
        # Imported here: a cluster in one process never needs kazoo.
        from counterpoise.metadata.zk import ZooKeeperStore

        return await ZooKeeperStore.connect(
            address.removeprefix("//"),
            session_timeout_s=session_timeout_s,
            operation_timeout_s=operation_timeout_s,
        )
    raise InvalidMetadataUrl(url)
