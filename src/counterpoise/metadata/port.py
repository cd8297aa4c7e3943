"""The interface of metadata stores: a small tree of versioned values, with sessions and watches.

It has ZooKeeper's semantics with the interface of Pulsar's ``MetadataStore``: writing a node
creates its parents, an expected version makes the write a compare-and-set, and an ephemeral node
lives as long as the session that created it.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from counterpoise.metadata.errors import InvalidPath

MUST_NOT_EXIST: Final = -1
"""The ``expected_version`` of a write that may only create."""
VALUE_BYTES_MAX: Final = 1_000_000
"""The most bytes of a node's value. ZooKeeper takes requests of up to 1,048,575 bytes
(``jute.maxbuffer``) and disconnects a client that sends more; that would connect again, send the
same, and lose its session in the end."""


class NotificationKind(enum.Enum):
    """What happened to a node."""

    CREATED = "created"
    MODIFIED = "modified"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Notification:
    """A change of one node. It has no value, since the value may have changed again."""

    kind: NotificationKind
    path: str


class SessionEvent(enum.Enum):
    """What happened to the session with the store (Pulsar's ``SessionEvent``)."""

    CONNECTION_LOST = "connection lost"
    """The ephemeral nodes still exist, but notifications may be late."""
    RECONNECTED = "reconnected"
    """The same session goes on. Notifications may have been missed: caches must be dropped."""
    SESSION_LOST = "session lost"
    """Every ephemeral node of this session is gone."""
    SESSION_REESTABLISHED = "session re-established"
    """A new session, without the ephemeral nodes of the lost one."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A node's value, and the version to expect in a later conditional write."""

    value: bytes
    version: int
    """0 when created, one more with every write."""
    ephemeral: bool
    mine: bool
    """Whether it is ephemeral and was created by the session that reads it."""
    created_ms: int = field(default=0, compare=False)
    """When a server created it, milliseconds since 1970; 0 where the store keeps no such time."""


Unsubscribe: TypeAlias = Callable[[], None]
Listener: TypeAlias = Callable[[Notification], None]
SessionListener: TypeAlias = Callable[[SessionEvent], None]


class MetadataReader(Protocol):
    """A session with a metadata store that only reads."""

    async def get(self, path: str) -> Stored | None:
        """The value and version of a node; None if there is no such node."""

    async def children(self, path: str) -> list[str]:
        """The names (not paths) of a node's children, sorted; empty if there is no such node."""

    async def close(self) -> None:
        """End the session with the metadata store."""


class MetadataStore(MetadataReader, Protocol):
    """One session with a metadata store.

    Listeners run on the event loop, after the change, in the order of the changes; they must not
    block. All operations raise `StoreUnavailable` if the store cannot be reached: a write may or
    may not have happened then.
    """

    async def put(
        self,
        path: str,
        value: bytes,
        *,
        expected_version: int | None = None,
        ephemeral: bool = False,
    ) -> int:
        """Write a node, creating its parents, and return its new version.

        ``expected_version``: None accepts any version, `MUST_NOT_EXIST` only creates. ``ephemeral``
        has an effect only when the node is created. Raises `BadVersion`.
        """

    async def put_next(self, prefix: str, value: bytes, *, ephemeral: bool) -> str:
        """Create a node whose name is ``prefix`` and the next number; returns its path.

        The number has ten digits, and is larger than that of any earlier child of its parent (which
        is created if missing). If the response is lost, the node may exist all the same.
        """

    async def delete(self, path: str, *, expected_version: int | None = None) -> None:
        """Remove a node without children; raises `NotFound`, `BadVersion` or `NotEmpty`."""

    async def exists(self, path: str) -> bool:
        """Whether there is such a node, with or without a value."""

    def subscribe(self, listener: Listener) -> Unsubscribe:
        """Call the listener for every change below the root of this store."""

    def subscribe_session(self, listener: SessionListener) -> Unsubscribe:
        """Call the listener when the session is interrupted, lost or established again."""

    @property
    def connected(self) -> bool:
        """Whether the session is alive and the store was reachable a moment ago."""

    async def close(self) -> None:
        """End the session: its ephemeral nodes vanish, its listeners are forgotten. Idempotent."""

    def kill(self) -> None:
        """Drop the session as a crash would; its ephemeral nodes vanish when the store notices.

        Its listeners are forgotten.
        """


def check_path(path: str) -> str:
    """The path itself; raises `InvalidPath` unless it is ``/a/b/c`` without empty segments."""
    if path == "/" or (
        path.startswith("/")
        and "//" not in path
        and not path.endswith("/")
        and "\0" not in path
        and not any(segment in {".", ".."} for segment in path.split("/"))
    ):
        return path
    raise InvalidPath(path)


def parent_of(path: str) -> str:
    """The path one level up; the root is its own parent."""
    return path.rpartition("/")[0] or "/"


def parents_of(path: str) -> list[str]:
    """The paths of a node's ancestors without the root, the outermost first."""
    found: list[str] = []
    while (path := parent_of(path)) != "/":
        found.append(path)
    return found[::-1]
