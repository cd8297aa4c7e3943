"""The hash by which broker and client compare two lists of topics."""

from __future__ import annotations

from collections.abc import Iterable

from crc32c import crc32c


def topics_hash(names: Iterable[str]) -> str:
    """Hash a list whatever its order: the CRC32C of the sorted names, as Guava prints it."""
    digest = crc32c(",".join(sorted(names)).encode())
    return digest.to_bytes(4, "little").hex()
