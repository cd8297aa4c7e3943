"""The custom metadata of a ledger (Java's ``LedgerMetadataUtils``)."""

from typing import Final

OWNER: Final = "counterpoise/owner"
"""The key under which a ledger's creator is named, for messages; Pulsar does not write it."""


def messages_purpose(name: str, owner: str) -> dict[str, bytes]:
    """The custom metadata of a ledger with messages of a managed ledger."""
    return {
        "application": b"pulsar",
        "component": b"managed-ledger",
        "pulsar/managed-ledger": name.encode(),
        OWNER: owner.encode(),
    }


def cursor_purpose(name: str, cursor: str) -> dict[str, bytes]:
    """The custom metadata of a cursor's ledger, the cursor's name encoded as in its node's path."""
    return {
        "application": b"pulsar",
        "component": b"managed-ledger",
        "pulsar/managed-ledger": name.encode(),
        "pulsar/cursor": cursor.encode(),
    }
