"""A metadata store and the network between it and its sessions, as a model.

What it keeps of ZooKeeper's promises: operations of a session are carried out in order, once or
not at all; answers come back in order; notifications come in the order of the changes, and none is
missed without the session being interrupted. What it doesn't: answers and notifications overtake
each other, notifications come late and twice, an answer may be lost with the connection after the
work was done, and a session ends at the server before its client knows.
"""

import asyncio
import contextvars
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from counterpoise.metadata import (
    BadVersion,
    Notification,
    NotificationKind,
    SessionEvent,
    StoreUnavailable,
)
from counterpoise.metadata.errors import NotFound
from counterpoise.metadata.listeners import Listeners
from counterpoise.metadata.port import MUST_NOT_EXIST, Stored
from tests.sim.loop import Machine, SimulatedLoop
from tests.sim.story import Story


@dataclass
class Node:
    """A value at a path, and the session that it belongs to."""

    value: bytes
    version: int
    owner: int


@dataclass(frozen=True)
class Network:
    """How slow and how unreliable the way to the store is."""

    usual_s: float = 0.004
    slow_s: float = 0.4
    slow_share: float = 0.02
    repeat_share: float = 0.02
    held_share: float = 0.02
    """Of the answers: held up at the client, where news of the session may overtake them."""
    held_s: float = 1.0
    session_s: float = 4.0
    """After this long without a sign of life the server ends a session."""
    operation_s: float = 6.0


class Server:
    """The tree, and who is connected."""

    def __init__(self, loop: SimulatedLoop, rng: Random, network: Network, story: Story) -> None:
        self.loop, self.rng, self.network, self.story = loop, rng, network, story
        self.nodes: dict[str, Node] = {}
        self.sessions: dict[int, Session] = {}
        self.on_change: Callable[[str, bytes | None, bytes | None], None] = lambda *_: None
        """Hears of every change: the path, and the value before and after it."""
        self._last = 0
        self.reachable = True

    def new_session(self, session: "Session") -> int:
        """Number a new session."""
        self._last += 1
        self.sessions[self._last] = session
        return self._last

    def delay(self) -> float:
        """How long a message takes."""
        network = self.network
        top = network.slow_s if self.rng.random() < network.slow_share else network.usual_s
        return self.rng.uniform(0.0005, top)

    def apply(self, number: int, operation: str, path: str, *rest: Any) -> Any:
        """Carry out an operation of a session."""
        node = self.nodes.get(path)
        if operation == "get":
            if node is None:
                return None
            return Stored(node.value, node.version, node.owner != 0, node.owner == number)
        if operation == "children":
            below = path + "/"
            names = (each[len(below) :] for each in self.nodes if each.startswith(below))
            return sorted({name.partition("/")[0] for name in names})
        if operation == "put":
            before = None if node is None else node.value
            version = self._put(number, path, node, *rest)
            self.on_change(path, before, rest[0])
            return version
        (expected,) = rest
        if node is None:
            raise NotFound(path)
        if expected is not None and expected != node.version:
            raise BadVersion(path)
        del self.nodes[path]
        self.on_change(path, node.value, None)
        self._notify(NotificationKind.DELETED, path)
        return None

    def _put(
        self, number: int, path: str, node: Node | None, value: bytes, expected: Any, mine: bool
    ) -> int:
        if node is None:
            if expected not in (None, MUST_NOT_EXIST):
                raise BadVersion(path)
            self.nodes[path] = Node(value, 0, number if mine else 0)
            self._notify(NotificationKind.CREATED, path)
            return 0
        if expected is not None and expected != node.version:
            raise BadVersion(path)
        node.value, node.version = value, node.version + 1
        self._notify(NotificationKind.MODIFIED, path)
        return node.version

    def end(self, number: int) -> None:
        """End a session: its ephemeral nodes go."""
        if self.sessions.pop(number, None) is not None:
            for path in [path for path, node in self.nodes.items() if node.owner == number]:
                del self.nodes[path]
                self._notify(NotificationKind.DELETED, path)

    def _notify(self, kind: NotificationKind, path: str) -> None:
        for session in self.sessions.values():
            session.post(Notification(kind, path))


