"""One broker: how it starts, and how it ends. `parts` says what it is made of."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from counterpoise.broker.base.errors import store_errors_as_not_ready
from counterpoise.broker.config import BrokerConfig
from counterpoise.broker.exposure import exposures
from counterpoise.broker.live import LiveSettings
from counterpoise.broker.load import (
    SharedProcess,
)
from counterpoise.broker.namespaces.bootstrap import bootstrap
from counterpoise.broker.parts import BrokerParts
from counterpoise.broker.server_sockets import ServerSocket, ServerSockets, open_server_sockets
from counterpoise.load.report import LocalBrokerData
from counterpoise.metadata import MetadataStore, SessionEvent, StoreUnavailable
from counterpoise.names.options import ConfigError
from counterpoise.ownership.records import LeaderBroker
from counterpoise.storage.port import LedgerStore

log = logging.getLogger(__name__)

STOP_WITHIN_S: Final = 15.0
"""How long a broker that stops hands its bundles over, before it just leaves."""


class AdminServer(Protocol):
    """The admin API's server, which the broker starts and stops."""

    async def start(self, sockets: Sequence[ServerSocket]) -> None:
        """Serve on bound sockets."""
        ...

    async def stop(self) -> None:
        """Close it and every connection."""
        ...


class Broker(BrokerParts):
    """One broker of a cluster.

    Needs a session of its own with the cluster's metadata, and access of its own to the ledgers
    that all brokers share; it ends both when it ends. Everything else it makes itself, when it
    starts; its parts can be used from then on.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        metadata: MetadataStore,
        ledgers: LedgerStore,
        web: Callable[[Broker], AdminServer] | None = None,
        on_leadership: Callable[[bool], None] | None = None,
        process: SharedProcess | None = None,
    ) -> None:
        super().__init__(
            config,
            metadata=metadata,
            ledgers=ledgers,
            on_leadership=on_leadership or (lambda _: None),
            process=process or SharedProcess(),
        )
        self._web = web(self) if web is not None else None
        #: Set by an administrator's request; the process that runs the broker then stops it.
        self.stop_requested = asyncio.Event()
        self._running = False
        self._leave_session: Callable[[], None] = lambda: None

    @property
    def is_ready(self) -> bool:
        """Whether the broker takes clients."""
        return self._running and self.metadata.connected

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads the cluster."""
        return self.election.is_leader

    def leader(self) -> LeaderBroker | None:
        """The broker that leads the cluster, as last notified; None while no broker does."""
        return self.election.leader

    async def ask_leader(self) -> LeaderBroker | None:
        """Ask the metadata store which broker leads; raises `BrokerError` (ServiceNotReady)."""
        with store_errors_as_not_ready():
            return await self.election.ask()

    async def active_brokers(self) -> list[str]:
        """The ids of the brokers that are alive, sorted."""
        return await self.registry.active()

    async def report_of(self, broker_id: str) -> LocalBrokerData | None:
        """What a broker of the cluster reported last, its addresses too; None if it has left."""
        return await self.registry.report(broker_id)

    def load_report(self) -> LocalBrokerData:
        """What this broker measured last."""
        return self.reporter.report

    async def start(self) -> None:
        """Bind the ports, join the cluster and serve; returns when clients may come.

        Raises OSError when a port is taken, `StoreUnavailable` when the metadata is, and
        `ConfigError` for certificates that cannot be used.
        """
        with contextlib.ExitStack() as stack:
            try:
                sockets = open_server_sockets(self.config, stack)
            except (OSError, ConfigError):
                await self.metadata.close()
                await self._ledgers.close()
                raise
            self.assemble(sockets.addresses(self.config))
            self._running = True
            try:
                await self._join(sockets)
            except BaseException:
                await self.kill()
                raise
            stack.pop_all()
        log.info("broker %s serves %s", self.id, self.service_url)
        for each in exposures(self.config):
            log.warning("%s", each)

    def _set_publish_buffer(self, live: LiveSettings) -> None:
        self.listener.set_publish_buffer(live.config.connection.publish_buffer_mb)

    async def _join(self, sockets: ServerSockets) -> None:
        await bootstrap(self.policies, self.config, self.addresses)
        await self.live.start(self.background)
        self.live.subscribe(lambda _: self.reporter.write_soon())
        self.limits.start(self.background)
        self.live.subscribe(lambda _: self.limits.settings_changed())
        self.live.subscribe(self._set_publish_buffer)
        self._set_publish_buffer(self.live)
        for each in sockets.service:
            await self.listener.start(each.socket, each.tls, each.listener)
        if self._web is not None:
            await self._web.start(sockets.web)
        else:
            for each in sockets.web:
                each.socket.close()
        self._process.join(self._traffic)
        self.background.keep("rate windows", self._turn_rate_windows)
        await self.reporter.start()
        if self.records is not None:
            self.records.start(self.url_for_brokers(), self.topics)
        self.background.keep("bundles of a former life", self.ownership.resume)
        await self.election.start()
        self.repairs.start()
        if self.config.load_balancer_enabled:
            self.load_keeper.start()
            self.background.keep("automatic splits", self.auto_split.run)
            self.background.keep("shedding", self.shedding.run)
            self.live.subscribe(lambda _: self.shedding.settings_changed())
            if self.load_data is not None:
                self.load_data.start()
        self._leave_session = self.metadata.subscribe_session(self._on_session)

    async def stop(self) -> None:
        """Leave in order: bundles go to the other brokers, then connections close."""
        if not self._running:
            return
        self._running = False
        await self.reporter.stop()
        try:
            async with asyncio.timeout(STOP_WITHIN_S):
                # Twice: until it is unregistered, bundles may still be placed here; and from then
                # on what it has left counts as a dead broker's.
                await self.namespaces.leave()
                await self.registry.unregister()
                await self.namespaces.leave()
        except (TimeoutError, StoreUnavailable) as error:
            log.warning("%s leaves without handing everything over: %s", self.id, error)
        await self.election.stop()
        await self.topics.close()
        await self._close()
        await self.metadata.close()

    async def kill(self) -> None:
        """End as a crash would: no bundle handed over, nothing flushed, sessions dropped."""
        self._running = False
        self.metadata.kill()
        self.reporter.kill()
        self.election.kill()
        self.topics.abandon()
        self.listener.kill()
        self.background.cancel()
        await self._close()

    async def _turn_rate_windows(self) -> None:
        while True:
            await asyncio.sleep(self.config.topics.rate_window_s)
            self.topics.clock.turn()

    async def _close(self) -> None:
        self._leave_session()
        self._process.leave(self._traffic)
        await asyncio.gather(*self.load_keeper.stop(), return_exceptions=True)
        if self.load_data is not None:
            await self.load_data.stop()
        self.repairs.close()
        self.ownership.close()
        if self.records is not None:
            self.records.stop()
        self.live.close()
        await self.listener.stop()
        if self._web is not None:
            await self._web.stop()
        await self.background.stop()
        self.limits.stop()
        self.registry.close()
        self.bundles.close()
        await self._ledgers.close()

    def _on_session(self, event: SessionEvent) -> None:
        log.warning("%s: %s with the metadata store", self.id, event.value)
        if event in (SessionEvent.RECONNECTED, SessionEvent.SESSION_REESTABLISHED):
            # Our registration may be gone; the others must see us before they place anything.
            self.reporter.write_soon()
