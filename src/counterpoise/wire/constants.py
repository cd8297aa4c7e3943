"""The protocol's fixed numbers, and the limits a broker sets by default."""

PROTOCOL_VERSION = 21
"""The newest protocol version that this package supports (Pulsar 3.x and 4.x clients: 19 to 21)."""

DEFAULT_MAX_MESSAGE_SIZE = 5 * 1024 * 1024
"""``maxMessageSize``: the largest message, in bytes, that a broker accepts by default."""

FRAME_PADDING = 10 * 1024
"""Room for the command and the metadata beside the largest message, in bytes."""

MAGIC_CRC32C = b"\x0e\x01"
"""What an entry starts with when a CRC32C of its metadata and payload follows."""

ENTRY_HEADER_SIZE = 10
"""Bytes of an entry before its metadata: magic, checksum, metadata size."""
