"""The metadata that Pulsar's brokers may store before an entry (PIP-70)."""

from typing import Final

_MARK: Final = b"\x0e\x02"
METADATA_BEGIN: Final = len(_MARK) + 4
"""The offset of the broker metadata in a payload, after the mark and their size."""


def entry_begin(payload: bytes) -> int:
    """The offset of the producer's entry in a payload: 0 if no broker metadata precede it.

    If the metadata are cut off, the offset is beyond the end of the payload.
    """
    if not payload.startswith(_MARK):
        return 0
    return METADATA_BEGIN + int.from_bytes(payload[len(_MARK) : METADATA_BEGIN], "big")
