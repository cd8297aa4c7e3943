"""Decompresses Pulsar's messages, and nodes of managed ledgers and cursors."""

import zlib
from collections.abc import Mapping
from typing import Final

import pyarrow as pa

UNPACKED_MAX: Final = 64 << 20
"""The most bytes that are unpacked, whatever uncompressed size a header states."""
_CODECS: Final[Mapping[str, str]] = {"LZ4": "lz4_raw", "ZSTD": "zstd", "SNAPPY": "snappy"}


def unpack(kind: str, packed: bytes, size: int) -> bytes:
    """Decompress bytes of the compression ``kind`` (Pulsar's name); raises ValueError.

    ``size`` is the uncompressed size by their header; a result of another size is an error.
    """
    if not 0 <= size <= UNPACKED_MAX:
        raise ValueError(f"{size} bytes of compressed data, at most {UNPACKED_MAX} are unpacked")
    if kind == "NONE":
        return packed
    try:
        if kind == "ZLIB":
            # Pulsar's brokers flush what they compress and never finish it: it has no end mark.
            found = zlib.decompressobj().decompress(packed, size + 1)
        elif kind in _CODECS:
            found = pa.Codec(_CODECS[kind]).decompress(packed, size, asbytes=True)
        else:
            raise ValueError(f"compression {kind} is not known")
    except (zlib.error, OSError, pa.ArrowException) as error:
        raise ValueError(f"{kind} data cannot be unpacked: {error}") from None
    if len(found) != size:
        raise ValueError(f"{kind} data of {len(found)} bytes, not {size}")
    return found
