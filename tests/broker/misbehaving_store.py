"""A metadata session in memory that can do everything a real one does on a bad day.

It can be out of reach, hang, lose its session, come back, and notify late.
"""

import asyncio
from collections.abc import Callable

from counterpoise.metadata import MemoryTree, Notification, SessionEvent, StoreUnavailable
from counterpoise.metadata.listeners import Listeners
from counterpoise.metadata.memory import MemoryStore
from counterpoise.metadata.port import Listener, SessionListener, Stored, Unsubscribe

Fault = Callable[[str, str], bool]
"""Whether an operation (``get``, ``put`` …) on a path is to fail."""


class MisbehavingStore:
    """One session with a `MemoryTree`, by way of a network that a test controls."""

    def __init__(self, tree: MemoryTree) -> None:
        self._tree = tree
        self._listeners = Listeners[Notification]()
        self._session_listeners = Listeners[SessionEvent]()
        self._session = self._new_session()
        self._away = False
        self._holding: list[Notification] | None = None
        self._closed = False
        self.fails: Fault = lambda _, __: False
        """Fail before anything is done."""
        self.fails_afterwards: Fault = lambda _, __: False
        """Do it, and lose the answer."""
        self.hangs: Fault = lambda _, __: False
        """Never answer."""
        self.takes_turns = 0
        """For how many turns of the loop each operation is on its way."""
        self.asked: list[tuple[str, str]] = []

    # What a test does to it.

    def go_away(self) -> None:
        """Be out of reach: operations fail and nothing is heard."""
        self._away = True
        self._report_session(SessionEvent.CONNECTION_LOST)

    def lose_session(self) -> None:
        """Let the session end while it is out of reach; its owner hears that and nothing else."""
        if not self._away:
            self.go_away()
        self._session.kill()
        self._report_session(SessionEvent.SESSION_LOST)

    def come_back(self) -> None:
        """Be within reach again, in the same session or, if that was lost, in a new one."""
        self._away = False
        lost = not self._session.connected
        if lost:
            self._session = self._new_session()
        self._report_session(
            SessionEvent.SESSION_REESTABLISHED if lost else SessionEvent.RECONNECTED
        )

    def hold_notifications(self) -> None:
        """Keep notifications until `release_notifications`."""
        self._holding = []

    def release_notifications(self, *, times: int = 1) -> None:
        """Report the notifications that were held back, each so often."""
        held, self._holding = self._holding or [], None
        for notification in held:
            for _ in range(times):
                self._listeners.notify(notification)

    # The port.

    async def get(self, path: str) -> Stored | None:
        await self.reach("get", path)
        found = await self._session.get(path)
        self._answer("get", path)
        return found

    async def put(
        self,
        path: str,
        value: bytes,
        *,
        expected_version: int | None = None,
        ephemeral: bool = False,
    ) -> int:
        await self.reach("put", path)
        version = await self._session.put(
            path, value, expected_version=expected_version, ephemeral=ephemeral
        )
        self._answer("put", path)
        return version

    async def put_next(self, prefix: str, value: bytes, *, ephemeral: bool) -> str:
        await self.reach("put", prefix)
        path = await self._session.put_next(prefix, value, ephemeral=ephemeral)
        self._answer("put", prefix)
        return path

    async def delete(self, path: str, *, expected_version: int | None = None) -> None:
        await self.reach("delete", path)
        await self._session.delete(path, expected_version=expected_version)
        self._answer("delete", path)

    async def children(self, path: str) -> list[str]:
        await self.reach("children", path)
        return await self._session.children(path)

    async def exists(self, path: str) -> bool:
        await self.reach("exists", path)
        return await self._session.exists(path)

    def subscribe(self, listener: Listener) -> Unsubscribe:
        return self._listeners.add(listener)

    def subscribe_session(self, listener: SessionListener) -> Unsubscribe:
        return self._session_listeners.add(listener)

    @property
    def connected(self) -> bool:
        return not self._away and not self._closed

    async def close(self) -> None:
        self.kill()

    def kill(self) -> None:
        self._closed = True
        self._listeners.clear()
        self._session_listeners.clear()
        self._session.kill()

    def _new_session(self) -> MemoryStore:
        session = self._tree.open()
        session.subscribe(self._hear)
        return session

    def _hear(self, notification: Notification) -> None:
        if self._away:
            return
        if self._holding is not None:
            self._holding.append(notification)
        else:
            self._listeners.notify(notification)

    def _report_session(self, event: SessionEvent) -> None:
        asyncio.get_running_loop().call_soon(self._session_listeners.notify, event)

    async def reach(self, operation: str, path: str) -> None:
        self.asked.append((operation, path))
        for _ in range(1 + self.takes_turns):
            await asyncio.sleep(0)
        if self.hangs(operation, path):
            await asyncio.get_running_loop().create_future()
        if self._closed or self._away or self.fails(operation, path):
            raise StoreUnavailable(f"{operation} {path}", "a test made it so")

    def _answer(self, operation: str, path: str) -> None:
        if self.fails_afterwards(operation, path):
            raise StoreUnavailable(f"{operation} {path}", "a test lost the answer")