class Session:
    """A broker's side of it: the port that the code under test knows."""

    def __init__(self, server: Server, machine: Machine) -> None:
        self._server, self._loop, self._machine = server, server.loop, machine
        self._listeners = Listeners[Notification]()
        self._session_listeners = Listeners[SessionEvent]()
        self.number = server.new_session(self)
        self.cut = False
        """Whether the network is cut; what is sent now waits or fails."""
        self._connected = True
        self._lost = False
        self._lease: asyncio.TimerHandle | None = None
        self._sent_until = self._heard_until = self._notified_until = 0.0
        self._under_way: dict[int, asyncio.Future[Any]] = {}
        self._queued: list[tuple[Any, ...]] = []
        self._count = 0
        self._connection = 0
        self.away_since = 0.0
        """When it last noticed that the store is out of reach."""
        self._silent_from: float | None = None

    # The port.

    async def get(self, path: str) -> Stored | None:
        found: Stored | None = await self._call("get", path)
        return found

    async def put(
        self,
        path: str,
        value: bytes,
        *,
        expected_version: int | None = None,
        ephemeral: bool = False,
    ) -> int:
        version: int = await self._call("put", path, value, expected_version, ephemeral)
        return version

    async def delete(self, path: str, *, expected_version: int | None = None) -> None:
        await self._call("delete", path, expected_version)

    async def children(self, path: str) -> list[str]:
        names: list[str] = await self._call("children", path)
        return names

    async def exists(self, path: str) -> bool:
        return await self.get(path) is not None

    def subscribe(self, listener: Callable[[Notification], None]) -> Callable[[], None]:
        return self._listeners.add(listener)

    def subscribe_session(self, listener: Callable[[SessionEvent], None]) -> Callable[[], None]:
        return self._session_listeners.add(listener)

    @property
    def connected(self) -> bool:
        return self._connected

    async def close(self) -> None:
        self.kill()

    def kill(self) -> None:
        self._connected = False
        self._server.end(self.number)

    # The network.

    async def _call(self, operation: str, path: str, *rest: Any) -> Any:
        loop, server = self._loop, self._server
        answer: asyncio.Future[Any] = loop.create_future()
        self._count += 1
        count = self._count
        if not self._connected:
            if server.rng.random() < 0.5:
                raise StoreUnavailable(f"{operation} {path}", "not connected")
            # Kept for the next connection, if that belongs to the same session.
            self._queued.append((self.number, count, operation, path, *rest))
            self._under_way[count] = answer
        else:
            self._under_way[count] = answer
            self._send(self.number, count, operation, path, *rest)
        patience = loop.call_later(server.network.operation_s, self._fail, count, "no answer")
        try:
            return await answer
        finally:
            patience.cancel()
            self._under_way.pop(count, None)

    def _send(self, number: int, count: int, *what: Any) -> None:
        self._sent_until = max(self._sent_until, self._loop.time() + self._server.delay())
        self._at(self._sent_until, self._arrive, self._connection, number, count, *what)

    def _at(self, when: float, callback: Callable[..., None], *args: Any) -> None:
        # On behalf of no machine: the network does not stop with one.
        self._loop.call_at(when, callback, *args, context=NO_MACHINE)

    def _arrive(
        self, connection: int, number: int, count: int, operation: str, path: str, *rest: Any
    ) -> None:
        if self.cut or number not in self._server.sessions:
            return
        answer: Any
        failed = False
        try:
            answer = self._server.apply(number, operation, path, *rest)
        except (BadVersion, NotFound) as error:
            answer, failed = error, True
        if operation not in ("get", "children"):
            self._server.story.log(
                self._loop.time(), "the store: %s for %s: %s", f"{operation} {path}",
                self._machine.name, answer,
            )  # fmt: skip
        self._heard_until = max(self._heard_until, self._loop.time() + self._server.delay())
        self._at(self._heard_until, self._answer, connection, count, answer, failed)

    def _answer(self, connection: int, count: int, answer: Any, failed: bool) -> None:
        future = self._under_way.get(count)
        if self.cut or connection != self._connection or future is None or future.done():
            return
        del self._under_way[count]
        network, rng = self._server.network, self._server.rng
        if rng.random() < network.held_share:
            until = self._loop.time() + rng.uniform(0, network.held_s)
            self._at(until, self._hand_out, future, answer, failed)
        else:
            self._hand_out(future, answer, failed)

    @staticmethod
    def _hand_out(future: asyncio.Future[Any], answer: Any, failed: bool) -> None:
        if future.done():
            return
        if failed:
            future.set_exception(answer)
        else:
            future.set_result(answer)

    def post(self, notification: Notification) -> None:
        """Send a notification to this session's client."""
        server = self._server
        times = 2 if server.rng.random() < server.network.repeat_share else 1
        for _ in range(times):
            self._notified_until = max(self._notified_until, self._loop.time() + server.delay())
            self._at(self._notified_until, self._notify, self._connection, notification)

    def _notify(self, connection: int, notification: Notification) -> None:
        if not self.cut and connection == self._connection and not self._machine.dead:
            self._loop.call_soon(
                self._listeners.notify, notification, context=self._machine.context
            )

    # Faults.

    def cut_off(self) -> None:
        """Cut the network; both ends notice in their own time."""
        self.cut = True
        now, server = self._loop.time(), self._server
        self._at(now + server.delay(), self._disconnect)
        self._silent_since(now)

    def _silent_since(self, now: float) -> None:
        if self._silent_from is None:
            self._silent_from = now
            late = now + self._server.network.session_s
            self._at(late, self._expire_if_silent, self.number, now)

    def silent(self) -> None:
        """The machine froze or died: no sign of life reaches the server any more."""
        self._silent_since(self._loop.time())

    def _expire_if_silent(self, number: int, since: float) -> None:
        if self._silent_from == since:
            self._expire(number)

    def expire(self) -> None:
        """End the session at the server, as when it lost its own memory of it."""
        self._expire(self.number)
        self._at(self._loop.time() + self._server.delay(), self._disconnect)

    def _expire(self, number: int) -> None:
        if number in self._server.sessions:
            self._server.story.log(
                self._loop.time(), "the store: the session of %s ends", self._machine.name
            )
            self._server.end(number)

    def repair_all(self) -> None:
        """Let the network, or a thawed machine, reach the server again."""
        self.cut = False
        self._at(self._loop.time() + self._server.delay(), self._come_back)

    def _disconnect(self) -> None:
        if self._machine.dead or not self._connected:
            return
        self._connected = False
        self.away_since = self._loop.time()
        self._connection += 1
        for count in list(self._under_way):
            self._fail(count, "the connection was lost")
        self._notify_session(SessionEvent.CONNECTION_LOST)
        lease = self._server.network.session_s
        self._lease = self._loop.call_later(lease, self._lose, context=self._machine.context)
        if not self.cut:
            self._at(self._loop.time() + self._server.delay(), self._come_back)

    def _fail(self, count: int, why: str) -> None:
        future = self._under_way.get(count)
        if future is not None and not future.done():
            future.set_exception(StoreUnavailable("an operation", why))

    def _lose(self) -> None:
        """By the client's own clock the session is over."""
        if self._lease is not None:
            self._lease.cancel()
            self._lease = None
        if not self._connected and not self._lost:
            self._lost = True
            self._notify_session(SessionEvent.SESSION_LOST)

    def _come_back(self) -> None:
        if self.cut or self._machine.dead or self._machine.frozen:
            return
        self._silent_from = None
        if self._connected:
            if self.number not in self._server.sessions:
                self._disconnect()
            return
        if self.number not in self._server.sessions:
            self._lose()
            self.number = self._server.new_session(self)
        if self._lease is not None:
            self._lease.cancel()
            self._lease = None
        self._connected = True
        queued, self._queued = self._queued, []
        for number, count, *what in queued:
            if number == self.number:
                self._send(number, count, *what)
            else:
                self._fail(count, "its session is over")
        lost, self._lost = self._lost, False
        self._notify_session(
            SessionEvent.SESSION_REESTABLISHED if lost else SessionEvent.RECONNECTED
        )

    def _notify_session(self, event: SessionEvent) -> None:
        self._server.story.log(self._loop.time(), "%s hears: %s", self._machine.name, event.value)
        self._loop.call_soon(self._session_listeners.notify, event, context=self._machine.context)


NO_MACHINE = contextvars.Context()
"""On whose behalf the network acts."""
