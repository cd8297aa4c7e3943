"""The metadata store: its interface, and stores in memory, in an SQLite file and on ZooKeeper."""

from counterpoise.metadata.errors import (
    BadVersion,
    EphemeralParent,
    InvalidPath,
    MetadataError,
    NodeError,
    NotEmpty,
    NotFound,
    StoreUnavailable,
    ValueTooLarge,
)
from counterpoise.metadata.memory import MemoryStore, MemoryTree
from counterpoise.metadata.open import InvalidMetadataUrl, open_reader, open_store, open_tree
from counterpoise.metadata.port import (
    VALUE_BYTES_MAX,
    Listener,
    MetadataReader,
    MetadataStore,
    Notification,
    NotificationKind,
    SessionEvent,
    SessionListener,
    Stored,
    Unsubscribe,
)

__all__ = [
    "VALUE_BYTES_MAX",
    "BadVersion",
    "EphemeralParent",
    "InvalidMetadataUrl",
    "InvalidPath",
    "Listener",
    "MemoryStore",
    "MemoryTree",
    "MetadataError",
    "MetadataReader",
    "MetadataStore",
    "NodeError",
    "NotEmpty",
    "NotFound",
    "Notification",
    "NotificationKind",
    "SessionEvent",
    "SessionListener",
    "StoreUnavailable",
    "Stored",
    "Unsubscribe",
    "ValueTooLarge",
    "open_reader",
    "open_store",
    "open_tree",
]
