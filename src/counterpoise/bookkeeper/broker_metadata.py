"""What Pulsar's brokers may store before an entry: metadata of their own (PIP-70)."""

from __future__ import annotations

from typing import Final

_MARK: Final = b"\x0e\x02"
METADATA_BEGIN: Final = len(_MARK) + 4
"""Where the metadata begin, behind the mark and their size."""


def entry_begin(payload: bytes) -> int:
    """Where the entry that its producer sent begins: 0 where no metadata are before it.

    Beyond the end of the payload where the metadata are cut.
    """
    if not payload.startswith(_MARK):
        return 0
    return METADATA_BEGIN + int.from_bytes(payload[len(_MARK) : METADATA_BEGIN], "big")
