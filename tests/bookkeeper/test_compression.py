"""What Pulsar compresses is unpacked to the size that its header says, or refused."""

import zlib

import pyarrow as pa
import pytest

from counterpoise.bookkeeper.compression import UNPACKED_MAX, unpack

TEXT = b"ledger " * 100


def packed(kind: str) -> bytes:
    if kind == "NONE":
        return TEXT
    if kind == "ZLIB":
        packer = zlib.compressobj()
        return packer.compress(TEXT) + packer.flush(zlib.Z_SYNC_FLUSH)  # as brokers leave it
    codec = {"LZ4": "lz4_raw", "ZSTD": "zstd", "SNAPPY": "snappy"}[kind]
    return pa.Codec(codec).compress(TEXT, asbytes=True)


@pytest.mark.parametrize("kind", ["NONE", "ZLIB", "LZ4", "ZSTD", "SNAPPY"])
def test_what_was_packed_is_unpacked(kind: str) -> None:
    assert unpack(kind, packed(kind), len(TEXT)) == TEXT


@pytest.mark.parametrize("size", [len(TEXT) - 1, len(TEXT) + 1])
def test_another_size_than_the_header_says_is_an_error(size: int) -> None:
    with pytest.raises(ValueError, match=f"ZLIB data of .* bytes, not {size}"):
        unpack("ZLIB", packed("ZLIB"), size)


@pytest.mark.parametrize(
    ("kind", "data", "size", "why"),
    [
        ("ZLIB", b"nonsense", 9, "ZLIB data cannot be unpacked"),
        ("ZSTD", b"nonsense", 9, "ZSTD data cannot be unpacked"),
        ("BROTLI", b"x", 9, "compression BROTLI is not known"),
        ("NONE", b"x", -1, "-1 bytes of compressed data, at most"),
        ("NONE", b"x", UNPACKED_MAX + 1, f"at most {UNPACKED_MAX} are unpacked"),
    ],
)
def test_what_cannot_be_unpacked_says_why(kind: str, data: bytes, size: int, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        unpack(kind, data, size)
