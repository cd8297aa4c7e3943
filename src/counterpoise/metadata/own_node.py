"""Writes an ephemeral node of this process, replacing one that an earlier session left."""

import contextlib

from counterpoise.metadata.errors import BadVersion, NodeError
from counterpoise.metadata.port import MUST_NOT_EXIST, MetadataStore


async def put_own(store: MetadataStore, path: str, value: bytes, *, replaces: bool = True) -> None:
    """Write an ephemeral node that ends with this session, even if the path exists already.

    A node left by this process before it restarted is deleted first, since it would vanish when its
    old session times out. Without ``replaces``, a node of another session raises `BadVersion`.
    Raises `StoreUnavailable`.
    """
    stored = await store.get(path)
    if stored is not None and not stored.mine:
        if not replaces:
            raise BadVersion(path)
        with contextlib.suppress(NodeError):
            await store.delete(path, expected_version=stored.version)
        stored = None
    if stored is None:
        with contextlib.suppress(BadVersion):
            await store.put(path, value, expected_version=MUST_NOT_EXIST, ephemeral=True)
            return
    await store.put(path, value, ephemeral=True)
