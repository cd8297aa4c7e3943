"""A metadata tree in this process, for the brokers of an embedded cluster and for tests.

`MemoryTree` takes the place of the server; each `MemoryStore` is one session with it. All sessions
of a tree belong to one event loop.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from counterpoise.metadata import errors
from counterpoise.metadata.listeners import Listeners
from counterpoise.metadata.port import (
    MUST_NOT_EXIST,
    Listener,
    Notification,
    NotificationKind,
    SessionEvent,
    SessionListener,
    Stored,
    Unsubscribe,
    check_path,
    parent_of,
    parents_of,
)


@dataclass(slots=True)
class Node:
    """One node of a `MemoryTree`. ``owner`` is the session of an ephemeral node, else None."""

    value: bytes = b""
    version: int = 0
    owner: MemoryStore | None = None
    children: set[str] = field(default_factory=set)
    numbered: int = 0
    """How many children were created with a number in their names (`MetadataStore.put_next`)."""


class MemoryTree:
    """A metadata store's tree in memory, which several sessions share."""

    def __init__(self) -> None:
        self._nodes: Final[dict[str, Node]] = {"/": Node()}
        self._sessions: Final[list[MemoryStore]] = []

    def open(self) -> MemoryStore:
        """Begin a new session."""
        session = MemoryStore(self)
        self._sessions.append(session)
        return session

    def restore(self, path: str, value: bytes, version: int, numbered: int) -> None:
        """Add a node that was read from a file, without notifications. Add parents first."""
        self._nodes[path] = Node(value, version, numbered=numbered)
        self._nodes[parent_of(path)].children.add(path.rpartition("/")[2])

    def read(self, path: str) -> Node | None:
        """The node at a path; None if there is none."""
        return self._nodes.get(path)

    async def put(
        self,
        session: MemoryStore,
        path: str,
        value: bytes,
        expected: int | None,
        *,
        ephemeral: bool,
    ) -> int:
        """Create or replace a node for a session, and return its new version.

        ``expected`` as in `MetadataStore.put`; raises `BadVersion`.
        """
        return self.write(session, path, value, expected, ephemeral=ephemeral)

    async def put_next(
        self, session: MemoryStore, prefix: str, value: bytes, *, ephemeral: bool
    ) -> str:
        """For a session, create a node named ``prefix`` and the next number; returns its path."""
        number = self.next_number(parent_of(prefix))
        path = f"{prefix}{number:010d}"
        self.write(session, path, value, MUST_NOT_EXIST, ephemeral=ephemeral)
        self._nodes[parent_of(path)].numbered = number + 1
        return path

    def next_number(self, parent: str) -> int:
        """The number that this node's next numbered child gets."""
        node = self._nodes.get(parent)
        return 0 if node is None else node.numbered

    async def delete(self, path: str, expected: int | None) -> None:
        """Delete a node without children; raises `NotFound`, `BadVersion` or `NotEmpty`."""
        self.remove(path, expected)

    def write(
        self,
        session: MemoryStore,
        path: str,
        value: bytes,
        expected: int | None,
        *,
        ephemeral: bool,
    ) -> int:
        """The part of `put` that changes the tree in memory; does not await anything."""
        self.check_write(path, expected)
        node = self._nodes.get(path)
        if node is None:
            self._create(path, Node(value, owner=session if ephemeral else None))
            return 0
        node.value, node.version = value, node.version + 1
        self._notify(NotificationKind.MODIFIED, path)
        return node.version

    def remove(self, path: str, expected: int | None) -> None:
        """The part of `delete` that changes the tree in memory; does not await anything."""
        self.check_removal(path, expected)
        del self._nodes[path]
        self._nodes[parent_of(path)].children.discard(path.rpartition("/")[2])
        self._notify(NotificationKind.DELETED, path)

    def check_write(self, path: str, expected: int | None) -> None:
        """Raise the error that writing this node would raise, such as `BadVersion`."""
        node = self._nodes.get(path)
        if node is not None:
            if expected is not None and expected != node.version:
                raise errors.BadVersion(path)
            return
        if expected is not None and expected != MUST_NOT_EXIST:
            raise errors.BadVersion(path)
        for parent in parents_of(path):
            above = self._nodes.get(parent)
            if above is not None and above.owner is not None:
                raise errors.EphemeralParent(path)

    def check_removal(self, path: str, expected: int | None) -> Node:
        """Return the node; raises the error that deleting it would raise, such as `NotEmpty`."""
        node = self._nodes.get(path)
        if node is None:
            raise errors.NotFound(path)
        if expected is not None and expected != node.version:
            raise errors.BadVersion(path)
        if node.children:
            raise errors.NotEmpty(path)
        return node

    def end(self, session: MemoryStore) -> None:
        """End a session and remove its ephemeral nodes."""
        self._sessions.remove(session)
        self.expire(session)

    def expire(self, session: MemoryStore) -> None:
        """Remove a session's ephemeral nodes, as when it times out."""
        for path in sorted(path for path, node in self._nodes.items() if node.owner is session):
            self.remove(path, None)

    def _create(self, path: str, node: Node) -> None:
        for parent in [*parents_of(path), path]:
            if parent in self._nodes:
                continue
            above = self._nodes[parent_of(parent)]
            above.children.add(parent.rpartition("/")[2])
            self._nodes[parent] = node if parent == path else Node()
            self._notify(NotificationKind.CREATED, parent)

    def _notify(self, kind: NotificationKind, path: str) -> None:
        for session in self._sessions:
            session.hear(Notification(kind, path))


