"""A metadata store on Apache ZooKeeper (3.6 or later), by kazoo.

Kazoo runs its own threads, which never access this object: their events are passed to the event
loop, and every operation awaits one of kazoo's asynchronous calls.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from kazoo import exceptions as zk_errors
from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState

from counterpoise.metadata import errors
from counterpoise.metadata.listeners import Listeners
from counterpoise.metadata.port import (
    MUST_NOT_EXIST,
    VALUE_BYTES_MAX,
    Listener,
    Notification,
    SessionEvent,
    SessionListener,
    Stored,
    Unsubscribe,
    check_path,
)
from counterpoise.metadata.zk_handler import ANSWER_S, bounded_handler
from counterpoise.metadata.zk_session import SessionWatch
from counterpoise.metadata.zk_watch import SubtreeWatch

log = logging.getLogger(__name__)

CLOSE_S: Final = 5.0
"""For how many seconds closing waits for a silent server; the session then ends by its timeout."""
_RECONNECT_MAX_S: Final = 1.0
"""Longest pause between two tries to reach a server again; kazoo's own grows to a minute."""

_WRITE_ROUNDS: Final = 8
"""How often a write without an expected version is tried while other clients create and delete the
node."""

_UNAVAILABLE: Final[Mapping[type[Exception], str]] = {
    zk_errors.ConnectionLoss: "the connection was lost",
    zk_errors.SessionExpiredError: "this session has expired",
    zk_errors.ConnectionClosedError: "this session is closed",
}
"""Kazoo's errors for requests that got no answer, with the reason to report for each."""


