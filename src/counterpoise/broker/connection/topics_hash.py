"""The hash by which broker and client compare two lists of topics."""

from collections.abc import Iterable

from crc32c import crc32c


def topics_hash(names: Iterable[str]) -> str:
    """The hash of a topic list, in any order: CRC32C over the sorted names, as Guava prints it."""
    digest = crc32c(",".join(sorted(names)).encode())
    return digest.to_bytes(4, "little").hex()