class MemoryStore:
    """One session with a `MemoryTree`, as a `MetadataStore`."""

    def __init__(self, tree: MemoryTree) -> None:
        self._tree = tree
        self._listeners: Final = Listeners[Notification]()
        self._session_listeners: Final = Listeners[SessionEvent]()
        self._open = True
        self._lost = False

    async def get(self, path: str) -> Stored | None:
        """The value and version of a node; None if there is no such node."""
        node = self._reach("get", path).read(path)
        if node is None:
            return None
        return Stored(node.value, node.version, node.owner is not None, node.owner is self)

    async def put(
        self,
        path: str,
        value: bytes,
        *,
        expected_version: int | None = None,
        ephemeral: bool = False,
    ) -> int:
        """Write a node, creating its parents, and return its new version."""
        tree = self._reach("put", path)
        return await tree.put(self, path, value, expected_version, ephemeral=ephemeral)

    async def put_next(self, prefix: str, value: bytes, *, ephemeral: bool) -> str:
        """Create a node whose name is ``prefix`` and the next number; returns its path."""
        tree = self._reach("put", prefix)
        return await tree.put_next(self, prefix, value, ephemeral=ephemeral)

    async def delete(self, path: str, *, expected_version: int | None = None) -> None:
        """Remove a node without children; raises `NotFound`, `BadVersion` or `NotEmpty`."""
        await self._reach("delete", path).delete(path, expected_version)

    async def children(self, path: str) -> list[str]:
        """The names (not paths) of a node's children, sorted; empty if there is no such node."""
        node = self._reach("children", path).read(path)
        return [] if node is None else sorted(node.children)

    async def exists(self, path: str) -> bool:
        """Whether there is such a node, with or without a value."""
        return self._reach("exists", path).read(path) is not None

    def subscribe(self, listener: Listener) -> Unsubscribe:
        """Call the listener for every change below the root of this store."""
        return self._listeners.add(listener)

    def subscribe_session(self, listener: SessionListener) -> Unsubscribe:
        """Call the listener when the session is interrupted, lost or established again."""
        return self._session_listeners.add(listener)

    @property
    def connected(self) -> bool:
        """Whether the session is alive and the store was reachable a moment ago."""
        return self._open and not self._lost

    async def close(self) -> None:
        """End the session: its ephemeral nodes vanish now."""
        self.kill()

    def kill(self) -> None:
        """Drop the session as a crash would; its ephemeral nodes vanish at once."""
        if self._open:
            self._open = False
            self._listeners.clear()
            self._session_listeners.clear()
            self._tree.end(self)

    def expire(self) -> None:
        """Lose the session and get a new one at once, as after a long network partition."""
        self.lose()
        self.come_back()

    def lose(self) -> None:
        """Lose the session until `come_back`: its ephemeral nodes vanish at once, and meanwhile no
        operation works and no change is notified.

        As in ZooKeeper, the session itself is not notified of the deletion of its ephemeral nodes.
        """
        self._lost = True
        self._tree.expire(self)
        self._notify(SessionEvent.SESSION_LOST)

    def come_back(self) -> None:
        """Start a new session after the old one was lost."""
        self._lost = False
        self._notify(SessionEvent.SESSION_REESTABLISHED)

    def hear(self, notification: Notification) -> None:
        """Queue a notification for the listeners, who get it after the write has returned."""
        if self._listeners and not self._lost:
            asyncio.get_running_loop().call_soon(self._listeners.notify, notification)

    def _notify(self, event: SessionEvent) -> None:
        asyncio.get_running_loop().call_soon(self._session_listeners.notify, event)

    def _reach(self, what: str, path: str) -> MemoryTree:
        check_path(path)
        if not self._open:
            raise errors.StoreUnavailable(f"{what} {path}", "this session is closed")
        if self._lost:
            raise errors.StoreUnavailable(f"{what} {path}", "this session is lost")
        return self._tree