class ZooKeeperStore:
    """One ZooKeeper session, as a `MetadataStore`. Open it with `ZooKeeperStore.connect`."""

    def __init__(
        self,
        address: str,
        *,
        session_timeout_s: float,
        operation_timeout_s: float,
        read_only: bool = False,
        answer_s: float = ANSWER_S,
    ) -> None:
        self._address = address
        self._read_only = read_only
        self._operation_timeout_s = operation_timeout_s
        self._client: Any = KazooClient(
            hosts=address,
            timeout=session_timeout_s,
            handler=bounded_handler(answer_s),
            connection_retry={"max_tries": -1, "delay": 0.05, "max_delay": _RECONNECT_MAX_S},
            logger=_quiet_logger(),
        )
        self._loop = asyncio.get_running_loop()
        self._listeners: Final = Listeners[Notification]()
        self._session_listeners: Final = Listeners[SessionEvent]()
        self._subtree = SubtreeWatch(self._client, self._from_thread(self._listeners.notify))
        self._session = SessionWatch(
            session_timeout_s, rewatch=self._watch, notify=self._session_listeners.notify
        )
        self._closed = False

    @classmethod
    async def connect(
        cls,
        address: str,
        *,
        session_timeout_s: float = 30.0,
        operation_timeout_s: float = 30.0,
        read_only: bool = False,
        answer_s: float = ANSWER_S,
    ) -> "ZooKeeperStore":
        """Connect to ``host:port[,host:port…][/chroot]``; raises `StoreUnavailable`.

        With ``read_only`` the chroot is not created, and there are no notifications of changes. A
        server that accepts a connection and is silent for ``answer_s`` seconds is left for another
        one.
        """
        store = cls(
            address,
            session_timeout_s=session_timeout_s,
            operation_timeout_s=operation_timeout_s,
            read_only=read_only,
            answer_s=answer_s,
        )
        await store._start()
        return store

    async def get(self, path: str) -> Stored | None:
        """The value and version of a node; None if there is no such node."""
        try:
            value, stat = await self._call("get", check_path(path))
        except zk_errors.NoNodeError:
            return None
        owner = stat.ephemeralOwner
        mine = owner == self._session_id
        return Stored(value or b"", stat.version, owner != 0, mine, stat.ctime)

    async def put(
        self,
        path: str,
        value: bytes,
        *,
        expected_version: int | None = None,
        ephemeral: bool = False,
    ) -> int:
        """Write a node, creating its parents, and return its new version."""
        _check_size(check_path(path), value)
        if expected_version == MUST_NOT_EXIST:
            await self._create(path, value, ephemeral=ephemeral)
            return 0
        if expected_version is not None:
            return await self._set(path, value, expected_version)
        for _ in range(_WRITE_ROUNDS):
            with contextlib.suppress(errors.BadVersion):
                return await self._set(path, value, -1)
            with contextlib.suppress(errors.BadVersion):
                await self._create(path, value, ephemeral=ephemeral)
                return 0
        raise errors.BadVersion(path)

    async def put_next(self, prefix: str, value: bytes, *, ephemeral: bool) -> str:
        """Create a node whose name is ``prefix`` and the next number; returns its path."""
        _check_size(check_path(prefix), value)
        return await self._create(prefix, value, ephemeral=ephemeral, sequence=True)

    async def delete(self, path: str, *, expected_version: int | None = None) -> None:
        """Remove a node without children; raises `NotFound`, `BadVersion` or `NotEmpty`."""
        version = -1 if expected_version is None else expected_version
        try:
            await self._call("delete", check_path(path), version=version)
        except zk_errors.NoNodeError:
            raise errors.NotFound(path) from None
        except zk_errors.BadVersionError:
            raise errors.BadVersion(path) from None
        except zk_errors.NotEmptyError:
            raise errors.NotEmpty(path) from None

    async def children(self, path: str) -> list[str]:
        """The names (not paths) of a node's children, sorted; empty if there is no such node."""
        try:
            return sorted(await self._call("get_children", check_path(path)))
        except zk_errors.NoNodeError:
            return []

    async def exists(self, path: str) -> bool:
        """Whether there is such a node, with or without a value."""
        return await self._call("exists", check_path(path)) is not None

    def subscribe(self, listener: Listener) -> Unsubscribe:
        """Call the listener for every change below the root of this store."""
        return self._listeners.add(listener)

    def subscribe_session(self, listener: SessionListener) -> Unsubscribe:
        """Call the listener when the session is interrupted, lost or established again."""
        return self._session_listeners.add(listener)

    @property
    def connected(self) -> bool:
        """Whether the session is alive and the store was reachable a moment ago."""
        return self._session.connected

    async def close(self) -> None:
        """End the session: its ephemeral nodes vanish now."""
        if not self._closed:
            self._silence()
            ended = self._stop_beside()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await ended.wait()

    def kill(self) -> None:
        """Drop the session as a crash would; its ephemeral nodes vanish when ZooKeeper notices.

        The session is closed from a thread that is not joined.
        """
        if not self._closed:
            self._silence()
            self._stop_beside()

    @property
    def _session_id(self) -> int | None:
        client_id = self._client.client_id
        return None if client_id is None else int(client_id[0])

    async def _start(self) -> None:
        what = f"connecting to ZooKeeper at {self._address}"
        # Awaited here, since the process could not exit before a thread that waits.
        connected = asyncio.Event()

        def hear(state: Any) -> None:
            self._session.on_state(state)
            if state == KazooState.CONNECTED:
                connected.set()

        self._client.add_listener(self._from_thread(hear))
        self._client.start_async()
        try:
            try:
                async with asyncio.timeout(self._operation_timeout_s):
                    await connected.wait()
            except TimeoutError:
                why = f"no answer within {self._operation_timeout_s:g} s"
                raise errors.StoreUnavailable(what, why) from None
            if not self._read_only:
                await self._call("ensure_path", "/")
            await self._watch()
        except zk_errors.KazooException as error:
            self.kill()
            raise errors.StoreUnavailable(what, type(error).__name__) from error
        except BaseException:
            self.kill()
            raise

    async def _watch(self) -> None:
        if not self._read_only:
            await self._subtree.establish()

    def _silence(self) -> None:
        self._closed = True
        self._session.stop()
        self._listeners.clear()

    def _stop_beside(self) -> asyncio.Event:
        """End the session in its own thread: kazoo waits for a server that does not respond."""
        ended = asyncio.Event()
        notify = self._from_thread(ended.set)

        def stop() -> None:
            try:
                self._client.stop()
                self._client.close()
            except (zk_errors.KazooException, OSError) as error:
                log.info("the session at %s did not end in order: %r", self._address, error)
            finally:
                notify()

        threading.Thread(target=stop, name="zookeeper-close", daemon=True).start()
        return ended

    async def _create(
        self, path: str, value: bytes, *, ephemeral: bool, sequence: bool = False
    ) -> str:
        """Create a node and return its path, which ends in a number with ``sequence``."""
        for _ in range(_WRITE_ROUNDS):
            try:
                made = await self._call(
                    "create", path, value, ephemeral=ephemeral, sequence=sequence, makepath=True
                )
            except zk_errors.NodeExistsError:
                raise errors.BadVersion(path) from None
            except zk_errors.NoChildrenForEphemeralsError:
                raise errors.EphemeralParent(path) from None
            except zk_errors.NoNodeError:
                # Another client removed a parent between its creation and ours.
                continue
            return str(made)
        raise errors.BadVersion(path)

    async def _set(self, path: str, value: bytes, version: int) -> int:
        try:
            stat = await self._call("set", path, value, version=version)
        except (zk_errors.BadVersionError, zk_errors.NoNodeError):
            raise errors.BadVersion(path) from None
        return int(stat.version)

    async def _call(self, method: str, path: str, *args: Any, **kwargs: Any) -> Any:
        what = f"{method} {path}"
        if self._closed:
            raise errors.StoreUnavailable(what, "this session is closed")
        future: asyncio.Future[Any] = self._loop.create_future()
        resolve = self._from_thread(_resolver(future))
        try:
            getattr(self._client, f"{method}_async")(path, *args, **kwargs).rawlink(resolve)
            async with asyncio.timeout(self._operation_timeout_s):
                return await future
        except TimeoutError:
            raise errors.StoreUnavailable(
                what, f"no answer within {self._operation_timeout_s:g} s"
            ) from None
        except tuple(_UNAVAILABLE) as error:
            raise errors.StoreUnavailable(what, _UNAVAILABLE[type(error)]) from None

    def _from_thread(self, function: Callable[..., None]) -> Callable[..., None]:
        def hand_over(*args: Any) -> None:
            # The loop may be closed already when a last event of kazoo's threads arrives.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(function, *args)

        return hand_over


def _check_size(path: str, value: bytes) -> None:
    if len(value) > VALUE_BYTES_MAX:
        raise errors.ValueTooLarge(path)


def _quiet_logger() -> logging.Logger:
    """A silent logger: kazoo warns of every dropped connection, which session events report."""
    logger = logging.getLogger(f"{__name__}.kazoo")
    logger.setLevel(logging.ERROR)
    return logger


def _resolver(future: asyncio.Future[Any]) -> Callable[[Any], None]:
    def resolve(result: Any) -> None:
        if future.done():
            return
        if result.exception is None:
            future.set_result(result.value)
        else:
            future.set_exception(result.exception)

    return resolve
