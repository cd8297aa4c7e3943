"""Reports the state of a ZooKeeper session as `SessionEvent`.

Kazoo learns that a session expired only from a server. A broker that is cut off has to know
earlier: after one session timeout without a server, other brokers may have acquired its bundles. So
this watch also declares the session lost by its own clock, as Pulsar's ``ZKSessionWatcher``
does.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from kazoo.protocol.states import KazooState

from counterpoise.metadata.port import SessionEvent

log = logging.getLogger(__name__)


class SessionWatch:
    """Turns the connection states that kazoo reports into `SessionEvent`s, on the event loop."""

    def __init__(
        self,
        timeout_s: float,
        *,
        rewatch: Callable[[], Awaitable[None]],
        notify: Callable[[SessionEvent], None],
    ) -> None:
        self._timeout_s = timeout_s
        self._rewatch = rewatch
        self._notify = notify
        self._loop = asyncio.get_running_loop()
        self._connected = False
        self._ever_connected = False
        self._lost = False
        self._stopped = False
        self._deadline: asyncio.TimerHandle | None = None
        self._return: asyncio.Task[None] | None = None

    @property
    def connected(self) -> bool:
        """Whether the session is established, and its watch on all nodes is set."""
        return self._connected

    def stop(self) -> None:
        """Report no more events, because the session is being closed."""
        self._stopped = True
        self._connected = False
        self._disarm()
        self._stay_away()

    def on_state(self, state: Any) -> None:
        """Handle a new connection state from kazoo."""
        if self._stopped:
            return
        # Watches belong to a connection: those that were just set up may be of the last one.
        self._stay_away()
        if state == KazooState.CONNECTED:
            self._on_connected()
        elif state == KazooState.SUSPENDED:
            self._on_suspended()
        elif self._ever_connected:
            self._on_lost()

    def _on_connected(self) -> None:
        if not self._ever_connected:
            self._ever_connected = self._connected = True
            return
        self._return = self._loop.create_task(self._come_back())

    def _stay_away(self) -> None:
        if self._return is not None:
            self._return.cancel()

    async def _come_back(self) -> None:
        # Before any cache is filled.
        try:
            await self._rewatch()
        except Exception as error:
            log.warning("the metadata store went away again while watches were set up: %s", error)
            return
        self._disarm()
        self._connected = True
        lost, self._lost = self._lost, False
        self._notify(SessionEvent.SESSION_REESTABLISHED if lost else SessionEvent.RECONNECTED)

    def _on_suspended(self) -> None:
        self._connected = False
        self._notify(SessionEvent.CONNECTION_LOST)
        self._disarm()
        self._deadline = self._loop.call_later(self._timeout_s, self._on_lost)

    def _on_lost(self) -> None:
        self._connected = False
        self._disarm()
        if not self._lost:
            self._lost = True
            self._notify(SessionEvent.SESSION_LOST)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
