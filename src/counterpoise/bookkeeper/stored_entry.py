"""An entry as a bookie stores it: a header of 32 bytes, a digest, and the payload.

Header: ledger, entry, last entry that was confirmed when it was sent, and the bytes of all payloads
up to and with this one; four big-endian integers of 64 bits (``DigestManager``).
"""

import hashlib
import hmac
import struct
import zlib
from dataclasses import dataclass
from typing import Final

import crc32c

from counterpoise.bookkeeper.errors import BadStoredEntry
from counterpoise.bookkeeper.ledger_metadata import DigestType

HEADER: Final = struct.Struct(">qqqq")
_DIGEST_SIZES: Final = {
    DigestType.CRC32: 8,
    DigestType.HMAC: 20,
    DigestType.CRC32C: 4,
    DigestType.DUMMY: 0,
}


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """One entry as read from a bookie, whose digest was checked."""

    ledger: int
    entry: int
    last_confirmed: int
    """Entries up to this one were acknowledged when this one was sent; -1 for none."""
    length: int
    """Bytes of all payloads up to and including this one."""
    payload: bytes


def master_key(password: bytes) -> bytes:
    """The key that a bookie demands for all writes to a ledger, derived from its password."""
    # BookKeeper's own choice of algorithm.
    return hashlib.sha1(b"ledger" + password, usedforsecurity=False).digest()


@dataclass(frozen=True, slots=True)
class EntryDigest:
    """Computes and checks the digests of one ledger's entries."""

    kind: DigestType
    password: bytes = b""

    def of(self, header: bytes, payload: bytes) -> bytes:
        """Compute the digest of an entry from its header and payload."""
        if self.kind is DigestType.CRC32C:
            return crc32c.crc32c(payload, crc32c.crc32c(header)).to_bytes(4, "big")
        if self.kind is DigestType.CRC32:
            return zlib.crc32(payload, zlib.crc32(header)).to_bytes(8, "big")
        if self.kind is DigestType.HMAC:
            # BookKeeper's own choice of algorithm: it guards against damage, not against forgery.
            key = hashlib.sha1(b"mac" + self.password, usedforsecurity=False).digest()
            return hmac.digest(key, header + payload, "sha1")
        return b""

    def head(
        self, ledger: int, entry: int, last_confirmed: int, length: int, payload: bytes
    ) -> bytes:
        """What precedes the payload of a stored entry: header and digest."""
        header = HEADER.pack(ledger, entry, last_confirmed, length)
        return header + self.of(header, payload)

    def open(self, ledger: int, entry: int | None, stored: bytes) -> StoredEntry:
        """Check a bookie's bytes for an entry; ``entry`` None accepts any of the ledger.

        Raises `BadStoredEntry`.
        """
        begin = HEADER.size + _DIGEST_SIZES[self.kind]
        if len(stored) < begin:
            raise BadStoredEntry(f"{len(stored)} bytes are no entry")
        header, payload = stored[: HEADER.size], stored[begin:]
        its_ledger, its_entry, last_confirmed, length = HEADER.unpack(header)
        if not hmac.compare_digest(self.of(header, payload), stored[HEADER.size : begin]):
            raise BadStoredEntry(f"its {self.kind.name} digest does not match")
        if its_ledger != ledger or (entry is not None and its_entry != entry):
            raise BadStoredEntry(f"it is entry {its_ledger}:{its_entry}")
        return StoredEntry(its_ledger, its_entry, last_confirmed, length, payload)
