"""The metadata store: its port, and stores in memory, in an SQLite file and on ZooKeeper."""

from counterpoise.metadata.errors import (
    BadVersion,
    EphemeralParent,
    InvalidPath,
    MetadataError,
    NodeError,
    NotEmpty,
    NotFound,
    StoreUnavailable,
)
from counterpoise.metadata.memory import MemoryStore, MemoryTree
from counterpoise.metadata.open import InvalidMetadataUrl, open_store, open_tree
from counterpoise.metadata.port import (
    Listener,
    MetadataStore,
    Notification,
    NotificationKind,
    SessionEvent,
    SessionListener,
    Stored,
    Unsubscribe,
)

__all__ = [
    "BadVersion",
    "EphemeralParent",
    "InvalidMetadataUrl",
    "InvalidPath",
    "Listener",
    "MemoryStore",
    "MemoryTree",
    "MetadataError",
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
    "open_store",
    "open_tree",
]
